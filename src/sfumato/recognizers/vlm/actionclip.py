"""ActionCLIP: CLIP on every frame, and a temporal transformer over the frames' embeddings, mean-pooled.

Wang et al., "ActionCLIP: A New Paradigm for Video Action Recognition", 2021. The published model is one file with both, to
be put as `actionclip.pt` beside the config.json and the tokenizer of the CLIP it was trained from. Otherwise CLIP comes from
a `transformers` checkpoint, the temporal part from `temporal.safetensors` beside it, under the names of the published
`fusion_model_state_dict`; on a CLIP that it was not trained with it is not the published model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError, counted
from sfumato.recognizers.published import load_model, local_folder
from sfumato.recognizers.vlm.base import CLIP_PIXELS, VideoEmbeddings
from sfumato.recognizers.vlm.original import load_original, without_module
from sfumato.recognizers.vlm.published import PublishedModel

ORIGINAL = "actionclip.pt"
TEMPORAL = "temporal.safetensors"
FRAMES = 8
NORM_EPSILON = 1e-12
POSITIONS = "frame_position_embeddings.weight"
BLOCK = re.compile(r"transformer\.resblocks\.(\d+)\.")


class ActionCLIP(PublishedModel):
    """A published CLIP for 8 frames, frozen. `source` is a checkpoint's folder or its id on the Hugging Face Hub.

    Without a temporal part the video embedding is the plain mean over the frames; `summary` says which.

    >>> ActionCLIP("openai/clip-vit-base-patch16").summary  # doctest: +SKIP
    'ActionCLIP, 8 frames of 224×224 in patches of 16, mean pooling only (neither actionclip.pt nor …)'
    """

    def __init__(self, source: str | Path) -> None:
        from transformers import CLIPModel

        folder = local_folder(source)
        if (path := folder / ORIGINAL).is_file():
            model, temporal = load_original(CLIPModel, folder, path)
        else:
            model, path = load_model(CLIPModel, folder), folder / TEMPORAL
            temporal = read_temporal(path) if path.is_file() else None
        vision = model.config.vision_config
        side, patch = vision.image_size, vision.patch_size
        super().__init__(folder, model, FRAMES, CLIP_PIXELS)
        self.temporal: TemporalTransformer | None = None
        pooling = f"mean pooling only (neither {ORIGINAL} nor {TEMPORAL} holds a temporal part)"
        if temporal is not None:
            # The published temporal part has as many heads as the text model.
            heads = model.config.text_config.num_attention_heads
            self.temporal = make_temporal(temporal, model.config.projection_dim, heads, path)
            pooling = f"a temporal transformer of {counted(len(self.temporal.transformer.resblocks), 'layer')} from {path.name}"
        self.summary = f"ActionCLIP, {FRAMES} frames of {side}×{side} in patches of {patch}, {pooling}"
        self.freeze()

    def encode_video(self, pixels: Tensor) -> VideoEmbeddings:
        patch, frame = self.encode_frames(pixels)
        projected = self.model.visual_projection(frame)
        return VideoEmbeddings(patch, frame, projected.mean(1) if self.temporal is None else self.temporal(projected))


class TemporalTransformer(nn.Module):
    """Self-attention between the frames of a clip, added to what they were, and the mean over time.

    >>> TemporalTransformer(512, layers=6, heads=8, positions=77)(torch.rand(1, 8, 512)).shape
    torch.Size([1, 512])
    """

    def __init__(self, width: int, layers: int, heads: int, positions: int) -> None:
        super().__init__()
        self.frame_position_embeddings = nn.Embedding(positions, width)
        self.transformer = _Blocks(width, layers, heads)

    def forward(self, frames: Tensor) -> Tensor:
        """(B, T, E) to (B, E)."""
        placed = frames + self.frame_position_embeddings.weight[: frames.shape[1]]
        attended: Tensor = self.transformer.resblocks(placed) + frames
        return attended.mean(1)


class _Blocks(nn.Module):
    """A name in the published state dict, and no more."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.resblocks = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))


class _Block(nn.Module):
    """CLIP's layer: pre-norm attention and a feed-forward part of four times the width, each residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_1 = nn.LayerNorm(width, NORM_EPSILON)
        self.mlp = nn.Sequential()
        self.mlp.add_module("c_fc", nn.Linear(width, 4 * width))
        self.mlp.add_module("gelu", _QuickGELU())
        self.mlp.add_module("c_proj", nn.Linear(4 * width, width))
        self.ln_2 = nn.LayerNorm(width, NORM_EPSILON)

    def forward(self, frames: Tensor) -> Tensor:
        normed = self.ln_1(frames)
        frames = frames + self.attn(normed, normed, normed, need_weights=False)[0]
        result: Tensor = frames + self.mlp(self.ln_2(frames))
        return result


class _QuickGELU(nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        return values * torch.sigmoid(1.702 * values)


def read_temporal(path: Path) -> Mapping[str, Tensor]:
    """The temporal part's weights in that safetensors file.

    >>> list(read_temporal(Path("actionclip/temporal.safetensors")))[0]  # doctest: +SKIP
    'frame_position_embeddings.weight'
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return without_module(load_file(path))
    except (SafetensorError, OSError) as error:
        raise SfumatoError(f"'{path}' is not a safetensors file", "no other format is read: convert it") from error


def make_temporal(given: Mapping[str, Tensor], width: int, heads: int, path: Path) -> TemporalTransformer:
    """The temporal part of those weights, for embeddings `width` wide; layers and positions as they have them.

    path: where they are from.

    >>> make_temporal(read_temporal(path), 512, 8, path)  # doctest: +SKIP
    """
    layers = len({found[1] for name in given if (found := BLOCK.match(name))})
    positions = len(given[POSITIONS]) if POSITIONS in given else 0
    if layers == 0 or positions < FRAMES:
        raise SfumatoError(
            f"'{path}' holds {counted(layers, 'temporal layer')} and positions for {counted(positions, 'frame')}",
            f"it needs 1 layer or more and {FRAMES} positions, named as in ActionCLIP's fusion_model_state_dict",
        )
    temporal = TemporalTransformer(width, layers, heads, positions)
    try:
        temporal.load_state_dict(dict(given))
    except RuntimeError as error:
        raise SfumatoError(
            f"the weights in '{path}' do not fit a temporal transformer of {counted(layers, 'layer')}, {width} wide",
            "use the file that belongs to this checkpoint",
        ) from error
    return temporal
