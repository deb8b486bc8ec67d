"""The index of anonymized features: what is asked for is found, in a stable order, and what is removed is gone."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sfumato.datasets import vector_store
from sfumato.datasets.feature_store import Manifest
from sfumato.datasets.vector_store import IndexManifest, Span, VectorStore, joined
from sfumato.errors import SfumatoError

WHOSE = IndexManifest(Manifest("toy", "ab" * 32, (4, 8, 8), 1, width=4, per_clip=1), "adapter", "cd" * 32)
EAST, NORTH = torch.tensor([1.0, 0, 0, 0]), torch.tensor([0, 1.0, 0, 0])


def seconds(count: int) -> list[tuple[float, float]]:
    return [(float(second), second + 1.0) for second in range(count)]


def towards(*degrees: float) -> Tensor:
    """Vectors so far from EAST, of different lengths, which must not matter."""
    angles = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    directions = angles.cos()[:, None] * EAST + angles.sin()[:, None] * NORTH
    return (directions * torch.arange(1, len(degrees) + 1)[:, None]).float()


def test_the_clip_most_alike_comes_first_by_its_cosine(tmp_path: Path) -> None:
    store = VectorStore(tmp_path / "db", WHOSE)
    store.add("far.mp4", "1", seconds(1), towards(90))
    store.add("near.mp4", "1", [(2.0, 3.0), (5.0, 6.0)], towards(60, 30))
    found = VectorStore(tmp_path / "db").search(10 * EAST[None], top=3)
    assert [(span.video, span.start, span.end) for span in found] == [
        ("near.mp4", 5, 6), ("near.mp4", 2, 3), ("far.mp4", 0, 1),
    ]  # fmt: skip
    assert [span.score for span in found] == pytest.approx([3**0.5 / 2, 0.5, 0], abs=1e-6)
    # Of several queries the best counts, for every clip.
    both = VectorStore(tmp_path / "db").search(torch.stack([NORTH, EAST]), top=3)
    assert [(span.video, span.start) for span in both] == [("far.mp4", 0), ("near.mp4", 2), ("near.mp4", 5)]
    assert [span.score for span in both] == pytest.approx([1, 3**0.5 / 2, 3**0.5 / 2], abs=1e-6)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1)])
def test_equals_come_by_name_and_time_in_whatever_order_they_were_stored(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    store = VectorStore(tmp_path, WHOSE)
    for place in order:
        store.add(f"{place}.mp4", "1", [(0.0, 1.0), (2.0, 3.0)], EAST.expand(2, 4))
    store.add("better.mp4", "1", [(0.0, 1.0)], towards(0))
    store.add("worse.mp4", "1", [(0.0, 1.0)], towards(10))
    found = [(span.video, span.start) for span in store.search(EAST[None], top=3)]
    assert found == [("0.mp4", 0), ("0.mp4", 2), ("1.mp4", 0)]


def test_clips_that_touch_are_one_span_as_good_as_the_best() -> None:
    clips = [
        Span("b", 0, 1, 0.9), Span("a", 1, 2, 0.8), Span("a", 0, 1, 0.5), Span("a", 2, 3, 0.6), Span("a", 4, 5, 0.7),
        Span("b", 5, 6, 0.95),
    ]  # fmt: skip
    assert joined(clips) == [
        Span("b", 5, 6, 0.95), Span("b", 0, 1, 0.9), Span("a", 0, 3, 0.8), Span("a", 4, 5, 0.7),
    ]  # fmt: skip


def test_every_video_is_known_and_a_removed_one_leaves_the_disk(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, WHOSE)
    secret = torch.tensor([[0.123, 0.456, 0.789, 0.321]])
    store.add("it's.mp4", "7-7", seconds(1), secret)
    for number in range(12):
        store.add(f"{number}.mp4", "1-1", seconds(2), EAST.expand(2, 4))
    assert len(store) == 25 and len(store.videos()) == 13 and store.videos()["it's.mp4"] == "7-7"
    pattern = secret.numpy().tobytes()

    def kept() -> bool:
        return any(pattern in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert kept()
    store.remove("it's.mp4")
    store.tidy()
    assert not kept()
    assert len(store) == 24 and "it's.mp4" not in VectorStore(tmp_path).videos()


def test_small_pieces_are_joined_while_a_long_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_store, "TIDY_AFTER", 5)
    store = VectorStore(tmp_path, WHOSE)
    for number in range(10):
        store.add(f"{number}.mp4", "1-1", seconds(1), EAST[None])
    assert len(list(tmp_path.rglob("data/*.lance"))) == 1 and len(store) == 10


def test_another_encoder_adapter_or_cut_is_refused_but_not_another_name(tmp_path: Path) -> None:
    VectorStore(tmp_path, WHOSE).add("a.mp4", "1", seconds(1), EAST[None])
    moved = replace(WHOSE, adapter="elsewhere", features=replace(WHOSE.features, encoder="elsewhere"))
    assert len(VectorStore(tmp_path, moved)) == 1
    for changed, complaint in (
        (replace(moved, adapter_sha256="ef" * 32), r"the adapter 'adapter' \(cdcdcdcd\), not 'elsewhere' \(efefefef\)"),
        (
            replace(moved, features=replace(moved.features, weights_sha256="ef" * 32)),
            r"built with the encoder 'toy' \(abababab\), not 'elsewhere' \(efefefef\)",
        ),
        (replace(WHOSE, features=replace(WHOSE.features, frame_step=2)), "built with frame_step = 1, not 2"),
    ):
        with pytest.raises(SfumatoError, match=complaint):
            VectorStore(tmp_path, changed)


def test_what_is_no_index_is_told(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match=r"cannot read .*: name a folder that `sfumato index build` made"):
        VectorStore(tmp_path)
    store = VectorStore(tmp_path, WHOSE)
    with pytest.raises(SfumatoError, match="holds no videos yet: run `sfumato index build` first"):
        store.search(EAST[None], top=1)
    for vectors in (torch.ones(1, 3), torch.ones(2, 4), torch.full((1, 4), torch.nan)):
        with pytest.raises(SfumatoError, match="gave no 1 finite vectors of 4"):
            store.add("a.mp4", "1", seconds(1), vectors)
    assert not len(store)
    manifest = tmp_path / "index.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 99'))
    with pytest.raises(SfumatoError, match="is of another version"):
        VectorStore(tmp_path)
    manifest.write_text('{"version": 1, "features": {}}')
    with pytest.raises(SfumatoError, match="is no manifest of an index"):
        VectorStore(tmp_path)
    manifest.unlink()
    with pytest.raises(SfumatoError, match="holds clips of nobody knows which encoder"):
        VectorStore(tmp_path, WHOSE)


def test_a_search_begins_no_table(tmp_path: Path) -> None:
    VectorStore(tmp_path, WHOSE)
    shutil.rmtree(tmp_path / "clips.lance")  # as after a build that was stopped at once
    with pytest.raises(SfumatoError, match="holds no videos yet"):
        VectorStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.json"]


def test_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    VectorStore(tmp_path, WHOSE).add("a.mp4", "1", seconds(1), EAST[None])
    for path in tmp_path.rglob("_versions/*"):
        path.write_bytes(b"no manifest")
    with pytest.raises(SfumatoError, match="cannot be used") as caught:
        VectorStore(tmp_path).videos()
    assert "\n" not in str(caught.value)


def test_without_the_library_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(SfumatoError, match=r"needs LanceDB, which is not installed: pip install sfumato\[index\]"):
        VectorStore(tmp_path / "db", WHOSE)
    assert not (tmp_path / "db").exists()
