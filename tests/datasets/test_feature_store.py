"""Features on disk: whole, checked, and never lost or done twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sfumato.datasets.feature_store import INDEX, MANIFEST, FeatureStore, FeatureWriter, Manifest
from sfumato.errors import SfumatoError

WHOSE = Manifest("toy", "ab" * 32, (4, 8, 8), 1, width=3, per_clip=2)


def row(value: float) -> Tensor:
    """(2, 3): the clip's own vector, then its static one."""
    return torch.tensor([[value, value, value], [-value, -value, -value]])


def store(folder: Path, videos: dict[str, list[float]]) -> FeatureWriter:
    writer = FeatureWriter(folder, WHOSE)
    for name, values in videos.items():
        with writer.video(name) as rows:
            for place, value in enumerate(values):
                rows.add(4 * place, row(value))
    return writer


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    store(tmp_path, {"a.mp4": [1, 2, 3], "b.mp4": [4]})
    found = FeatureStore(tmp_path)
    assert found.manifest == WHOSE and [v.name for v in found.videos] == ["a.mp4", "b.mp4"]
    assert found.videos[0].starts == (0, 4, 8) and found.videos[0].clips == 3
    assert torch.equal(found[0], torch.stack([row(1), row(2), row(3)])) and torch.equal(found[1], row(4)[None])
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob("*.starts"))


def test_reading_does_not_write(tmp_path: Path) -> None:
    store(tmp_path, {"a.mp4": [1]})
    FeatureStore(tmp_path)[0].zero_()
    assert torch.equal(FeatureStore(tmp_path)[0], row(1)[None])


def cut_off(writer: FeatureWriter) -> None:
    """Two clips of a video, then an interrupt."""
    try:
        with writer.video("a.mp4") as rows:
            rows.add(0, row(1))
            rows.add(4, row(2))
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        return


@pytest.mark.parametrize("damage", ["none", "half a row", "a row without its start", "a start without its row"])
def test_a_video_that_was_cut_off_goes_on_with_the_next_clip(tmp_path: Path, damage: str) -> None:
    cut_off(FeatureWriter(tmp_path, WHOSE))
    (part,), (starts,) = tmp_path.glob("*.part"), tmp_path.glob("*.starts")
    if damage == "half a row":
        part.write_bytes(part.read_bytes() + b"1234567")
    if damage == "a row without its start":
        part.write_bytes(part.read_bytes() + row(9).numpy().tobytes())
    if damage == "a start without its row":
        starts.write_text(starts.read_text() + "8\n")
    with FeatureWriter(tmp_path, WHOSE).video("a.mp4") as rows:
        assert rows.clips == 2
        rows.add(8, row(3))
    found = FeatureStore(tmp_path)
    assert torch.equal(found[0], torch.stack([row(1), row(2), row(3)])) and found.videos[0].starts == (0, 4, 8)


