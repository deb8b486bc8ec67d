from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from sfumato.anonymizers import load
from sfumato.anonymizers.base import Anonymizer, ClipSpec
from sfumato.datasets.base import Clips
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import material as held
from sfumato.evaluation.material import Material, anonymize_clips

CPU = torch.device("cpu")


def clips(count: int = 5, views: int = 2, people: bool = False) -> Clips:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, views, 3, 3, 8, 8), generator=generator, dtype=torch.uint8)
    mask = torch.zeros(count, views, 3, 1, 8, 8, dtype=torch.uint8)
    mask[..., 4:] = 1
    return Clips(pixels, mask if people else None)


class Given(Anonymizer):
    """Does what it is given."""

    name = "given"
    summary = "for tests"

    def __init__(self, change: nn.Module) -> None:
        super().__init__()
        self.change = change

    def forward(self, video: Tensor) -> Tensor:
        changed: Tensor = self.change(video)
        return changed


class Shifted(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, video: Tensor) -> Tensor:
        return video + self.by


def test_identity_gives_the_same_bytes() -> None:
    assert anonymize_clips(load("identity"), clips(), CPU, batch=3).equal(clips().pixels)


def test_every_view_goes_through_the_anonymizer_whatever_the_batch() -> None:
    anonymizer = load("downsample:factor=4")
    told: list[tuple[int, int]] = []
    found = anonymize_clips(anonymizer, clips(), CPU, batch=4, progress=lambda *line: told.append(line))
    assert found.equal(anonymize_clips(anonymizer, clips(), CPU, batch=100))
    assert told == [(4, 10), (8, 10), (10, 10)]
    by_hand = anonymizer(clips().pixels[2, 1][None].float() / 255)[0]
    assert found[2, 1].equal((by_hand * 255).round().to(torch.uint8))


def test_a_network_is_judged_at_the_size_it_is_used_at() -> None:
    sizes = []

    class Blackened(nn.Module):
        """The left half of the picture it is shown goes black."""

        def forward(self, video: Tensor) -> Tensor:
            sizes.append(tuple(video.shape))
            return torch.where(torch.arange(video.shape[-1]) < video.shape[-1] // 2, 0.0, video)

    anonymizer, given = Given(Blackened()), clips(count=2)
    anonymizer.spec = ClipSpec(size=(32, 32))
    done = anonymize_clips(anonymizer, given, torch.device("cpu"))
    assert sizes == [(4, 3, 3, 32, 32)] and done.shape == given.pixels.shape
    assert not done[..., :3].any() and done[..., 5:].float().mean() > 50


def test_the_judge_sees_eight_bits() -> None:
    """What hides below half a grey level is gone, as it is in a file."""
    found = anonymize_clips(Given(Shifted(0.4 / 255)), Clips(clips().pixels // 2, None), CPU)
    assert found.equal(clips().pixels // 2)


def test_trap_9_the_anonymizer_is_judged_in_eval_mode() -> None:
    """Dropout in train mode would hide pixels at random that a deployed anonymizer shows."""
    # The batch norm takes the three frames of these clips for its channels.
    anonymizer = Given(nn.Sequential(nn.Dropout(0.5), nn.BatchNorm3d(3, affine=False))).train()
    anonymizer.change[1].running_var.fill_(1.0)  # type: ignore[union-attr]
    modes: list[bool] = []
    anonymizer.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    found = anonymize_clips(anonymizer, clips(), CPU, batch=5)
    assert modes == [False, False]
    assert (found.float() - clips().pixels.float()).abs().max() <= 1
    assert anonymizer.change[1].num_batches_tracked == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, 1.5])
def test_an_output_that_is_no_picture_is_refused(value: float) -> None:
    class One(nn.Module):
        """Wrong in one pixel of the last clip only."""

        def forward(self, video: Tensor) -> Tensor:
            out = video.clone()
            out[-1, -1, -1, -1, -1] = value
            return out

    with pytest.raises(SfumatoError, match="'given' gave an output"):
        anonymize_clips(Given(One()), clips(), CPU, batch=100)


def test_an_output_of_another_shape_is_refused() -> None:
    class Half(nn.Module):
        def forward(self, video: Tensor) -> Tensor:
            return video[..., ::2, ::2]

    with pytest.raises(SfumatoError, match="another shape"):
        anonymize_clips(Given(Half()), clips(), CPU)


def test_people_are_hidden_by_the_masks_and_refused_without() -> None:
    known = clips(people=True)
    found = anonymize_clips(load("blacken-people", margin=0.0), known, CPU, batch=4)
    assert not found[..., 4:].any()
    assert found[..., :4].equal(known.pixels[..., :4])
    with pytest.raises(SfumatoError, match="needs to know where people are"):
        anonymize_clips(load("blacken-people"), clips(), CPU)


def test_material_loads_every_clip_once_and_finds_it_again(minute: TheatreDataset) -> None:
    material = Material(minute, views=1, device=CPU, folder=Path())
    assert len(material.clips.pixels) == len(minute)
    for by in ("person", "clip"):
        indices = minute.split("test", by)
        found = material.clips.pixels[material.rows(indices)]
        assert found.equal(minute.clips(indices).pixels)
    assert material.rows(torch.tensor([5, 2])).tolist() == [5, 2]


@pytest.mark.parametrize("home", [None, torch.device("cpu", 0)])
def test_clips_that_do_not_fit_are_held_elsewhere_and_no_part_is_copied(
    home: torch.device | None, minute: TheatreDataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(held, "home_of", lambda size, device: asked.append(size) or home)
    monkeypatch.setattr(held, "AT_ONCE", 7)
    told: list[tuple[int, int]] = []
    material = Material(minute, views=1, device=CPU, folder=tmp_path, progress=lambda *line: told.append(line))
    pixels = material.clips.pixels
    assert asked == [3 * pixels.numel()] and told[:2] == [(7, len(minute)), (14, len(minute))]
    assert told[-1] == (len(minute), len(minute)) and material.clips.people is not None
    for part in ("train", "val", "test"):
        indices = minute.split(part, "person")  # type: ignore[arg-type]
        found = material.part(pixels, indices)
        assert found.equal(minute.clips(indices).pixels)
        assert found.untyped_storage().data_ptr() == pixels.untyped_storage().data_ptr()
        assert material.clips.people[material.rows(indices)].equal(minute.clips(indices).people)
    some = minute.split("train", "person")[::2]  # not in one piece
    assert material.part(pixels, some).equal(minute.clips(some).pixels)
    done = anonymize_clips(load("blacken-people"), material.clips, CPU, into=material.reserve(len(minute)))
    assert done.equal(anonymize_clips(load("blacken-people"), material.clips, CPU))
    assert not list(tmp_path.iterdir())
