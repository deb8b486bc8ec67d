"""Prepared copies in the place of the papers' data sets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sfumato.commands import miniatures
from sfumato.commands.miniatures import write_miniature
from sfumato.commands.prepare import prepare
from sfumato.datasets import VideoDataset, open_dataset
from sfumato.datasets.pa_hmdb51 import PAHMDB51Dataset
from sfumato.datasets.prepared import check_small, is_packed, packed_as
from sfumato.errors import SfumatoError

from . import copies

SMALL = "frames=4&size=16"
PARTS = ("train", "val", "test")


def told(data: VideoDataset) -> dict[str, object]:
    """All that a data set says of its videos, by the name of each."""
    everything = torch.arange(len(data))
    labels, tapes = data.labels(everything), data.recordings(everything)
    parts = {
        (by, i): part for by in ("person", "clip") for part in PARTS for i in data.split(part, by).tolist()  # type: ignore[arg-type]
    }  # fmt: skip
    names = [Path(data.sample(i).source).stem for i in everything.tolist()]
    shown = torch.zeros(len(data), 0) if labels.actions is None else labels.actions
    about: dict[str, object] = {
        name: (
            int(labels.action[i]), int(labels.person[i]), labels.attributes[i].tolist(), shown[i].tolist(),
            names[int(tapes[i])] if int((tapes == tapes[i]).sum()) > 1 else "", data.times(torch.tensor([i])).tolist(),
            [parts.get((by, i)) for by in ("person", "clip")],
        )
        for i, name in enumerate(names)
    }  # fmt: skip
    meant = (data.actions, data.persons, data.attributes, data.mirror_safe, data.several_actions, data.phrases())
    return {"": meant, **about}


def without_tapes(about: dict[str, object]) -> dict[str, object]:
    """What of one recording is, without the name that stands for it: shards have another order."""
    return {name: (*row[:4], bool(row[4]), *row[5:]) if name else row for name, row in about.items()}  # type: ignore[index]


@pytest.fixture(autouse=True)
def few_videos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each kind of label and part some: nothing is judged here, which is what needs many."""
    for name, count in (("TRAIN", 12), ("TEST", 4), ("LABELLED", 8), ("TAGGED", 12), ("FACES", 24)):
        monkeypatch.setattr(miniatures, name, count)


@pytest.fixture
def hmdb(tmp_path: Path) -> Path:
    """HMDB51 with the labels of PA-HMDB51."""
    write_miniature("pa-hmdb51:hmdb51", tmp_path)
    return tmp_path / "hmdb51"


@pytest.mark.parametrize(
    ("kind", "make", "options"),
    [
        ("ucf101", copies.ucf101, "split=2&"),
        ("ucf-crime", copies.ucf_crime, ""),
        ("ntu60", copies.ntu60, "split=subject&"),
        ("toyota-smarthome", copies.toyota_smarthome, ""),
    ],
)
def test_small_videos_are_read_as_the_data_set_they_were_made_of(
    kind: str, make: Callable[[Path], Path], options: str, tmp_path: Path
) -> None:
    root, small = make(tmp_path / "whole"), tmp_path / "small"
    prepare(f"{kind}:{root}?{options}{SMALL}", small, short_side=16, workers=1)
    before, after = (open_dataset(f"{kind}:{place}?{options}{SMALL}", strict=True) for place in (root, small))
    assert told(before) == told(after)
    assert [before.course(i) for i in range(len(before))] == [after.course(i) for i in range(len(after))]


def test_labels_of_single_frames_stay_with_small_videos(hmdb: Path, tmp_path: Path) -> None:
    data = "split=rest&frames=4&size=16"
    prepare(f"pa-hmdb51:{hmdb}?{data}", tmp_path / "small", short_side=16, workers=1)
    before, after = (PAHMDB51Dataset(f"{place}?{data}", strict=True) for place in (hmdb, tmp_path / "small"))
    some = before.split("test", "clip")
    assert len(some)
    assert before.frame_attributes(some).equal(after.frame_attributes(some))
    assert (before.frame_attributes(some) >= 0).all()


