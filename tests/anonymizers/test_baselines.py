"""The training-free anonymizers of whole frames, and what holds for every registered anonymizer of any clips."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import ANONYMIZERS, Anonymizer, load, untrained
from sfumato.anonymizers.blur import Blur, gaussian_blur
from sfumato.anonymizers.downsample import Downsample
from sfumato.anonymizers.pixelate import Pixelate
from sfumato.errors import SfumatoError

WHOLE_FRAME = ["identity", "downsample", "pixelate", "blur"]
# The others take clips of their own size only, and their own tests hold them to the same.
ANY_CLIP = [name for name in ANONYMIZERS.names() if name not in ("tubelets", "masked-transformer")]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def run(anonymizer: Anonymizer, video: Tensor) -> Tensor:
    """Every anonymizer, those of people with a box that differs from clip to clip."""
    if not anonymizer.needs_people:
        return anonymizer(video)
    people = (video[:, :, :1] > 0.5).float()
    return anonymizer(video, people=people)


def assert_independent_of_batch_mates(anonymizer: Anonymizer) -> None:
    video = noise(3, 2, 3, 24, 20)
    video[1] = 1 - video[1] / 10  # batch-mates of quite another brightness
    video[2] = 0
    together = run(anonymizer, video)
    for index in range(len(video)):
        alone = run(anonymizer, video[index : index + 1])
        torch.testing.assert_close(together[index : index + 1], alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ANY_CLIP)
def test_trap_4_output_does_not_depend_on_batch_mates(name: str) -> None:
    assert_independent_of_batch_mates(untrained(name))


def test_trap_4_is_caught() -> None:
    class MinMax(Anonymizer):
        name, summary = "minmax", "stretches the contrast of the whole batch"

        def forward(self, video: Tensor) -> Tensor:
            return (video - video.min()) / (video.max() - video.min())

    with pytest.raises(AssertionError):
        assert_independent_of_batch_mates(MinMax())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ANY_CLIP)
def test_shape_type_and_range_are_kept(name: str, dtype: torch.dtype) -> None:
    anonymizer = untrained(name)
    for height, width in ((32, 48), (17, 23), (5, 3), (1, 1)):
        video = noise(2, 2, 3, height, width).to(dtype)
        video[0] = 1  # white, which rounding alone could push above 1
        output = run(anonymizer, video)
        assert output.shape == video.shape
        assert output.dtype == dtype
        assert output.min() >= 0
        assert output.max() <= 1
        assert torch.equal(output, run(anonymizer, video))


@pytest.mark.parametrize("name", ANY_CLIP)
def test_gradients_reach_the_video(name: str) -> None:
    video = noise(1, 2, 3, 12, 12).requires_grad_()
    run(untrained(name), video).sum().backward()
    assert video.grad is not None
    assert video.grad.isfinite().all()
    assert video.grad.abs().sum() > 0


@pytest.mark.parametrize("name", [name for name in WHOLE_FRAME if name != "identity"])
def test_frames_and_channels_do_not_mix(name: str) -> None:
    video = torch.zeros(1, 3, 3, 16, 16)
    video[0, 1, 2] = noise(16, 16)
    output = load(name)(video)
    assert output[0, 1, 2].sum() > 0
    output[0, 1, 2] = 0
    assert output.count_nonzero() == 0


@pytest.mark.parametrize("name", WHOLE_FRAME)
def test_a_flat_frame_stays_flat_up_to_the_border(name: str) -> None:
    video = torch.full((1, 1, 3, 19, 13), 0.7)
    torch.testing.assert_close(load(name)(video), video)


def test_identity_is_the_video() -> None:
    video = noise(1, 2, 3, 8, 8)
    assert torch.equal(load("identity")(video), video)


def test_downsample_by_hand() -> None:
    # 1×4 pixels, factor 2: areas (0+1)/2 and (0+0)/2; bilinear back: .5, .75·.5, .25·.5, 0
    video = torch.tensor([0.0, 1.0, 0.0, 0.0]).view(1, 1, 1, 1, 4)
    expected = torch.tensor([0.5, 0.375, 0.125, 0.0]).view(1, 1, 1, 1, 4)
    torch.testing.assert_close(Downsample(factor=2)(video), expected)


def test_downsample_keeps_no_more_pixels_than_asked_for() -> None:
    # 15 / 4 = 3.75: three pixels, so the outcome has rank three
    for height, width in ((15, 30), (30, 15)):
        frame = Downsample(factor=4)(noise(1, 1, 1, height, width).double())[0, 0, 0]
        assert torch.linalg.matrix_rank(frame) == 3


def test_downsample_by_one_changes_nothing() -> None:
    video = noise(1, 1, 3, 9, 7)
    torch.testing.assert_close(Downsample(factor=1)(video), video)


def test_pixelate_by_hand_also_where_the_border_cuts_a_block() -> None:
    video = torch.tensor([[0.0, 0.2, 0.9], [0.4, 0.6, 0.5], [0.1, 0.3, 0.8]]).view(1, 1, 1, 3, 3)
    expected = torch.tensor([[0.3, 0.3, 0.7], [0.3, 0.3, 0.7], [0.2, 0.2, 0.8]]).view(1, 1, 1, 3, 3)
    torch.testing.assert_close(Pixelate(block=2)(video), expected)


def test_pixelate_with_a_block_larger_than_the_frame_is_one_colour() -> None:
    video = noise(1, 1, 3, 5, 9)
    expected = video.mean(dim=(-2, -1), keepdim=True).expand_as(video)
    torch.testing.assert_close(Pixelate(block=64)(video), expected)


def test_blur_by_hand() -> None:
    # a kernel of 3 with σ = 1: weights e^-.5, 1, e^-.5 over their sum, in both directions
    side = math.exp(-0.5) / (1 + 2 * math.exp(-0.5))
    middle = 1 - 2 * side
    video = torch.zeros(1, 1, 1, 5, 5)
    video[..., 2, 2] = 1
    line = torch.tensor([0, side, middle, side, 0])
    torch.testing.assert_close(gaussian_blur(video, sigma=1.0, kernel=3)[0, 0, 0], torch.outer(line, line))


def test_blur_repeats_the_border() -> None:
    # a bright first column: pixel 0 sees it with its own and the outer weight
    side = math.exp(-0.5) / (1 + 2 * math.exp(-0.5))
    video = torch.zeros(1, 1, 1, 1, 3)
    video[..., 0] = 1
    expected = torch.tensor([1 - side, side, 0.0]).view(1, 1, 1, 1, 3)
    torch.testing.assert_close(gaussian_blur(video, sigma=1.0, kernel=3), expected)


def test_blur_reaches_three_sigma_and_no_further() -> None:
    video = torch.zeros(1, 1, 1, 1, 41)
    video[..., 20] = 1
    reached = Blur(sigma=2.5)(video)[0, 0, 0, 0].nonzero().flatten()
    assert reached.tolist() == list(range(20 - 8, 20 + 9))  # 3 · 2.5 = 7.5, so 8 pixels


@pytest.mark.parametrize(("name", "weak", "strong"), [("downsample", 2, 16), ("pixelate", 2, 16), ("blur", 1, 8)])
def test_more_strength_leaves_less_detail(name: str, weak: float, strong: float) -> None:
    video = noise(1, 2, 3, 32, 32)
    deviations = [load(name, strength=value)(video).std() for value in (weak, strong)]
    assert video.std() > deviations[0] > deviations[1]


@pytest.mark.parametrize("kind", [Downsample, Pixelate, Blur])
@pytest.mark.parametrize("value", [0, -1, 1e6, math.nan, math.inf])
def test_strength_out_of_range_is_refused(kind: type[Anonymizer], value: float) -> None:
    with pytest.raises(SfumatoError, match=f"{kind.knobs[0].name} = .* out of range"):
        kind(**{kind.knobs[0].name: value})


@pytest.mark.parametrize("name", ["downsample", "pixelate", "blur"])
def test_a_larger_frame_is_hidden_as_well_as_a_small_one(name: str) -> None:
    """What is judged on 112 px must not become weaker on a camera's frame of four times the side."""
    small = torch.rand(1, 1, 3, 14, 14, generator=torch.Generator().manual_seed(0))
    fine, coarse = (torch.nn.functional.interpolate(small[0], scale_factor=f, mode="nearest")[None] for f in (32, 8))
    anonymizer = load(name)
    on_camera = torch.nn.functional.avg_pool2d(anonymizer(fine)[0], 4)
    assert fine.shape[-1] == 448 and coarse.shape[-1] == 112
    assert on_camera.allclose(anonymizer(coarse)[0], atol=0.02)


