"""Frozen encoders: published families from tiny checkpoints on disk, and our own recognizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import shelf
from sfumato.errors import SfumatoError
from sfumato.recognizers import make_recognizer
from sfumato.recognizers.base import VideoRecognizer
from sfumato.recognizers.encoders import Encoder, RecognizerEncoder, load_encoder, save_encoder, static_clips

COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}


def tiny_model(family: str) -> Any:
    import transformers as t

    torch.manual_seed(0)
    if family == "videomae":
        return t.VideoMAEModel(t.VideoMAEConfig(image_size=32, patch_size=16, num_frames=4, **COMMON))
    if family == "timesformer":
        return t.TimesformerModel(t.TimesformerConfig(image_size=32, patch_size=16, num_frames=4, **COMMON))
    if family == "vivit":
        return t.VivitModel(t.VivitConfig(image_size=32, num_frames=4, tubelet_size=[2, 16, 16], **COMMON))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2.0}
    predictor = {"pred_hidden_size": 24, "pred_num_attention_heads": 2, "pred_num_hidden_layers": 1}
    return t.VJEPA2Model(t.VJEPA2Config(crop_size=32, patch_size=16, frames_per_clip=4, **sizes, **predictor))


def clips(count: int = 2, side: int = 32, frames: int = 4) -> Tensor:
    return torch.rand(count, frames, 3, side, side, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=["videomae", "vjepa2", "timesformer", "vivit"])
def published(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Encoder, Any]:
    """An encoder, and the model that was written to disk."""
    model = tiny_model(request.param).eval()
    model.save_pretrained(tmp_path)
    return load_encoder(str(tmp_path)), model


def test_a_published_encoder_pools_the_models_own_tokens(published: tuple[Encoder, Any]) -> None:
    encoder, model = published
    assert (encoder.width, encoder.clip) == (32, (4, 32, 32))
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    pixels = (clips() - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    with torch.no_grad():
        tokens = (model(pixels, skip_predictor=True) if "JEPA" in type(model).__name__ else model(pixels))[0]
    has_cls = tokens.shape[1] % 2 == 1  # two frames of 2×2 patches, or four
    wanted = tokens[:, 0] if has_cls else tokens.mean(1)
    assert has_cls == (type(model).__name__ in ("TimesformerModel", "VivitModel"))
    assert torch.allclose(encoder(clips()), wanted, atol=1e-5)


def test_it_stays_frozen_and_sees_no_batch_mates(published: tuple[Encoder, Any]) -> None:
    encoder, _ = published
    assert not encoder.train().training and not any(m.training for m in encoder.modules())
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    assert torch.allclose(encoder(clips())[1:], encoder(clips()[1:]), atol=1e-5)


def test_other_sizes_are_resized_and_other_lengths_refused(tmp_path: Path) -> None:
    tiny_model("videomae").save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path))
    flat = torch.full((1, 4, 3, 50, 70), 0.25)
    assert torch.allclose(encoder(flat), encoder(torch.full((1, 4, 3, 32, 32), 0.25)), atol=1e-5)
    with pytest.raises(SfumatoError, match=r"takes clips of 4 frames of 3 colours, not \(8, 3, 32, 32\)"):
        encoder(clips(frames=8))


def test_the_checkpoints_own_pixels_count(tmp_path: Path) -> None:
    tiny_model("videomae").save_pretrained(tmp_path)
    usual = load_encoder(str(tmp_path))(clips())
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0, 0, 0], "image_std": [1, 1, 1]}))
    assert not torch.allclose(load_encoder(str(tmp_path))(clips()), usual, atol=1e-3)


def test_a_recognizer_with_its_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trained = make_recognizer("tiny-video", 7, clip=(4, 32, 32)).eval()
    torch.save(trained.state_dict(), tmp_path / "weights.pt")
    encoder = RecognizerEncoder("tiny-video", tmp_path / "weights.pt", (4, 32, 32))
    assert encoder.width == trained.feature_width
    with torch.no_grad():
        assert torch.allclose(encoder(clips()), trained.features(clips()), atol=1e-6)
    assert load_encoder(f"tiny-video:{tmp_path / 'weights.pt'}").clip == (16, 112, 112)


def test_one_that_comes_with_the_project_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path / "weights")
    network = make_recognizer("tiny-video", 3, clip=(4, 16, 16), width=0.1)
    assert isinstance(network, VideoRecognizer)
    folder = save_encoder(network, "tiny-video", {"width": 0.1}, tmp_path / "weights" / "eye")
    assert load_encoder("eye").fingerprint() == load_encoder(str(folder)).fingerprint()
    monkeypatch.chdir(tmp_path)
    save_encoder(make_recognizer("tiny-video", 3, clip=(8, 16, 16), width=0.1), "tiny-video", {"width": 0.1}, "eye")  # type: ignore[arg-type]
    assert load_encoder("eye").clip == (8, 16, 16)  # a folder is meant before the shelf
    with pytest.raises(SfumatoError, match=r"no folder 'ear'.*; here by name: eye"):
        load_encoder("ear")


def test_the_fingerprint_is_that_of_the_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trained = make_recognizer("tiny-video", 7, clip=(4, 32, 32))
    prints = []
    for _ in range(2):
        torch.save(trained.state_dict(), tmp_path / "weights.pt")
        prints += [RecognizerEncoder("tiny-video", tmp_path / "weights.pt", (4, 32, 32)).fingerprint() for _ in "ab"]
        next(trained.parameters()).data += 1
    assert prints[0] == prints[1] != prints[2] == prints[3]


def test_what_is_no_encoder_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(SfumatoError, match=r"holds a model of type 'bert': encoders are of type videomae, vjepa2"):
        load_encoder(str(tmp_path))
    with pytest.raises(SfumatoError, match="there is no folder 'nowhere'"):
        load_encoder("nowhere")
    with pytest.raises(SfumatoError, match="'resnet-18' looks at frames"):
        load_encoder(f"resnet-18:{tmp_path / 'weights.pt'}")


def test_a_static_clip_is_one_frame_again_and_again() -> None:
    frames = clips()[:, 0]
    still = static_clips(frames, 5)
    assert still.shape == (2, 5, 3, 32, 32) and all(torch.equal(still[:, t], frames) for t in range(5))
