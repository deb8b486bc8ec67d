"""Every recognizer: one interface, true RGB inside, published sizes, no word about batch-mates."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.recognizers import RECOGNIZERS, FrameRecognizer, Recognizer, level_of, make_recognizer

CLIP = (4, 32, 32)
CONVOLUTIONAL = [name for name in RECOGNIZERS.names() if "vit" not in name]


def small(name: str, outputs: int = 5, **options: Any) -> Recognizer:
    torch.manual_seed(0)
    depths = {"vit-s": 2, "vit-b": 2, "mvit-v2-s": 6}
    shallow = {"depth": depths[name]} if name in depths else {}
    return make_recognizer(name, outputs, clip=CLIP, width=0.125, **shallow, **options)


def videos(count: int = 2, seed: int = 0) -> Tensor:
    return torch.rand(count, CLIP[0], 3, *CLIP[1:], generator=torch.Generator().manual_seed(seed))


def test_names_are_the_agreed_ones() -> None:
    assert " ".join(RECOGNIZERS.names()) == (
        "r3d-18 r2plus1d-18 c3d i3d-r50 resnet-18 resnet-34 resnet-50 resnet-101 resnet-152 mobilenet-v1 "
        "vit-s vit-b mvit-v2-s tiny-video tiny-frame"
    )
    assert all(entry.summary.startswith(("video: ", "frame: ")) for entry in RECOGNIZERS)


@pytest.mark.parametrize("name", RECOGNIZERS.names())
def test_one_interface(name: str) -> None:
    recognizer = small(name).eval()
    video = videos()
    with torch.no_grad():
        features, logits = recognizer.features(video), recognizer(video)
    assert features.shape == (2, recognizer.feature_width)
    assert logits.shape == (2, 5)
    assert RECOGNIZERS.find(name).summary.startswith(recognizer.level) and level_of(name) == recognizer.level
    # The head is the last thing that happens: features and logits are of one pass, not of two.
    torch.testing.assert_close(recognizer.classify(features), logits, rtol=1e-4, atol=1e-4 * logits.abs().max().item())


@pytest.mark.parametrize("name", RECOGNIZERS.names())
def test_every_parameter_learns(name: str) -> None:
    recognizer = small(name)
    recognizer(videos(3)).square().sum().backward()
    without = [key for key, value in recognizer.named_parameters() if value.grad is None]
    assert without == []
    assert all(torch.isfinite(value.grad).all() for value in recognizer.parameters() if value.grad is not None)


@pytest.mark.parametrize("name", RECOGNIZERS.names())
def test_trap_1_colours_stay_colours(name: str) -> None:
    """Each frame has one colour of its own; the first layer must see that colour in that frame."""
    recognizer = small(name).eval()
    colours = torch.rand(2, CLIP[0], 3, generator=torch.Generator().manual_seed(1))
    seen: list[Tensor] = []
    first = next(module for module in recognizer.modules() if isinstance(module, nn.Conv2d | nn.Conv3d | nn.Linear))
    first.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        recognizer(colours[..., None, None].expand(-1, -1, -1, *CLIP[1:]))
    # Put back what the first layer saw at one inner pixel into (batch, time, colour).
    if isinstance(first, nn.Conv2d):
        shown = seen[0][..., 16, 16].view(2, CLIP[0], 3)
    elif isinstance(first, nn.Conv3d):
        shown = seen[0][:, :3, ..., 16, 16].transpose(1, 2)  # tiny-video sees the changes beside the colours
    else:  # tubelets: (batch, 2 steps of time × 4 places, 3 colours × 2 frames × 256 pixels)
        shown = seen[0].view(2, 2, 4, 3, 2, 256)[:, :, 0, ..., 0].transpose(2, 3).flatten(1, 2)
    torch.testing.assert_close(shown * recognizer.std.view(3) + recognizer.mean.view(3), colours)


@pytest.mark.parametrize("name", ["tiny-video", "tiny-frame", "vit-s", "resnet-18"])
def test_trap_1_colour_before_time_is_refused(name: str) -> None:
    with pytest.raises(SfumatoError, match=r"is no video: give \(batch, frames, 3 colours"):
        small(name)(videos().transpose(1, 2))


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in RECOGNIZERS.names()]
    + [(name, {"norm": "group"}) for name in CONVOLUTIONAL]
    + [("c3d", {"norm": "batch"})],
)
def test_trap_4_batch_mates_do_not_matter(name: str, options: dict[str, Any]) -> None:
    recognizer = small(name, **options)
    others = videos(3, seed=7) * torch.tensor([0.1, 1.0, 0.5]).view(3, 1, 1, 1, 1)
    with torch.no_grad():
        recognizer(others)  # in train mode, so that running statistics are not those of a fresh network
        recognizer.eval()
        alone = recognizer(others[1:2])
        together = recognizer(others)[1:2]
    torch.testing.assert_close(alone, together, rtol=1e-3, atol=1e-4 * together.abs().max().item())
    assert alone.abs().max() > 1e-6


@pytest.mark.parametrize("name", ["resnet-18", "tiny-frame", "mobilenet-v1"])
def test_frame_level_logits_are_the_mean_of_the_frames_logits(name: str) -> None:
    recognizer = small(name).eval()
    video = videos()
    with torch.no_grad():
        each = torch.stack([recognizer(video[:, t : t + 1]) for t in range(CLIP[0])])
        torch.testing.assert_close(recognizer(video), each.mean(0), rtol=1e-4, atol=1e-5)
        # A frame-level model cannot know the order of the frames.
        torch.testing.assert_close(recognizer(video.flip(1)), recognizer(video), rtol=1e-4, atol=1e-5)
    assert isinstance(recognizer, FrameRecognizer)
    assert recognizer.frame_features(video).shape == (2, CLIP[0], recognizer.feature_width)


@pytest.mark.parametrize("name", ["r3d-18", "r2plus1d-18", "c3d", "i3d-r50", "vit-s", "mvit-v2-s", "tiny-video"])
def test_video_level_sees_the_order_of_the_frames(name: str) -> None:
    recognizer = small(name).eval()
    video = videos()
    with torch.no_grad():
        forwards, backwards = recognizer.features(video), recognizer.features(video.flip(1))
    assert (forwards - backwards).abs().max() > 1e-3 * forwards.abs().max()


@pytest.mark.parametrize(
    ("name", "outputs", "clip", "parameters"),
    [
        ("r3d-18", 400, (16, 112, 112), 33_371_472),
        ("r2plus1d-18", 400, (16, 112, 112), 31_505_325),
        ("c3d", 101, (16, 112, 112), 78_409_573),  # 27,655,936 in the convolutions, 8192 → 4096 → 4096 → 101
        ("i3d-r50", 400, (8, 224, 224), 28_043_472),
        ("resnet-18", 1000, (1, 224, 224), 11_689_512),
        ("resnet-34", 1000, (1, 224, 224), 21_797_672),
        ("resnet-50", 1000, (1, 224, 224), 25_557_032),
        ("resnet-101", 1000, (1, 224, 224), 44_549_160),
        ("resnet-152", 1000, (1, 224, 224), 60_192_808),
        ("mobilenet-v1", 1000, (1, 224, 224), 4_231_976),
        # patch 1536·D + D, positions 8·49·D, twelve layers of 12·D² + 13·D, a norm of 2·D, the head.
        ("vit-s", 101, (16, 112, 112), 1537 * 384 + 392 * 384 + 12 * (12 * 384**2 + 13 * 384) + 768 + 385 * 101),
        ("vit-b", 101, (16, 112, 112), 1537 * 768 + 392 * 768 + 12 * (12 * 768**2 + 13 * 768) + 1536 + 769 * 101),
    ],
)
def test_parameter_counts_are_the_published_ones(
    name: str, outputs: int, clip: tuple[int, int, int], parameters: int
) -> None:
    with torch.device("meta"):
        recognizer = make_recognizer(name, outputs, clip=clip)
    assert sum(parameter.numel() for parameter in recognizer.parameters()) == parameters


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_group_norm_leaves_no_batch_norm(name: str) -> None:
    recognizer = small(name, norm="group")
    assert not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in recognizer.modules())
    assert any(isinstance(module, nn.GroupNorm) for module in recognizer.modules())


def test_mobilenet_running_statistics_move_slowly() -> None:
    norms = [module for module in small("mobilenet-v1").modules() if isinstance(module, nn.BatchNorm2d)]
    assert len(norms) == 27
    assert {module.momentum for module in norms} == {0.1}
    assert {module.eps for module in norms} == {0.001}


def test_width_scales_to_multiples_of_eight() -> None:
    assert small("r3d-18").feature_width == 64
    assert make_recognizer("tiny-video", 2, clip=CLIP, width=0.3).feature_width == 2 * 32  # 96 · .3 = 28.8
    assert make_recognizer("vit-s", 2, clip=CLIP, width=0.01, depth=1).feature_width == 8


@pytest.mark.parametrize("name", RECOGNIZERS.names())
def test_runs_in_bfloat16_autocast(name: str) -> None:
    recognizer = small(name).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(recognizer(videos())).all()


def test_options_are_checked_by_name() -> None:
    with pytest.raises(SfumatoError, match="'vit-s' has no option 'norm': it takes width, depth"):
        make_recognizer("vit-s", 2, clip=CLIP, norm="group")
    with pytest.raises(SfumatoError, match="did you mean 'r3d-18'"):
        make_recognizer("r3d18", 2, clip=CLIP)
    with pytest.raises(SfumatoError, match="no norm 'layer': use 'batch' or 'group'"):
        make_recognizer("tiny-video", 2, clip=CLIP, norm="layer")
    with pytest.raises(SfumatoError, match="width = 0 leaves no channels"):
        make_recognizer("tiny-video", 2, clip=CLIP, width=0)
    with pytest.raises(SfumatoError, match="cannot have 0 outputs"):
        make_recognizer("tiny-video", 0, clip=CLIP)
    with pytest.raises(SfumatoError, match="is no clip"):
        make_recognizer("tiny-video", 2, clip=(0, 32, 32))


def test_every_maker_takes_a_width() -> None:
    assert all("width" in inspect.signature(entry.make).parameters for entry in RECOGNIZERS)
