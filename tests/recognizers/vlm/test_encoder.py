"""A vision-language model as an encoder: its video embedding is the feature, and it still reads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.errors import SfumatoError
from sfumato.recognizers.encoders import LanguageEncoder, load_encoder
from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig, VideoLanguageModel, save_vlm

from .checkpoints import PROMPTS, SIDE, videos, write_clip, write_xclip


def test_its_features_are_the_models_video_embeddings(model: VideoLanguageModel) -> None:
    encoder = LanguageEncoder(model)
    with torch.no_grad():
        wanted, text = model.embed_video(videos()).video, model.embed_text(PROMPTS)
        assert torch.allclose(encoder(videos()), wanted, atol=1e-6)
        assert torch.allclose(encoder.read(PROMPTS), text, atol=1e-6)
    assert encoder.clip == (8, SIDE, SIDE) and encoder.width == wanted.shape[1] == text.shape[1]
    assert not encoder.train().training and not any(parameter.requires_grad for parameter in encoder.parameters())


def test_each_family_is_loaded_by_its_name(tmp_path: Path) -> None:
    small, xclip, clip = tmp_path / "small", tmp_path / "xclip", tmp_path / "clip"
    save_vlm(SmallVLM(SmallVLMConfig((8, SIDE, SIDE), ("a", "person"), width=24, depth=1, embedding=12)), small)
    for folder in (xclip, clip):
        folder.mkdir()
    names = (str(small), f"xclip:{write_xclip(xclip)}", f"actionclip:{write_clip(clip)}")
    loaded = [load_encoder(name) for name in names]
    assert all(isinstance(encoder, LanguageEncoder) for encoder in loaded)
    assert [encoder.width for encoder in loaded] == [12, 16, 16]
    with pytest.raises(SfumatoError, match=f"name it as xclip:{xclip}"):
        load_encoder(str(xclip))
