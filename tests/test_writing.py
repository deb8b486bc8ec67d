from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sfumato import writing
from sfumato.writing import source_digest, to_json


def test_json_has_null_where_a_number_is_none() -> None:
    value = {"loss": math.nan, "far": (1.5, -math.inf, {"deep": [math.inf, True, "α"]}), "whole": 3}
    written = to_json(value)
    assert written.endswith(b"\n") and "α".encode() in written
    assert json.loads(written) == {"loss": None, "far": [1.5, None, {"deep": [None, True, "α"]}], "whole": 3}


def test_the_digest_of_source_files_tells_names_and_contents_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest(*patterns: str) -> str:
        return source_digest.__wrapped__(*patterns)

    monkeypatch.setattr(writing, "__file__", str(tmp_path / "writing.py"))
    (tmp_path / "deep").mkdir()
    one, two = tmp_path / "one.py", tmp_path / "deep" / "two.py"
    one.write_text("1")
    two.write_text("2")
    every, first = digest("**/*.py"), digest("one.py")
    assert every != first and digest("one.py", "deep/*.py", "*.py") == every  # each file once
    two.write_text("3")
    assert digest("one.py") == first and digest("**/*.py") != every
    two.write_text("2")
    two.rename(tmp_path / "deep" / "too.py")
    assert digest("**/*.py") != every


def test_the_digest_is_computed_once() -> None:
    before = source_digest.cache_info().misses
    assert len({source_digest("video/*.py", "datasets/decoding.py") for _ in range(3)}) == 1
    assert source_digest.cache_info().misses <= before + 1