def flip(path: Path, place: int) -> None:
    """One bit."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("where", "place", "left"), [("part", 3, 0), ("part", 4 * 6 + 3, 1), ("starts", 0, 0), ("starts", 70, 1)]
)
def test_what_is_damaged_while_a_video_is_cut_off_is_done_again(
    tmp_path: Path, where: str, place: int, left: int
) -> None:
    cut_off(FeatureWriter(tmp_path, WHOSE))
    (path,) = tmp_path.glob(f"*.{where}")
    flip(path, place)
    with FeatureWriter(tmp_path, WHOSE).video("a.mp4") as rows:
        assert rows.clips == left and rows.starts == [0, 4][:left]
        for number in range(left, 3):
            rows.add(4 * number, row(number + 1))
    found = FeatureStore(tmp_path)
    assert torch.equal(found[0], torch.stack([row(1), row(2), row(3)])) and found.videos[0].starts == (0, 4, 8)


def test_damage_before_the_last_row_is_no_part_of_the_checksum(tmp_path: Path) -> None:
    with FeatureWriter(tmp_path, WHOSE).video("a.mp4") as rows:
        rows.add(0, row(1))
        flip(rows.path, 3)
        rows.add(4, row(2))
    with pytest.raises(SfumatoError, match=r"'a\.mp4' are damaged"):
        FeatureStore(tmp_path)[0]


@pytest.mark.parametrize("damage", ["gone", "a bit", "cut", "elsewhere"])
def test_what_is_missing_or_damaged_is_stored_again_in_its_place(tmp_path: Path, damage: str) -> None:
    store(tmp_path, {"a.mp4": [1], "b.mp4": [2, 3], "c.mp4": [4]})
    before = FeatureStore(tmp_path).videos
    path, index = tmp_path / before[1].file, tmp_path / INDEX
    if damage == "gone":
        path.unlink()
    if damage == "a bit":
        flip(path, 30)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-4])
    if damage == "elsewhere":
        index.write_text(index.read_text().replace(path.name, f"../{path.name}"))
    writer = FeatureWriter(tmp_path, WHOSE)
    assert list(writer.done) == ["a.mp4", "c.mp4"]
    with writer.video("b.mp4") as rows:
        assert rows.clips == 0
        rows.add(0, row(2))
        rows.add(4, row(3))
    found = FeatureStore(tmp_path)
    assert found.videos == before and list(FeatureWriter(tmp_path, WHOSE).done) == ["a.mp4", "b.mp4", "c.mp4"]
    assert torch.equal(torch.cat([found[n] for n in range(3)]), torch.stack([row(1), row(2), row(3), row(4)]))


def test_an_index_that_is_damaged_can_be_mended_as_it_says(tmp_path: Path) -> None:
    store(tmp_path, {"a.mp4": [1], "b.mp4": [2]})
    index = tmp_path / INDEX
    index.write_bytes(b"{" + index.read_bytes())
    with pytest.raises(SfumatoError, match=r"index\.jsonl' is damaged: delete it and extract the features again"):
        FeatureWriter(tmp_path, WHOSE)
    index.unlink()
    store(tmp_path, {"a.mp4": [1], "b.mp4": [2]})
    assert torch.equal(FeatureStore(tmp_path)[1], row(2)[None])


def test_cut_off_between_the_file_and_its_line_nothing_is_lost(tmp_path: Path) -> None:
    cut_off(FeatureWriter(tmp_path, WHOSE))
    (part,) = tmp_path.glob("*.part")
    part.rename(part.with_suffix(".f32"))
    (tmp_path / INDEX).write_bytes(b'{"name": "a.m')  # the line was not finished
    writer = FeatureWriter(tmp_path, WHOSE)
    assert not writer.done
    with writer.video("a.mp4") as rows:
        assert rows.clips == 2
    assert torch.equal(FeatureStore(tmp_path)[0], torch.stack([row(1), row(2)]))


def test_what_is_stored_is_known_and_not_stored_again(tmp_path: Path) -> None:
    store(tmp_path, {"a.mp4": [1]})
    writer = FeatureWriter(tmp_path, WHOSE)
    assert list(writer.done) == ["a.mp4"]
    with pytest.raises(SfumatoError, match=r"'a\.mp4' is stored already"), writer.video("a.mp4"):
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 4}, "width = 3, not 4"),
        ({"weights_sha256": "cd"}, "weights_sha256 = abab"),
        ({"frame_step": 2}, "frame_step"),
        ({"encoder": "another", "weights_sha256": "cd"}, "encoder = toy, not another"),
    ],
)
def test_a_folder_of_other_features_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    store(tmp_path, {"a.mp4": [1]})
    with pytest.raises(SfumatoError, match=message):
        FeatureWriter(tmp_path, replace(WHOSE, **change))  # type: ignore[arg-type]


def test_the_same_weights_by_another_name_are_the_same_encoder(tmp_path: Path) -> None:
    store(tmp_path, {"a.mp4": [1]})
    writer = FeatureWriter(tmp_path, replace(WHOSE, encoder="weights/toy"))
    assert list(writer.done) == ["a.mp4"] and writer.manifest == FeatureStore(tmp_path).manifest == WHOSE
    unknown = replace(WHOSE, weights_sha256="")
    FeatureWriter(tmp_path / "unknown", unknown)
    with pytest.raises(SfumatoError, match="encoder = toy, not another"):
        FeatureWriter(tmp_path / "unknown", replace(unknown, encoder="another"))


def test_features_of_another_encoder_or_width_are_refused_by_name() -> None:
    WHOSE.require("ab" * 32, 3)
    with pytest.raises(SfumatoError, match="3 wide, not 5: they are of 'toy'"):
        WHOSE.require("ab" * 32, 5)
    with pytest.raises(SfumatoError, match="of 'toy' with weights abababab, not cdcdcdcd"):
        WHOSE.require("cd" * 32, 3)


def test_damage_is_found_by_checksum(tmp_path: Path) -> None:
    store(tmp_path, {"a.mp4": [1], "b.mp4": [2]})
    found = FeatureStore(tmp_path)
    path = tmp_path / found.videos[1].file
    flip(path, 5)
    assert found[0].shape == (1, 2, 3)
    with pytest.raises(SfumatoError, match=r"'b\.mp4' are damaged"):
        found[1]
    path.unlink()
    with pytest.raises(SfumatoError, match=r"'b\.mp4' are missing"):
        found[1]


def test_what_is_not_finite_or_of_another_shape_is_refused(tmp_path: Path) -> None:
    writer = FeatureWriter(tmp_path, WHOSE)
    with pytest.raises(SfumatoError, match="clip at frame 4 are not finite"), writer.video("a.mp4") as rows:
        rows.add(4, row(float("nan")))
    with pytest.raises(SfumatoError, match=r"shape \(1, 3\) is not \(2, 3\)"), writer.video("b.mp4") as rows:
        rows.add(0, torch.zeros(1, 3))
    with pytest.raises(SfumatoError, match=r"'c\.mp4' gave no clip"), writer.video("c.mp4"):
        pass


def test_an_index_that_points_elsewhere_is_not_followed(tmp_path: Path) -> None:
    store(tmp_path / "features", {"a.mp4": [1]})
    index = tmp_path / "features" / INDEX
    (whole,) = (tmp_path / "features").glob("*.f32")
    whole.rename(tmp_path / whole.name)
    index.write_text(index.read_text().replace(whole.name, f"../{whole.name}"))
    with pytest.raises(SfumatoError, match="missing"):
        FeatureStore(tmp_path / "features")[0]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "encoder": 3, "clip": 4}'])
def test_a_manifest_that_is_none_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(SfumatoError, match="is no manifest of features"):
        FeatureStore(tmp_path)


def test_a_folder_without_features_is_told(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="cannot read"):
        FeatureStore(tmp_path)
    FeatureWriter(tmp_path, WHOSE)
    with pytest.raises(SfumatoError, match="holds no features yet"):
        FeatureStore(tmp_path)