@pytest.mark.parametrize(
    ("video", "complaint"),
    [
        (torch.rand(4, 3, 8, 8), r"\(4, 3, 8, 8\) is no video: give \(batch, frames, colours"),
        (torch.rand(1, 3, 4, 8, 8), "is no video"),  # channels before time
        (torch.rand(1, 4, 8, 8, 3), "is no video"),  # channels last
        (torch.zeros(1, 4, 3, 8, 8, dtype=torch.uint8), "a video of torch.uint8 was given: give floats"),
        (
            255 * torch.rand(1, 4, 3, 8, 8),
            r"not within \[0, 1\] \(.* to 2.*\): give it as it is stored, divided by 255",
        ),
        (torch.rand(1, 4, 3, 8, 8) - 0.5, r"not within \[0, 1\]"),
        (torch.full((1, 4, 3, 8, 8), math.nan), r"not within \[0, 1\]"),
    ],
)
def test_what_is_no_video_is_refused(video: Tensor, complaint: str) -> None:
    for name in ("blur", "unet"):
        with pytest.raises(SfumatoError, match=complaint):
            untrained(name)(video)


def test_values_are_looked_at_in_use_but_not_in_training_where_a_gpu_would_wait() -> None:
    video = 2 * noise(1, 1, 3, 8, 8)
    with pytest.raises(SfumatoError, match="not within"):
        untrained("blur")(video)
    assert untrained("blur").train()(video).shape == video.shape
    with pytest.raises(SfumatoError, match="is no video"):
        untrained("blur").train()(video[0])


