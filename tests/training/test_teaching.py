"""Models that others use are taught by several processes as by one."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from sfumato.training.processes import launch


@pytest.mark.usefixtures("quick_processes")
def test_two_processes_do_what_one_does_with_the_double_batch(tmp_path: Path, toys: ModuleType) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    toys.teach_in_crew(8, one)
    launch(toys.teach_in_crew, 2, 4, two)
    alone = json.loads((one / "rank-0.json").read_text())
    for rank in (0, 1):
        shared = json.loads((two / f"rank-{rank}.json").read_text())
        # Captions of the other process are negatives too, and batch norm sees the clips of both. In single precision.
        assert shared["losses"] == pytest.approx(alone["losses"], abs=1e-3)
        assert shared["means"] == pytest.approx(alone["means"], abs=1e-3)
