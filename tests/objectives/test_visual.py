"""LaF-Privacy's losses, by hand, and which way each of them pushes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.objectives.ssim import ssim
from sfumato.objectives.visual import VISUAL_KINDS, embedding_loss, mask_loss, masked_l1, masked_mse, visual_loss


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def row(*clips: list[float]) -> Tensor:
    """Clips of one frame of one row: (B, 1, 3, 1, W), the three colours alike."""
    return torch.tensor(clips)[:, None, None, None].repeat(1, 1, 3, 1, 1)


def mask_row(*clips: list[float]) -> Tensor:
    return torch.tensor(clips)[:, None, None, None]


VIDEO = row([1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5])
OUTPUT = row([0.5, 0.9, 0.0, 0.0], [0.5, 0.0, 0.1, 0.0])
MASK = mask_row([1, 1, 0, 0], [0, 0, 1, 0])


# The visual loss.


def test_masked_mse_worked_by_hand() -> None:
    # clip 0: (.25 + .01) / 2 kept pixels; clip 1: .16 / 1; then the mean over clips, be they masked more or less
    assert masked_mse(VIDEO, OUTPUT, MASK).item() == pytest.approx((0.13 + 0.16) / 2)
    assert masked_mse(VIDEO, OUTPUT, MASK.bool()).item() == pytest.approx(0.145)
    everything = torch.ones_like(MASK)
    assert masked_mse(VIDEO, OUTPUT, everything).item() == pytest.approx(((VIDEO - OUTPUT) ** 2).mean().item())
    # a soft mask weighs: clip 0 alone, (1 · .25 + .5 · .01) / 1.5
    soft = masked_mse(VIDEO[:1], OUTPUT[:1], mask_row([1, 0.5, 0, 0]))
    assert soft.item() == pytest.approx(0.255 / 1.5)


def test_masked_l1_worked_by_hand() -> None:
    assert masked_l1(VIDEO, OUTPUT, MASK).item() == pytest.approx(((0.5 + 0.1) / 2 + 0.4) / 2)


def test_colours_count_by_themselves() -> None:
    video, output = torch.zeros(1, 1, 3, 1, 2), torch.zeros(1, 1, 3, 1, 2)
    output[:, :, 1, :, 0] = 0.6  # green of the kept pixel
    assert masked_mse(video, output, mask_row([1, 0])).item() == pytest.approx(0.36 / 3)


@pytest.mark.parametrize("loss", [masked_mse, masked_l1])
def test_what_is_masked_has_no_part(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    output = OUTPUT.clone().requires_grad_()
    loss(VIDEO, output, MASK).backward()
    assert output.grad is not None
    assert torch.equal(output.grad != 0, (MASK > 0).expand_as(output) & (VIDEO != OUTPUT))
    # uphill is away from the video: the kept pixels are darker than it, and get darker
    assert (output.grad <= 0).all()


def test_a_clip_of_which_nothing_is_kept_counts_nothing() -> None:
    output = OUTPUT.clone().requires_grad_()
    loss = masked_mse(VIDEO, output, mask_row([0, 0, 0, 0], [0, 0, 1, 0]))
    loss.backward()
    assert loss.item() == pytest.approx(0.16 / 2)
    assert output.grad is not None and output.grad.isfinite().all() and not output.grad[0].any()


def pictures() -> tuple[Tensor, Tensor, Tensor]:
    video = noise(2, 2, 3, 12, 12)
    mask = torch.ones(2, 2, 1, 12, 12)
    mask[..., 6:] = 0
    return video, noise(2, 2, 3, 12, 12, seed=1) * mask, mask


def test_the_visual_loss_is_the_weighted_sum_of_its_parts() -> None:
    video, output, mask = pictures()
    mse, l1 = masked_mse(video, output, mask).item(), masked_l1(video, output, mask).item()
    unlike = 1 - ssim(video, output).mean().item()
    assert len({round(x, 3) for x in (mse, l1, unlike)}) == 3
    assert visual_loss(video, output, mask).item() == pytest.approx(mse + unlike)
    for kind, expected in {"mse+ssim": mse + unlike, "ssim": unlike, "mse": mse, "l1+ssim": l1 + unlike}.items():
        assert visual_loss(video, output, mask, kind).item() == pytest.approx(expected)
    weighted = {kind: visual_loss(video, output, mask, kind, pixel_weight=3, ssim_weight=0.5) for kind in VISUAL_KINDS}
    assert weighted["mse+ssim"].item() == pytest.approx(3 * mse + 0.5 * unlike)
    assert weighted["l1+ssim"].item() == pytest.approx(3 * l1 + 0.5 * unlike)


@pytest.mark.parametrize("kind", VISUAL_KINDS)
def test_the_visual_loss_is_a_difference_so_that_uphill_is_away_from_the_video(kind: str) -> None:
    video = noise(1, 2, 3, 12, 12)
    output = (0.8 * video + 0.2 * noise(1, 2, 3, 12, 12, seed=1)).requires_grad_()
    mask = torch.ones(1, 2, 1, 12, 12)
    assert visual_loss(video, video, mask, kind).item() == 0
    loss = visual_loss(video, output, mask, kind)
    (gradient,) = torch.autograd.grad(loss, output)
    assert loss > 0 and (gradient * (video - output)).sum() < 0
    assert visual_loss(video, output + 0.1 * gradient / gradient.norm(), mask, kind) > loss


@pytest.mark.parametrize(("kind", "end"), [("mse+ssim", 3), ("ssim", 2), ("mse", 1), ("l1+ssim", 3)])
def test_the_visual_loss_has_an_end(kind: str, end: float) -> None:
    places = torch.arange(12)
    chessboard = ((places[:, None] + places) % 2).float().expand(1, 1, 3, -1, -1)
    mask = torch.ones(1, 1, 1, 12, 12)
    assert 0.99 * end < visual_loss(chessboard, 1 - chessboard, mask, kind).item() <= end


def test_other_visual_losses_are_refused() -> None:
    with pytest.raises(SfumatoError, match=r"there is no visual loss 'l2': use one of mse\+ssim, ssim, mse, l1\+ssim"):
        visual_loss(*pictures(), "l2")


# The mask loss.


def test_the_mask_loss_worked_by_hand() -> None:
    mask = torch.tensor([[[1.0, 1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.1]], [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.4, 0.0]]])
    assert mask_loss(mask).item() == pytest.approx((2.5 + 0.1 + 4 + 0.4) / 16)
    full = mask.unflatten(2, (2, 2))[:, :, None].repeat_interleave(3, -2).repeat_interleave(3, -1)
    assert mask_loss(full).item() == pytest.approx(7 / 16)
    assert mask_loss(torch.ones(1, 2, 4)).item() == 1 and mask_loss(torch.zeros(1, 2, 4)).item() == 0


def test_downhill_of_the_mask_loss_shows_less() -> None:
    mask = torch.tensor([[[0.9, 0.2]]], requires_grad=True)
    assert torch.autograd.grad(mask_loss(mask), mask)[0].tolist() == [[[0.5, 0.5]]]


def test_scores_that_are_equal_feel_no_mask_loss_and_uneven_ones_get_more_uneven() -> None:
    def gradient(*scores: float) -> list[float]:
        raw = torch.tensor([[scores]], requires_grad=True)
        loss = mask_loss(((raw - raw.mean(-1, keepdim=True)) / 0.05).sigmoid())
        return torch.autograd.grad(loss, raw)[0].flatten().tolist()

    assert gradient(0.3, 0.3, 0.3, 0.3) == pytest.approx([0, 0, 0, 0], abs=1e-6)
    best, *others = gradient(0.3, 0.0, 0.0, 0.0)
    assert best < 0 and min(others) > 0  # downhill, the best goes up and the others down


def test_of_a_softmax_over_patches_the_mask_loss_is_constant() -> None:
    scores = noise(1, 2, 5).requires_grad_()
    loss = mask_loss((scores / 0.05).softmax(-1))
    loss.backward()
    assert loss.item() == pytest.approx(1 / 5)
    assert scores.grad is not None and scores.grad.abs().max() < 1e-6


# The action loss.


def embeddings(scale: float) -> dict[str, Tensor]:
    """One clip of two frames of two patches; differences of 1, 2 and 3 between scales 0 and 1."""
    ones = {"patch": torch.ones(1, 2, 2, 4), "frame": 2 * torch.ones(1, 2, 4), "video": 3 * torch.ones(1, 4)}
    return {level: scale * value for level, value in ones.items()}


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (("patch", "frame", "video"), 14),
        (("patch", "frame"), 5),
        (("patch", "video"), 10),
        (("frame", "video"), 13),
        (("video",), 9),
    ],
)
def test_the_embedding_loss_worked_by_hand(levels: tuple[str, ...], expected: float) -> None:
    assert embedding_loss(embeddings(0), embeddings(1), levels).item() == pytest.approx(expected)
    assert embedding_loss(embeddings(1), embeddings(1), levels).item() == 0


def test_all_levels_count_unless_told_and_only_those_are_needed() -> None:
    assert embedding_loss(embeddings(0), embeddings(1)).item() == pytest.approx(14)
    video = [{"video": each["video"]} for each in (embeddings(0), embeddings(1))]
    assert embedding_loss(*video, levels=["video"]).item() == pytest.approx(9)
    # a mean over values: of (1, 3) off by (1, 3), (1 + 9) / 2
    pair = [{"frame": torch.zeros(1, 1, 2)}, {"frame": torch.tensor([[[1.0, 3.0]]])}]
    assert embedding_loss(*pair, levels=["frame"]).item() == pytest.approx(5)


def test_only_the_anonymised_learns_and_towards_the_raw() -> None:
    raw = {level: value.requires_grad_() for level, value in embeddings(1).items()}
    anonymised = {level: value.requires_grad_() for level, value in embeddings(0.5).items()}
    embedding_loss(raw, anonymised, ("patch", "video")).backward()
    assert all(value.grad is None for value in raw.values()) and anonymised["frame"].grad is None
    for level, count in {"patch": 16, "video": 4}.items():
        gradient = anonymised[level].grad
        assert gradient is not None
        torch.testing.assert_close(gradient, 2 * (anonymised[level] - raw[level]).detach() / count)
        assert (gradient < 0).all()  # downhill is up, to the raw


@pytest.mark.parametrize("levels", [(), ("cls",), ("patch", "text")])
def test_levels_that_are_none_are_refused(levels: tuple[str, ...]) -> None:
    with pytest.raises(SfumatoError, match="are no levels of embeddings: name some of patch, frame, video"):
        embedding_loss(embeddings(0), embeddings(1), levels)


def test_embeddings_of_other_shapes_are_not_stretched() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        embedding_loss({"video": torch.zeros(2, 4)}, {"video": torch.zeros(1, 4)}, ["video"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [*VISUAL_KINDS, "mask", "embedding"])
def test_half_precision_is_computed_in_float32(name: str, dtype: torch.dtype) -> None:
    def loss(video: Tensor, output: Tensor, mask: Tensor) -> Tensor:
        if name == "mask":
            return mask_loss(mask)
        if name == "embedding":
            return embedding_loss({"video": video}, {"video": output}, ["video"])
        return visual_loss(video, output, mask, name)

    half = [noise(2, 2, channels, 12, 12, seed=seed).to(dtype) for seed, channels in enumerate((3, 3, 1))]
    exact = loss(*(each.float() for each in half))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = loss(*half)
    assert cast.dtype == torch.float32 and cast.shape == ()
    assert loss(*half).item() == cast.item() == exact.item()
