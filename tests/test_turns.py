from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from sfumato.turns import turn


def test_a_turn_is_one_s_own_and_leaves_nothing(tmp_path: Path) -> None:
    work = tmp_path / "runs" / "spact"
    with turn(work) as mine:
        assert mine
        with turn(work, wait=False) as other, turn(work.with_name("vita"), wait=False) as another:
            assert not other and another
    with turn(work, wait=False) as mine:
        assert mine
    assert list(work.parent.iterdir()) == []


def test_a_turn_ends_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), turn(tmp_path / "work"):
        raise KeyboardInterrupt
    with turn(tmp_path / "work", wait=False) as mine:
        assert mine


def test_who_waits_comes_one_after_another(tmp_path: Path) -> None:
    """Also when each removes what the others wait at."""
    inside, most = [], []

    def work() -> None:
        for _ in range(50):
            with turn(tmp_path / "work"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    crew = [Thread(target=work) for _ in range(4)]
    for each in crew:
        each.start()
    for each in crew:
        each.join()
    assert most == [1] * 200 and list(tmp_path.iterdir()) == []
