"""ActionCLIP: CLIP's own frame embeddings, the published temporal transformer, and the plain mean where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.recognizers.vlm import load_vlm

from .checkpoints import PROMPTS, SPACE, videos, write_clip, write_original, write_temporal, write_xclip

CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_clip(tmp_path)


def frame_features(folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    """CLIP's embeddings of the frames (B, T, E) and the prompts (P, E) and its scale, through `transformers` alone."""
    from transformers import CLIPModel, CLIPTokenizer

    clip = CLIPModel.from_pretrained(folder).eval()
    pixels = (videos() - torch.tensor(CLIP_MEAN).view(3, 1, 1)) / torch.tensor(CLIP_STD).view(3, 1, 1)
    tokens = CLIPTokenizer.from_pretrained(folder)(PROMPTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        # `forward` gives them normalised; the projections by hand give them as they are.
        frames = clip.visual_projection(clip.vision_model(pixel_values=pixels.flatten(0, 1)).pooler_output)
        text = clip.text_projection(clip.text_model(**tokens).pooler_output)
        return frames.unflatten(0, (2, 8)), text, clip.logit_scale.exp()


@torch.no_grad()
def test_without_a_temporal_part_it_is_the_mean_over_frames(folder: Path) -> None:
    frames, text, scale = frame_features(folder)
    model = load_vlm(f"actionclip:{folder}")
    assert "mean pooling only (neither actionclip.pt nor temporal.safetensors holds" in model.summary
    torch.testing.assert_close(model.embed_video(videos()).video, frames.mean(1))
    torch.testing.assert_close(model.embed_text(PROMPTS), text)
    cosine = nn.functional.cosine_similarity(frames.mean(1)[:, None], text, dim=2)
    torch.testing.assert_close(model.zero_shot(videos(), PROMPTS), scale * cosine)
    # The mean knows no order.
    torch.testing.assert_close(model.embed_video(videos().flip(1)).video, frames.mean(1))


def by_torch(state: dict[str, Tensor], frames: Tensor) -> Tensor:
    """The temporal part out of PyTorch's own layers: positions, two pre-norm layers, residual, mean."""
    tokens = frames + state["frame_position_embeddings.weight"][:8]
    for number in range(2):
        layer = nn.TransformerEncoderLayer(
            SPACE, 2, 4 * SPACE, 0.0, lambda x: x * torch.sigmoid(1.702 * x), 1e-12, batch_first=True, norm_first=True
        )
        names = {"attn": "self_attn", "ln_1": "norm1", "ln_2": "norm2", "mlp.c_fc": "linear1", "mlp.c_proj": "linear2"}
        own = {}
        for name, value in state.items():
            if name.startswith(prefix := f"transformer.resblocks.{number}."):
                rest = name.removeprefix(prefix)
                ours = next(part for part in names if rest.startswith(part + "."))
                own[names[ours] + rest.removeprefix(ours)] = value
        layer.load_state_dict(own)
        tokens = layer.eval()(tokens)
    return (tokens + frames).mean(1)


@torch.no_grad()
@pytest.mark.parametrize("prefix", ["", "module."])
def test_the_temporal_transformer_is_the_published_one(folder: Path, prefix: str) -> None:
    state, (frames, _, _) = write_temporal(folder, prefix), frame_features(folder)
    model = load_vlm(f"actionclip:{folder}")
    assert model.summary.endswith("a temporal transformer of 2 layers from temporal.safetensors")
    found = model.embed_video(videos()).video
    torch.testing.assert_close(found, by_torch(state, frames), rtol=1e-4, atol=1e-5)
    assert (found - frames.mean(1)).abs().max() > 0.05
    assert (found - model.embed_video(videos().flip(1)).video).abs().max() > 1e-3  # it knows order


def test_the_names_are_the_published_ones(folder: Path) -> None:
    layer = ("attn.in_proj_weight", "attn.in_proj_bias", "attn.out_proj.weight", "attn.out_proj.bias", "ln_1.weight", "ln_1.bias",
             "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias", "ln_2.weight", "ln_2.bias")  # fmt: skip
    expected = {f"transformer.resblocks.{i}.{name}" for i in range(2) for name in layer}
    assert set(write_temporal(folder)) == {"frame_position_embeddings.weight", *expected}


def test_temporal_parts_that_do_not_fit_are_refused(folder: Path) -> None:
    path, state = folder / "temporal.safetensors", write_temporal(folder)

    def refuses(weights: dict[str, Tensor], message: str) -> None:
        save_file(weights, path)
        with pytest.raises(SfumatoError, match=message):
            load_vlm(f"actionclip:{folder}")

    lacking = dict(load_file(path))
    del lacking["transformer.resblocks.1.ln_2.bias"]
    refuses(lacking, "do not fit a temporal transformer of 2 layers, 16 wide")
    refuses({**state, "more": torch.ones(1)}, "do not fit")
    few = state["frame_position_embeddings.weight"][:7].clone()
    refuses({**state, "frame_position_embeddings.weight": few}, "2 temporal layers and positions for 7 frames")
    refuses({"x": torch.ones(1)}, "0 temporal layers")
    path.write_text("nothing")
    with pytest.raises(SfumatoError, match="is not a safetensors file"):
        load_vlm(f"actionclip:{folder}")


def test_an_xclip_is_no_clip(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="a model of type 'xclip', not 'clip'"):
        load_vlm(f"actionclip:{write_xclip(tmp_path)}")
    (tmp_path / "actionclip.pt").touch()
    with pytest.raises(SfumatoError, match="a model of type 'xclip', not 'clip'"):
        load_vlm(f"actionclip:{tmp_path}")


@torch.no_grad()
@pytest.mark.parametrize("temporal", [True, False])
def test_the_published_file_is_read_as_it_is(folder: Path, temporal: bool) -> None:
    path = write_original(folder, temporal=temporal)
    assert "visual.transformer.resblocks.0.attn.in_proj_weight" in torch.load(path)["model_state_dict"]
    published = path.rename(folder.parent / "later")
    known = load_vlm(f"actionclip:{folder}")  # the same weights under the names of `transformers`
    published.rename(path)
    for others in folder.glob("*.safetensors"):
        others.unlink()
    found = load_vlm(f"actionclip:{folder}")
    assert ("2 layers from actionclip.pt" in found.summary) is temporal and (
        "mean pooling" in found.summary
    ) is not temporal
    for ours, theirs in zip(known.embed_video(videos()), found.embed_video(videos()), strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(known.embed_text(PROMPTS), found.embed_text(PROMPTS))
    assert known.scale == found.scale != 1
    assert found.frozen and all(weights.dtype == torch.float32 for weights in found.parameters())


def test_it_counts_where_openais_clip_lies_beside_it(folder: Path) -> None:
    frames, _, _ = frame_features(folder)
    write_original(folder, temporal=False)
    write_clip(folder)  # as it came, over what was trained further
    assert (load_vlm(f"actionclip:{folder}").embed_video(videos()).video - frames.mean(1)).abs().max() > 0.05


def test_files_that_are_no_published_actionclip_are_refused(folder: Path) -> None:
    path = write_original(folder)
    whole = torch.load(path)

    def refuses(content: object, message: str) -> None:
        torch.save(content, path)
        with pytest.raises(SfumatoError, match=message):
            load_vlm(f"actionclip:{folder}")

    clip, fusion = whole["model_state_dict"], whole["fusion_model_state_dict"]
    refuses(clip, "is no published ActionCLIP: it needs model_state_dict and fusion_model_state_dict")
    refuses({**whole, "fusion_model_state_dict": 3}, "is no published ActionCLIP")
    refuses({**whole, "model_state_dict": {**clip, "more": torch.ones(1)}}, "does not fit '.*config.json'")
    refuses({**whole, "model_state_dict": {**clip, "visual.conv1.weight": torch.ones(24, 3, 8, 8)}}, "does not fit")
    short = {name: value[:5] if name.endswith("in_proj_bias") else value for name, value in clip.items()}
    refuses({**whole, "model_state_dict": short}, "does not fit")
    refuses({**whole, "fusion_model_state_dict": {"x": torch.ones(1)}}, "0 temporal layers")
    refuses({**whole, "epoch": Path("code")}, "cannot read weights from")  # would be run
    torch.save({**whole, "fusion_model_state_dict": {f"module.{n}": v for n, v in fusion.items()}}, path)
    assert "from actionclip.pt" in load_vlm(f"actionclip:{folder}").summary
