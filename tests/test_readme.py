"""What the README shows runs as it stands, and what it links is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(
        ROOT / name
        for name in (
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "benchmarks/README.md",
            "recipes/published/README.md",
        )
    ),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("src/sfumato/methods/*/README.md")),
    *sorted(ROOT.glob("weights/*/README.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """What headings of a page are linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link


def test_the_example_in_python_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    written: list[tuple[object, ...]] = []
    monkeypatch.setattr("sfumato.anonymizers.streaming.anonymize_file", lambda *what: written.append(what))
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["hidden"].shape == (1, 16, 3, 112, 112)  # type: ignore[attr-defined]
    assert written == [(names["blur"], "clip.mp4", "hidden.mp4")]