def test_rounding_outside_the_range_is_forgiven() -> None:
    assert load("blur")(torch.full((1, 1, 3, 8, 8), 1.0005)).max() <= 1


def test_an_anonymizer_can_be_exported_all_the_same() -> None:
    video = noise(1, 2, 3, 16, 16)
    exported = torch.export.export(load("downsample"), (video,))
    torch.testing.assert_close(exported.module()(video), load("downsample")(video))


@pytest.mark.parametrize(
    ("raw", "hidden"),
    [
        ("pixelate:block=1", "pixelate:block=2"),
        ("downsample:factor=1", "downsample:factor=2"),
        ("downsample:factor=1.1", "downsample:factor=1.25"),
        ("blur:sigma=0.1", "blur:sigma=0.5"),
        ("blur:sigma=0.49", "blur"),
        ("noisy-features:kept=8,noise=0", "noisy-features:kept=4,noise=0"),
        ("noisy-features:kept=7,noise=0.01", "noisy-features:kept=8,noise=0.5"),
        ("identity", "blacken-people:margin=0"),
    ],
)
def test_what_changes_nothing_says_so(raw: str, hidden: str) -> None:
    assert load(raw).changes_nothing and not load(hidden).changes_nothing
    video = noise(1, 1, 3, 112, 112)
    assert load(raw)(video).shape == video.shape  # the judge takes it all the same


def test_tubelets_that_all_come_out_as_they_came_in_change_nothing() -> None:
    small = {"embedding": 8, "depth": 1, "patch": 8, "size": 16}
    assert untrained("tubelets", alpha=1.0, anonymize=False, **small).changes_nothing
    assert not untrained("tubelets", alpha=0.7, anonymize=False, **small).changes_nothing
    assert not untrained("tubelets", alpha=1.0, **small).changes_nothing


def test_a_block_is_a_whole_number() -> None:
    with pytest.raises(SfumatoError, match=r"block = 2.5 does not fit: block is a whole number"):
        load("pixelate", strength=2.5)
