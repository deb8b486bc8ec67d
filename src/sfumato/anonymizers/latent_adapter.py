"""SPLAVU's anonymizing adapter (AAM): features of a frozen encoder to features of the same width (SPEC.md section 7)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.anonymizers.settings import require_least
from sfumato.errors import SfumatoError
from sfumato.recognizers.layers import TransformerLayer, initialise_transformer

ATTEND = ("feature", "video", "batch", "none")
DROPOUT = 0.1  # of the MLP variants, in training


class LatentAnonymizer(nn.Module, ABC):
    """f_A on features: (B, S, D), S clips of one video in time order, to the same shape.

    Independent of batch-mates and deterministic in eval mode. mask: bool (B, S), False where there is no clip; what stands there
    has no influence on any other clip.
    """

    name: ClassVar[str]
    width: int

    @abstractmethod
    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, S, D) to the same."""

    @abstractmethod
    def settings(self) -> Mapping[str, float | int | str | bool]:
        """The constructor's arguments that make it again (weights aside)."""


class LatentAdapter(LatentAnonymizer):
    """`layers` layers of self-attention, or of an MLP, from D = `width` features to as many.

    attend: what attention runs over. "feature", the default: D is cut into `tokens` pieces with a place each, within one clip.
    "video": the clips of one video; a lone clip is then mapped by itself. "batch": all clips that happen to be in the batch, as
    the public code does; a clip's answer depends on its batch-mates, so it is for comparison only. "none": no attention, an MLP
    of Linear, ReLU, BatchNorm and dropout. feed_forward: attention layers have a feed-forward part of twice the width; the
    paper's parameter counts have it, its public code does not.

    With attention it begins as the identity, exactly; an MLP has to learn that first.

    >>> LatentAdapter(256)(torch.rand(2, 5, 256)).shape
    torch.Size([2, 5, 256])
    """

    name = "latent-adapter"

    def __init__(
        self,
        width: int,
        layers: int = 3,
        heads: int = 8,
        attend: str = "feature",
        feed_forward: bool = True,
        tokens: int = 16,
    ) -> None:
        super().__init__()
        require_least({}, width=width, layers=layers, heads=heads, tokens=tokens)
        if attend not in ATTEND:
            raise SfumatoError(f"there is no attend = '{attend}'", f"use one of {', '.join(ATTEND)}")
        self.width, self.layer_count, self.heads, self.attend = width, layers, heads, attend
        self.feed_forward, self.tokens = feed_forward, tokens
        if attend == "none":
            self.layers = nn.ModuleList(_mlp_layer(width) for _ in range(layers))
            return
        inner = self._inner_width()
        if inner % heads:
            raise SfumatoError(f"{heads} heads do not divide a width of {inner}", "choose another number of heads")
        growth = 2 if feed_forward else 0
        self.layers = nn.ModuleList(TransformerLayer(inner, growth=growth, heads=heads) for _ in range(layers))
        if attend == "feature":
            self.embed = nn.Linear(width // tokens, inner)
            self.place = nn.Parameter(torch.empty(tokens, inner))
            self.unembed = nn.Linear(inner, width // tokens)
            nn.init.trunc_normal_(self.place, std=0.02)
        initialise_transformer(self)
        self._begin_as_identity()

    def _inner_width(self) -> int:
        if self.attend != "feature":
            return self.width
        if self.width % self.tokens:
            raise SfumatoError(
                f"{self.width} features cannot be cut into {self.tokens} equal pieces",
                "choose another number of tokens",
            )
        # Half of D is wide enough for each piece to hold what it learns of all others; a multiple of the heads.
        return max(1, self.width // 2 // self.heads) * self.heads

    def _begin_as_identity(self) -> None:
        """Whatever is added to the features begins at 0."""
        if self.attend == "feature":
            nn.init.zeros_(self.unembed.weight)
            return
        for layer in self.layers:
            assert isinstance(layer, TransformerLayer)
            nn.init.zeros_(layer.project.weight)
            if layer.feed is not None:
                nn.init.zeros_(layer.feed[-1].weight)  # type: ignore[arg-type]

    def settings(self) -> Mapping[str, float | int | str | bool]:
        """The constructor's arguments."""
        return {
            "width": self.width, "layers": self.layer_count, "heads": self.heads, "attend": self.attend,
            "feed_forward": self.feed_forward, "tokens": self.tokens,
        }  # fmt: skip

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, S, D) to the same; what stands where `mask` (B, S) is False comes back as it was."""
        if features.ndim != 3 or features.shape[-1] != self.width:
            raise SfumatoError(
                f"features of shape {tuple(features.shape)} do not fit an adapter of width {self.width}",
                "give (videos, clips, width), from the encoder it was trained with",
            )
        if mask is None:
            mask = torch.ones(features.shape[:2], dtype=torch.bool, device=features.device)
        done = {"feature": self._by_feature, "video": self._by_video, "batch": self._by_batch, "none": self._by_mlp}
        return torch.where(mask[..., None], done[self.attend](features, mask), features)

    def _by_feature(self, features: Tensor, mask: Tensor) -> Tensor:
        pieces = features.flatten(0, 1).unflatten(1, (self.tokens, -1))
        hidden = self.embed(pieces) + self.place
        for layer in self.layers:
            hidden = layer(hidden)
        return features + self.unembed(hidden).flatten(1).view_as(features)

    def _by_video(self, features: Tensor, mask: Tensor) -> Tensor:
        # A video without any clip would have nobody to attend to; it may look at itself, and is not looked at.
        seen = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        features = features.masked_fill(~mask[..., None], 0)  # not a number times no attention is not a number

        def among_clips(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)

        for layer in self.layers:
            features = layer(features, among_clips)
        return features

    def _by_batch(self, features: Tensor, mask: Tensor) -> Tensor:
        together = self._by_video(features.flatten(0, 1)[None], mask.flatten()[None])
        return together.view_as(features)

    def _by_mlp(self, features: Tensor, mask: Tensor) -> Tensor:
        # Only true clips: padding must not move the statistics.
        hidden = features[mask]
        for layer in self.layers:
            hidden = layer(hidden)
        return features.masked_scatter(mask[..., None], hidden.to(features.dtype))


def _mlp_layer(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Dropout(DROPOUT))
