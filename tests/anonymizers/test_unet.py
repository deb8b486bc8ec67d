"""`unet` and `unet++`: what holds for both networks of frames, and their layers counted by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from sfumato.anonymizers import label, load, save, untrained
from sfumato.anonymizers.base import ClipSpec
from sfumato.anonymizers.bottleneck import FrameNetwork
from sfumato.anonymizers.unet import UNet, doubled_by_products
from sfumato.anonymizers.unet_plus_plus import UNetPlusPlus
from sfumato.cli import main
from sfumato.errors import SfumatoError
from sfumato.video import VideoWriter, probe, read_frames


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def make(name: str, **settings: Any) -> FrameNetwork:
    """A small network in eval mode, with batch statistics that are not those it began with."""
    torch.manual_seed(0)
    network = untrained(name, **{"width": 4 if name == "unet" else 0.125, **settings})
    assert isinstance(network, FrameNetwork)
    network.train()(noise(4, 1, 3, 32, 32))
    return network.eval()


NETWORKS = pytest.mark.parametrize("name", ["unet", "unet++"])
NORMS = pytest.mark.parametrize("norm", ["group", "batch"])


@NETWORKS
@NORMS
@pytest.mark.parametrize(("height", "width"), [(32, 48), (17, 30), (5, 3), (1, 1)])
def test_any_size_keeps_shape_and_range_and_gives_the_same_again(name: str, norm: str, height: int, width: int) -> None:
    network, video = make(name, norm=norm), noise(2, 3, 3, height, width)
    output = network(video)
    assert output.shape == video.shape
    assert 0 <= output.min() <= output.max() <= 1
    assert torch.equal(output, network(video))


@NETWORKS
@NORMS
def test_every_frame_is_seen_alone(name: str, norm: str) -> None:
    """Independent of batch-mates and of the frames beside it."""
    network, video = make(name, norm=norm), noise(3, 2, 3, 20, 24)
    video[1] = 1 - video[1] / 10
    together = network(video)
    for clip in range(3):
        for frame in range(2):
            alone = network(video[clip : clip + 1, frame : frame + 1])
            torch.testing.assert_close(together[clip : clip + 1, frame : frame + 1], alone, atol=1e-5, rtol=0)


@NETWORKS
def test_odd_sides_are_filled_with_the_border_and_cut_back(name: str) -> None:
    network, video = make(name), noise(1, 2, 3, 19, 33)
    filled = functional.pad(video[0], (0, 15, 0, 13), mode="replicate")[None]  # to 32 × 48
    torch.testing.assert_close(network(video), network(filled)[..., :19, :33])


@NETWORKS
@NORMS
@pytest.mark.parametrize("narrow", [{}, {"levels": 4, "cell": 2, "grey": True}])
def test_the_gradient_reaches_every_parameter(name: str, norm: str, narrow: dict[str, int]) -> None:
    network = make(name, norm=norm, **narrow).train()
    (network(noise(2, 2, 3, 40, 40)) * noise(2, 2, 3, 40, 40, seed=1)).sum().backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, key


@NETWORKS
@NORMS
def test_what_is_saved_gives_the_same_output(name: str, norm: str, tmp_path: Path) -> None:
    network = make(name, norm=norm, levels=5, cell=3, grey=True, size=48, frames=2, frame_step=3, centred=0.5)
    again = load(save(network, tmp_path))
    video = noise(1, 2, 3, 30, 20)
    assert torch.equal(network(video), again(video))
    assert again.settings() == network.settings()
    assert list(again.settings().values())[1:] == [norm, 5, 3, True, 48, 2, 3, 0.5]
    assert again.spec == ClipSpec(length=2, size=(48, 48), frame_step=3, blend=False)
    assert label(again) == label(network)
    with pytest.raises(SfumatoError, match=r"'levels' of .* cannot be set: what can: centred"):
        load(tmp_path, levels=2)
    assert load(tmp_path, strength=0).spec == ClipSpec(size=(48, 48))


@NETWORKS
def test_each_network_has_its_own_size(name: str) -> None:
    assert make(name).spec == ClipSpec(length=None, size=(112, 112))
    assert make(name, size=0).spec == ClipSpec()


@NETWORKS
def test_no_more_comes_out_than_the_bottleneck_lets_through(name: str) -> None:
    # 3 × 2 cells of one bit: at most 2^6 pictures whatever comes in, and here each cell is black or white
    network = make(name, levels=2, cell=8, grey=True)
    output = network(noise(1, 8, 3, 24, 16))[0]
    cells = output[:, 0, ::8, ::8]
    assert network.bottleneck.bits(24, 16) == cells[0].numel() == 6
    assert set(output.unique().tolist()) <= {0.0, 1.0}
    shown = cells.repeat_interleave(8, -2).repeat_interleave(8, -1)[:, None].expand_as(output)
    assert torch.equal(output, shown)


@NETWORKS
def test_half_precision_weights_and_autocast_keep_the_videos_type(name: str) -> None:
    network, video = make(name), noise(1, 2, 3, 49, 64)
    exact = network(video)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = network(video)
    for output in (mixed, network.bfloat16()(video)):
        assert output.dtype == torch.float32
        assert 0 < (output - exact).abs().mean() < 0.02


@NETWORKS
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"width": 0}, "width = 0 leaves no channels"),
        ({"norm": "layer"}, "no norm 'layer'"),
        ({"size": -1}, "size = -1"),
        ({"levels": 1}, "levels = 1"),
        ({"cell": 0}, "cell = 0"),
    ],
)
def test_settings_that_make_no_network_are_refused(name: str, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        untrained(name, **settings)


def parameters(network: FrameNetwork) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def double(inputs: int, middle: int, outputs: int) -> int:
    """Two 3×3 convolutions without bias, each with a norm's scale and shift."""
    return 9 * inputs * middle + 2 * middle + 9 * middle * outputs + 2 * outputs


