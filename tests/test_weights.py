"""The weights that come with the project: each loads, works on the clips it was made for, and has a card that can be believed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from sfumato.anonymizers import label, load
from sfumato.anonymizers.shelf import WEIGHTS, first_sentence, shelved

NAMES = sorted(shelved())
MOST = 40e6  # bytes, all together


def test_some_are_shipped_and_all_together_are_small() -> None:
    assert {"spact", "spact-small"} <= set(NAMES)
    assert sum(file.stat().st_size for file in WEIGHTS.rglob("*") if file.is_file()) < MOST


@pytest.mark.parametrize("name", NAMES)
def test_each_hides_something_of_the_clips_it_was_made_for(name: str) -> None:
    anonymizer = load(name)
    assert label(anonymizer).split("@")[0].split(":")[0] == name
    height, width = anonymizer.spec.size or (112, 112)
    video = torch.rand(1, anonymizer.spec.length or 4, 3, height, width, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        output = anonymizer(video)
    assert output.shape == video.shape and output.min() >= 0 and output.max() <= 1
    assert (output - video).abs().mean() > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_each_card_says_what_it_is_what_it_leaks_and_on_what_terms(name: str) -> None:
    card = (shelved()[name] / "README.md").read_text()
    assert re.match(r"---\nlicense: [a-z0-9.-]+\n", card)
    assert first_sentence(shelved()[name]).endswith(".")
    for part in ("## What an attacker still learns", "residual leakage", "## What it is not for", "commit"):
        assert part in card
    for link in re.findall(r"\]\((\.\./[^)#]+)", card):
        assert (shelved()[name] / link).exists(), link


def test_what_learnt_from_lsa64_has_its_terms() -> None:
    for name in NAMES:
        card = Path(shelved()[name] / "README.md").read_text()
        assert "LSA64" not in card or card.startswith("---\nlicense: cc-by-nc-sa-4.0\n")
