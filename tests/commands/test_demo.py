from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato.evaluation import scoring
from sfumato.evaluation.result import Result
from sfumato.video import probe


def test_the_demo_leaves_a_video_a_result_and_a_page(
    tmp_path: Path,
    sfumato: Any,
    files: Callable[[Path], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    minute_theatre: None,
) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 40)
    run = sfumato("demo", "--out", tmp_path / "demo")
    assert run.code == 0
    kept = [name for name in files(tmp_path / "demo") if not name.startswith("runs/")]
    assert kept == ["before-after.mp4", "report.html", "result.json"]
    video = probe(tmp_path / "demo/before-after.mp4")
    assert (video.frames, video.width) == (96, 3 * video.height)
    lines = Result.load(tmp_path / "demo/result.json").lines
    assert [line.anonymizer.split("@")[0] for line in lines] == ["identity", "downsample:factor=8", "spact-small"]
    assert f"report: {tmp_path}/demo/report.html" in run.out


def test_a_demo_where_a_file_is_in_the_way(tmp_path: Path, sfumato: Any) -> None:
    (tmp_path / "demo").write_text("a file")
    assert sfumato("demo", "--out", tmp_path / "demo").error == (
        f"cannot use '{tmp_path}/demo' (File exists): choose another place"
    )