def test_the_papers_unet_counted_by_hand() -> None:
    encoder = [
        (double(3, 64, 64), 38_848),
        (double(64, 128, 128), 221_696),
        (double(128, 256, 256), 885_760),
        (double(256, 512, 512), 3_540_992),
        (double(512, 512, 512), 4_720_640),
    ]
    decoder = [  # the features below and the encoder's of the same size, joined
        (double(512 + 512, 512, 256), 5_899_776),
        (double(256 + 256, 256, 128), 1_475_328),
        (double(128 + 128, 128, 64), 369_024),
        (double(64 + 64, 64, 64), 110_848),
    ]
    assert all(formula == number for formula, number in encoder + decoder)
    output = 64 * 3 + 3
    # 9 407 936 + 7 854 976 + 195
    assert (
        parameters(UNet(width=64, norm="batch")) == sum(count for _, count in encoder + decoder) + output == 17_263_107
    )


def test_the_papers_unet_plus_plus_counted_by_hand() -> None:
    def stage(inputs: int, outputs: int) -> int:
        """Two ResNet blocks, the first with stride 2 and a 1×1 shortcut."""
        return double(inputs, outputs, outputs) + inputs * outputs + 2 * outputs + double(outputs, outputs, outputs)

    stem = 3 * 64 * 49 + 2 * 64
    encoder = stem + 2 * double(64, 64, 64) + stage(64, 128) + stage(128, 256)
    # X(row, column): what is in its row so far, and the node below it on the diagonal before
    first = double(64 + 64, 64, 64) + double(64 + 128, 64, 64) + double(128 + 256, 256, 256)
    second = double(2 * 64 + 64, 64, 64) + double(2 * 64 + 256, 128, 128)
    third = double(3 * 64 + 128, 64, 64)
    last = double(64, 32, 32)
    output = 9 * 32 * 3 + 3
    expected = encoder + first + second + third + last + output
    assert parameters(UNetPlusPlus(norm="batch")) == expected


def test_the_encoder_has_torchvisions_names() -> None:
    encoder = UNetPlusPlus(norm="batch").encoder.state_dict()
    shapes = {key: tuple(value.shape) for key, value in encoder.items() if "num_batches" not in key}
    assert shapes["conv1.weight"] == (64, 3, 7, 7)
    assert shapes["layer1.1.conv2.weight"] == (64, 64, 3, 3)
    assert shapes["layer2.0.downsample.0.weight"] == (128, 64, 1, 1)
    assert shapes["layer3.0.downsample.1.running_var"] == shapes["layer3.1.bn2.bias"] == (256,)
    assert len(shapes) == 75  # convolutions 15, norms 15 of four


def test_the_command_anonymizes_with_a_saved_network_and_keeps_the_videos_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(UNet(width=8, levels=2, cell=8, grey=True, size=64).eval(), tmp_path / "model")
    pictures = np.random.default_rng(0).integers(0, 255, (7, 50, 90, 3), dtype=np.uint8)
    with VideoWriter(tmp_path / "in.mp4", 10, (50, 90)) as writer:
        for picture in pictures:
            writer.write(picture)
    arguments = ["anonymize", tmp_path / "in.mp4", "-o", tmp_path / "out.mp4", "--with", folder, "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["sfumato", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    before, after = probe(tmp_path / "in.mp4"), probe(tmp_path / "out.mp4")
    assert (after.width, after.height, after.frames, after.fps) == (90, 50, 7, before.fps)
    for frame in read_frames(tmp_path / "out.mp4"):
        colours = frame.astype(int)
        assert np.abs(colours - colours.mean(axis=-1, keepdims=True)).max() < 12  # grey, but for the codec's rounding


@NETWORKS
def test_a_network_without_weights_is_no_anonymizer(name: str) -> None:
    with pytest.raises(SfumatoError, match=r"without weights is no anonymizer.*sfumato train"):
        load(name)


@pytest.mark.parametrize("shape", [(2, 3, 7, 9), (1, 5, 1, 4), (2, 4, 14, 14)])
def test_products_double_frames_as_interpolation_does(shape: tuple[int, ...]) -> None:
    frames = torch.rand(shape, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with torch.inference_mode():
        doubled_by_products(frames)  # what it keeps for later must not be bound to inference
    ours = doubled_by_products(frames)
    theirs = functional.interpolate(frames, scale_factor=2, mode="bilinear", align_corners=True)
    assert torch.allclose(ours, theirs, atol=1e-6)
    weights = torch.linspace(0, 1, ours.numel()).view(ours.shape)
    gradients = [torch.autograd.grad((out * weights).sum(), frames)[0] for out in (ours, theirs)]
    assert torch.allclose(*gradients, atol=1e-5)
