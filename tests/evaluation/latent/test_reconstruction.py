from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.datasets.annotations import read_annotations
from sfumato.datasets.feature_store import FeatureStore, FeatureWriter
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.latent import reconstruction
from sfumato.evaluation.latent.origins import opened
from sfumato.evaluation.latent.reconstruction import Decoder, each_alone, patch_tokens, train_decoder
from sfumato.evaluation.metrics import psnr
from sfumato.recognizers import make_recognizer
from sfumato.recognizers.encoders import Encoder, RecognizerEncoder
from sfumato.training.extraction import describe, extract_items
from sfumato.training.feature_data import FeatureSet, read_features

from ..conftest import minute  # noqa: F401 - a fixture
from .toys import CPU, Planted, judged, scores

CLIP = (4, 32, 32)


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    torch.manual_seed(0)
    torch.save(make_recognizer("tiny-video", 1, clip=CLIP).state_dict(), tmp_path / "weights.pt")
    made = RecognizerEncoder("tiny-video", tmp_path / "weights.pt", clip=CLIP)
    monkeypatch.setattr(reconstruction, "load_encoder", lambda name: made)
    opened.cache_clear()
    return made


def extracted(encoder: Encoder, theatre: TheatreDataset, folder: Path) -> FeatureSet:
    writer = FeatureWriter(folder, describe(encoder, "mine", static=0))
    extract_items(encoder, theatre, torch.arange(len(theatre)), writer, device=CPU)
    return read_features("features:mine", FeatureStore(folder), read_annotations(folder), CPU, lambda *_: None)


def test_tokens_pool_to_the_embedding(encoder: Encoder) -> None:
    video = torch.rand(2, 4, 3, 32, 32)
    tokens = patch_tokens(encoder, video)
    half = encoder.width // 2
    assert tokens.shape == (2, 2 * 2 * 2, encoder.width)  # time halved, space a sixteenth
    pooled = torch.cat([tokens[..., :half].mean(1), tokens[..., half:].amax(1)], 1)
    assert torch.allclose(pooled, encoder(video), atol=1e-5)


def test_a_decoder_begins_with_the_mean_picture_and_learns_what_tokens_say() -> None:
    draw = torch.Generator().manual_seed(0)
    bright = torch.rand(120, 1, 1, 1, generator=draw)
    pictures = (0.1 + 0.8 * bright).expand(-1, 3, 32, 32)
    tokens = bright.view(120, 1, 1).repeat(1, 1, 4) - 7
    torch.manual_seed(0)
    assert torch.allclose(Decoder(tokens, pictures, 8)(tokens[:1])[0], pictures.mean(0), atol=1e-3)
    parts = {"train": slice(0, 80), "val": slice(80, 100), "test": slice(100, 120)}
    seen, wanted = ({part: every[where] for part, where in parts.items()} for every in (tokens, pictures))
    guess = train_decoder(seen, wanted, channels=8, epochs=15, seed=0)
    blind = wanted["train"].mean(0).expand_as(guess)
    assert (
        psnr(guess[:, None], wanted["test"][:, None]).mean() > psnr(blind[:, None], wanted["test"][:, None]).mean() + 5
    )


def test_f_a_sees_every_token_alone() -> None:
    tokens = torch.rand(2, 3, 16)
    counted = Planted(lambda features: features * features.shape[1])  # twice as much where two are together
    assert torch.equal(each_alone(counted, tokens), tokens)


def test_the_four_conditions_on_the_theatre(encoder: Encoder, minute: TheatreDataset, tmp_path: Path) -> None:  # noqa: F811
    data = extracted(encoder, minute, tmp_path / "features")
    constant = Planted(lambda features: torch.zeros_like(features))
    result = judged(data, "reconstruction", epochs=4, constant=constant, same=Planted(lambda features: features))
    raw, nothing, same = (scores(result, name) for name in ("identity", "constant", "same"))
    sights = ("embedding", "patch tokens")
    assert list(raw) == [f"reconstruction from {sight} {m}" for sight in sights for m in ("PSNR", "SSIM")]
    for name, score in nothing.items():
        assert same[name].value == score.raw == raw[name].value  # (b) is (a), and (d) is (c)
        assert score.low <= score.chance <= score.high


def test_an_encoder_that_cannot_be_had_is_named(encoder: Encoder, minute: TheatreDataset, tmp_path: Path) -> None:  # noqa: F811
    data = extracted(encoder, minute, tmp_path / "features")
    for parameter in encoder.parameters():
        parameter.data += 1
    with pytest.raises(SfumatoError, match="is of an encoder that cannot be had"):
        judged(data, "reconstruction")
    data.annotations = [type(a)(f"{n}.mp4", split=a.split) for n, a in enumerate(data.annotations)]
    with pytest.raises(SfumatoError, match="holds no clips of a data set"):
        judged(data, "reconstruction")
