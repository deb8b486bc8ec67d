"""Trained anonymizers that come with the project: found by name, introduced by their model card."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.anonymizers import ANONYMIZERS, fingerprint, load, save, shelf, untrained
from sfumato.anonymizers.base import Anonymizer
from sfumato.anonymizers.shelf import first_sentence, shelved
from sfumato.commands.listing import inventory
from sfumato.errors import SfumatoError

CARD = """---
license: apache-2.0
---

# Hush

A [U-Net](https://example.org/paper) trained on
drawn people, 2.5 MB. It has a second sentence.

More.
"""


@pytest.fixture
def hush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Anonymizer:
    """An anonymizer that lies on the shelf as `hush`, with a model card."""
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path / "weights")
    anonymizer = untrained("unet", width=4)
    folder = save(anonymizer, tmp_path / "weights" / "hush")
    (folder / "README.md").write_text(CARD)
    return anonymizer


def test_a_shelved_anonymizer_is_loaded_by_its_name(hush: Anonymizer) -> None:
    loaded = load("hush")
    assert fingerprint(loaded) == fingerprint(hush)
    assert not loaded.training


def test_its_weights_fix_its_settings(hush: Anonymizer) -> None:
    with pytest.raises(SfumatoError, match=r"'width' of .* cannot be set"):
        load("hush:width=8")


def test_it_is_listed_first_in_the_words_of_its_card(hush: Anonymizer) -> None:
    rows = inventory("anonymizers")
    assert rows[0] == ("hush", "A U-Net trained on drawn people, 2.5 MB.")
    assert rows[1][0] == "identity"


def test_an_unknown_name_is_answered_with_the_shelved_ones_first(hush: Anonymizer) -> None:
    with pytest.raises(
        SfumatoError, match=r"there is no anonymizer 'husch': did you mean 'hush'\? known: hush, identity, "
    ):
        load("husch")


@pytest.mark.parametrize("name", ["blur", "unet"])
def test_a_shelved_name_shadows_no_registered_one(name: str, hush: Anonymizer, tmp_path: Path) -> None:
    before = inventory("anonymizers")
    save(hush, tmp_path / "weights" / name)
    assert list(shelved()) == ["hush"]
    assert inventory("anonymizers") == before
    if name == "blur":
        assert fingerprint(load(name)) == fingerprint(untrained(name))
    else:
        with pytest.raises(SfumatoError, match="a network without weights is no anonymizer"):
            load(name)


def test_other_trained_things_lie_beside_them(hush: Anonymizer, tmp_path: Path) -> None:
    for name, kind in (("eye", "encoder"), ("veil", "latent_anonymizer")):
        (tmp_path / "weights" / name).mkdir()
        (tmp_path / "weights" / name / "config.json").write_text(f'{{"{kind}": "small"}}')
    assert list(shelved()) == ["hush"] and list(shelved(kind="encoder")) == ["eye"]
    (tmp_path / "weights" / "veil" / "README.md").write_text("# veil\n\nFeatures of nobody.\n")
    rows = inventory("anonymizers")
    assert rows[1] == ("veil", "of features, for `sfumato index`: Features of nobody.") and rows[2][0] == "identity"
    (tmp_path / "weights" / "hush" / "config.json").write_text("{")
    with pytest.raises(SfumatoError, match="not valid JSON"):  # a damaged one is not a missing one
        load("hush")


def test_networks_without_weights_are_not_offered() -> None:
    offered = {name for name, _ in inventory("anonymizers")}
    assert "unet" in ANONYMIZERS and not offered & {"unet", "unet++"}


def test_an_empty_or_missing_shelf_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text("no anonymizer")
    (tmp_path / "unfinished").mkdir()
    assert shelved(tmp_path) == {}
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path / "nowhere")
    assert shelved() == {}
    assert inventory("anonymizers")[0][0] == "identity"


@pytest.mark.parametrize(
    ("card", "sentence"),
    [
        ("One line", "One line"),
        ("# Title\nBelow it. And more.", "Below it."),
        ("## Title\n\n### Sub\n\nFinally!\nYes.", "Finally!"),
        ("Made at 0.5 of the width, i.e. small. Then more.", "Made at 0.5 of the width, i.e. small."),
        ("---\nlicense: x\n---\nAfter the header.", "After the header."),
        ("# Only a title\n", "trained weights"),
        ("", "trained weights"),
    ],
)
def test_the_first_sentence_of_a_card(card: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(card)
    assert first_sentence(tmp_path) == sentence


def test_what_lies_on_the_shelf_can_be_used() -> None:
    """Every set of weights that comes with the project loads and has a card."""
    for name, folder in shelved().items():
        assert not load(name).training
        assert first_sentence(folder) != "trained weights", f"{name} has no model card"