@pytest.mark.parametrize(("kind", "options"), [("vp-ucf101", "split=1&"), ("p-hvu", ""), ("celebv-hq", "")])
def test_shards_are_read_as_the_data_set_they_were_made_of(kind: str, options: str, tmp_path: Path) -> None:
    write_miniature(f"{kind}:whole", tmp_path)
    root, packed = tmp_path / "whole", tmp_path / "packed"
    prepare(f"{kind}:{root}?{options}{SMALL}", packed, short_side=16, shards=2, workers=1)
    assert is_packed(packed) and not is_packed(root)
    name = packed_as(kind, packed, f"{options}{SMALL}&skip=2&least=3")
    assert name == f"shards:{packed}?frames=4&size=16&skip=2&least=3"
    before, after = (open_dataset(n, strict=True) for n in (f"{kind}:{root}?{options}{SMALL}&skip=2", name))
    assert without_tapes(told(before)) == without_tapes(told(after))
    with pytest.raises(SfumatoError, match="has no clip"):
        open_dataset(f"shards:{packed}?{SMALL}&least=33")


def test_shards_of_something_else_are_refused(tmp_path: Path) -> None:
    root, packed = copies.ucf101(tmp_path / "whole"), tmp_path / "packed"
    prepare(f"ucf101:{root}?split=2&{SMALL}", packed, short_side=16, shards=2, workers=1)
    assert packed_as("ucf101", packed, "split=2&size=16").endswith("packed?size=16")
    for kind, options, other in (
        ("ucf101", "split=1&size=16", "not of ucf101?split=1: prepare shards of that"),
        ("ucf101", "size=16", "not of ucf101?split=1: "),  # which is the usual one
        ("vp-ucf101", "split=2&size=16", "not of vp-ucf101?split=2: "),
    ):
        with pytest.raises(SfumatoError) as error:
            packed_as(kind, packed, options)
        assert str(error.value).startswith(f"'{packed}' holds shards of ucf101?split=2, {other}")
    with pytest.raises(SfumatoError, match=r"holds pictures of short side 16, not 32: .* larger --short-side"):
        packed_as("ucf101", packed, "split=2&size=32")
    index = json.loads((packed / "index.json").read_text())
    del index["labels"]["of"]
    (packed / "index.json").write_text(json.dumps(index))
    with pytest.raises(SfumatoError, match=r"holds shards of something else, not of ucf101\?split=2"):
        packed_as("ucf101", packed, "split=2&size=16")


def test_copies_that_lack_something_say_what_to_do(tmp_path: Path) -> None:
    root, small = copies.ucf101(tmp_path / "whole"), tmp_path / "small"
    prepare(f"ucf101:{root}?{SMALL}", small, short_side=16, workers=1)
    check_small(small, 16)
    check_small(root, 2000)  # not prepared at all
    for name, complaint in (
        (f"ucf101:{small}?frames=4&size=24", "holds pictures of short side 16, not 24: .* larger --short-side"),
        (f"ucf101:{small}?split=2&{SMALL}", "there is no 'trainlist02.txt' in .*: get it from crcv.ucf.edu"),
        (f"vp-ucf101:{small}?{SMALL}", "there is no 'ucf101_privacy_attribute_label.pickle' in .*: get it from"),
    ):
        with pytest.raises(SfumatoError, match=complaint):
            open_dataset(name)
    prepare(f"ucf101:{root}?{SMALL}", tmp_path / "slow", short_side=16, fps=10, workers=1)
    with pytest.raises(SfumatoError, match=r"brought to 10 frames per second, .*: prepare it without --fps"):
        open_dataset(f"ucf101:{tmp_path / 'slow'}?{SMALL}")
    (small / "prepared.json").write_text("[]")
    with pytest.raises(SfumatoError, match=r"prepared\.json' is damaged: prepare the videos again"):
        open_dataset(f"ucf101:{small}?{SMALL}")
