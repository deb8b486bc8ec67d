from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato import writing
from sfumato.errors import SfumatoError
from sfumato.writing import sealed, source_digest, to_json, unsealed, write_whole


def test_json_has_null_where_a_number_is_none() -> None:
    value = {"loss": math.nan, "far": (1.5, -math.inf, {"deep": [math.inf, True, "α"]}), "whole": 3}
    written = to_json(value)
    assert written.endswith(b"\n") and "α".encode() in written
    assert json.loads(written) == {"loss": None, "far": [1.5, None, {"deep": [None, True, "α"]}], "whole": 3}


def test_what_is_sealed_comes_back_however_it_is_laid_out() -> None:
    content = {"loss": math.nan, "scores": (0.1, 1e-17), "who": "Ada"}
    stored = json.loads(sealed(content))
    assert list(stored) == ["loss", "scores", "who", "checksum"]
    for laid_out in (stored, dict(reversed(stored.items()))):
        assert unsealed(laid_out, Path("r.json"), "") == {"loss": None, "scores": [0.1, 1e-17], "who": "Ada"}


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (
            lambda stored: stored.update(loss=0.4),
            "'r.json' was changed after it was written: its checksum is another: again",
        ),
        (lambda stored: stored.update(more=1), "'r.json' was changed after it was written"),
        (lambda stored: stored.update(checksum=None), "'r.json' was changed after it was written"),
        (
            lambda stored: stored.pop("checksum"),
            "'r.json' has no checksum: it was edited, or is from before .*; again$",
        ),
    ],
)
def test_what_was_sealed_and_edited_is_refused(edit: Callable[[dict[str, Any]], object], complaint: str) -> None:
    stored = json.loads(sealed({"loss": 0.5}))
    edit(stored)
    with pytest.raises(SfumatoError, match=complaint):
        unsealed(stored, Path("r.json"), "again")


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


def test_a_file_that_cannot_be_written_is_named_as_the_user_did(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "result.json"
    with pytest.raises(FileNotFoundError) as error:
        write_whole(path, b"{}")
    assert (error.value.filename, error.value.filename2) == (str(path), None)
    path.mkdir(parents=True)  # written, but not to be replaced by a file
    with pytest.raises(OSError) as error:  # noqa: PT011
        write_whole(path, b"{}")
    assert (error.value.filename, error.value.filename2) == (str(path), None)
    assert list(path.parent.iterdir()) == [path]
