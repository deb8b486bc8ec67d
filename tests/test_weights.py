"""The weights that come with the project: each loads, works on the clips it was made for, and has a card that can be believed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from sfumato.anonymizers import label, load
from sfumato.anonymizers.latent_storage import load_latent
from sfumato.anonymizers.shelf import LATENT, WEIGHTS, first_sentence, shelved
from sfumato.datasets import open_dataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.protocols.zero_shot import TEMPLATES, zero_shot
from sfumato.recognizers.encoders import load_encoder
from sfumato.recognizers.vlm import fill_prompts, load_vlm

NAMES = sorted(shelved())
ADAPTERS = sorted(shelved(kind=LATENT))
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


@pytest.mark.parametrize("name", ADAPTERS)
def test_each_adapter_takes_the_features_of_the_encoder_that_is_shipped_and_moves_them(name: str) -> None:
    adapter, made_for = load_latent(name)
    encoder, small = load_encoder(made_for.encoder), open_dataset("theatre:small")
    made_for.require(encoder.fingerprint(), encoder.width)
    with torch.inference_mode():
        raw = encoder(small.clips(torch.arange(8)).pixels[:, 0].float() / 255)[:, None]
        hidden = adapter(raw)
        assert torch.allclose(adapter(raw[:3]), hidden[:3], atol=1e-4)  # whoever else is in the batch
    assert hidden.shape == raw.shape and (hidden - raw).norm() > 0.5 * (raw - raw.mean(0)).norm()
    with pytest.raises(SfumatoError, match=f"'{name}' anonymizes features, not videos: use it by `sfumato index"):
        load(name)


@pytest.mark.parametrize("name", NAMES + ADAPTERS)
def test_each_card_says_what_it_is_what_it_leaks_and_on_what_terms(name: str) -> None:
    folder = WEIGHTS / name
    card = (folder / "README.md").read_text()
    assert re.match(r"---\nlicense: [a-z0-9.-]+\n", card)
    assert first_sentence(folder).endswith(".")
    for part in ("## What an attacker still learns", "residual leakage", "## What it is not for", "commit"):
        assert part in card
    for link in re.findall(r"\]\((\.\./[^)#]+)", card):
        assert (folder / link).exists(), link


def test_what_learnt_from_lsa64_has_its_terms() -> None:
    for name in NAMES:
        card = Path(shelved()[name] / "README.md").read_text()
        assert "LSA64" not in card or card.startswith("---\nlicense: cc-by-nc-sa-4.0\n")


@pytest.mark.parametrize("name", sorted(shelved(kind="vlm")))
def test_each_vision_language_model_reads_actions_it_was_never_shown(name: str) -> None:
    model, unseen = load_vlm(name), open_dataset("theatre:small-unseen")
    some = unseen.split("test", "person")[::10]
    pixels = unseen.clips(some).pixels
    with torch.inference_mode():
        text = model.embed_text(fill_prompts(TEMPLATES[0], unseen.phrases()))[None]
    read = zero_shot(model, pixels, text, torch.device("cpu")).argmax(1)
    assert (read == unseen.labels(some).action).float().mean() > 0.8  # of 40, guessing an eighth


@pytest.mark.parametrize("name", [*shelved(kind="vlm"), *shelved(kind="encoder")])
def test_each_card_of_a_reader_says_how_it_was_made_and_what_it_can_do(name: str) -> None:
    card = (WEIGHTS / name / "README.md").read_text()
    assert card.startswith("---\nlicense: apache-2.0\n")
    for part in ("| made by |", "commit", "| what it can do |", "guessing", "## What it is not for"):
        assert part in card
