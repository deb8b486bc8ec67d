from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.datasets.intact import cut_short

from .copies import put, video


@pytest.mark.parametrize("container", ["avi", "mp4"])
def test_a_file_that_lost_its_end_is_found(tmp_path: Path, container: str) -> None:
    whole = video(container=container)
    assert not cut_short(put(tmp_path / f"a.{container}", whole))
    for lost in (1, 20, len(whole) // 2):
        assert cut_short(put(tmp_path / f"a.{container}", whole[:-lost])), lost


def test_large_boxes_and_the_last_one_without_a_length(tmp_path: Path) -> None:
    head = (16).to_bytes(4, "big") + b"ftypisom" + bytes(4)
    large = (1).to_bytes(4, "big") + b"mdat" + (24).to_bytes(8, "big") + bytes(8)
    rest = bytes(4) + b"free" + bytes(100)
    assert not cut_short(put(tmp_path / "a.mp4", head + large + rest))
    assert cut_short(put(tmp_path / "a.mp4", head + large[:-1]))


def test_what_does_not_state_its_length_is_not_judged(tmp_path: Path) -> None:
    for content in (b"", b"\x1aE\xdf\xa3 Matroska", b"whatever this is" * 10):
        assert not cut_short(put(tmp_path / "a.mkv", content))
