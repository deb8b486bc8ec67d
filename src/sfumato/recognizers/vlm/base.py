"""What a video vision-language model is: clips and prompts in one space, from networks that do not learn here.

LaF-Privacy (SPEC.md section 6) holds three embeddings of a clip still while it changes the pixels, and reads the action
from the same model by comparing the clip with sentences.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sfumato.errors import SfumatoError, counted
from sfumato.objectives.contrastive import cosines
from sfumato.recognizers.base import Clip, Pixels

CLIP_PIXELS = Pixels((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))

Model = TypeVar("Model", bound="VideoLanguageModel")


class VideoEmbeddings(NamedTuple):
    """What L_action compares between a clip and its anonymized version."""

    patch: Tensor  # y^patch, (B, T, N, D): every patch of every frame, as the last layer leaves it
    frame: Tensor  # y^cls, (B, T, D): every frame's [CLS] token, normed, before it is projected
    video: Tensor  # y^video, (B, E): the clip in the space of the prompts, of any length


class VideoLanguageModel(nn.Module, ABC):
    """Clips and prompts in one space. `clip` is the one (T, H, W) it takes, `grid` the patches of a frame, N = product.

    Once frozen it stays so: its parameters get no gradient and it stays in eval mode whatever `.train()` says, while
    gradients flow through it to the pixels. `checkpointing`, on by default, then keeps the memory of one layer at a
    time: the others are computed again in the backward pass.

    >>> model = load_vlm("xclip:microsoft/xclip-base-patch16")  # doctest: +SKIP
    >>> model.zero_shot(video, fill_prompts("a person {}", ["waves", "jumps"])).argmax(1)  # doctest: +SKIP
    """

    summary: str  # one line: what it is made of
    mean: Tensor
    std: Tensor

    def __init__(self, clip: Clip, patch: int, pixels: Pixels) -> None:
        super().__init__()
        frames, height, width = clip
        if min(frames, height, width, patch) < 1 or height % patch or width % patch:
            raise SfumatoError(
                f"{counted(frames, 'frame')} of {height}×{width} cannot be cut into patches of {patch}×{patch}",
                f"use a height and a width that are multiples of {patch}",
            )
        self.clip: Clip = (frames, height, width)
        self.grid = (height // patch, width // patch)
        self.frozen = False
        self.register_buffer("mean", torch.tensor(pixels.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(pixels.std).view(3, 1, 1), persistent=False)

    @property
    @abstractmethod
    def scale(self) -> Tensor:
        """What the cosines are multiplied with, (): the inverse of the learned temperature."""

    @abstractmethod
    def encode_video(self, pixels: Tensor) -> VideoEmbeddings:
        """Normalised pixels (B, T, 3, H, W) of the right size to the three embeddings."""

    @abstractmethod
    def encode_text(self, prompts: Sequence[str]) -> Tensor:
        """One or more prompts to (P, E)."""

    def embed_video(self, video: Tensor) -> VideoEmbeddings:
        """(B, T, 3, H, W) in [0, 1], of exactly this model's `clip`, to patch (B, T, N, D), frame (B, T, D), video (B, E).

        >>> load_vlm("runs/vlm").embed_video(torch.rand(1, 8, 3, 64, 64)).patch.shape  # doctest: +SKIP
        torch.Size([1, 8, 16, 192])
        """
        frames, height, width = self.clip
        wanted = (frames, 3, height, width)
        if video.ndim != 5 or video.shape[1:] != wanted:
            # Taken as it is, another number of frames would mix the clips of a batch: X-CLIP counts frames off in eights.
            raise SfumatoError(
                f"this model takes clips of (frames, colours, height, width) {wanted}, not {tuple(video.shape[1:])}",
                "choose and resize frames to fit, or use a model made for such clips",
            )
        return self.encode_video((video - self.mean) / self.std)

    def embed_text(self, prompts: Sequence[str]) -> Tensor:
        """P prompts to (P, E), of any length, with a warning where they hold words that this model does not know.

        >>> load_vlm("runs/vlm").embed_text(["a person waves", "a person jumps"]).shape  # doctest: +SKIP
        torch.Size([2, 128])
        """
        if isinstance(prompts, str) or not prompts:
            raise SfumatoError("there are no prompts to compare with", "give a list of one sentence or more")
        if unknown := self.unknown_words(prompts):
            warnings.warn(told_unknown(unknown), stacklevel=2)
        return self.encode_text(list(prompts))

    def tokens(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """What the text model gets of each prompt: two that are equal here it cannot tell apart. By default every letter.

        >>> load_vlm("runs/vlm").tokens(["a person waves", "A person waves."])  # doctest: +SKIP
        [(3, 46, 81, 1), (3, 46, 81, 1)]
        """
        return [tuple(map(ord, prompt)) for prompt in prompts]

    def unknown_words(self, prompts: Sequence[str]) -> tuple[str, ...]:
        """The words of these prompts that all are one to the text model, which has never read them. By default none.

        >>> load_vlm("runs/vlm").unknown_words(["a person yawns"])  # doctest: +SKIP
        ('yawns',)
        """
        return ()

    def match(self, embeddings: VideoEmbeddings, text: Tensor) -> Tensor:
        """Logits (B, P) from what `embed_video` and `embed_text` gave: the prompts of a whole test are embedded once.

        >>> model.match(model.embed_video(video), model.embed_text(prompts))  # doctest: +SKIP
        """
        return self.scale * cosines(embeddings.video, text)

    def zero_shot(self, video: Tensor, prompts: Sequence[str]) -> Tensor:
        """(B, T, 3, H, W) in [0, 1] and P prompts to logits (B, P): scale · cosine.

        >>> model.zero_shot(video, ["a person waves", "a person jumps"]).argmax(1)  # doctest: +SKIP
        """
        return self.match(self.embed_video(video), self.embed_text(prompts))

    def freeze(self: Model) -> Model:
        """From now on nothing here learns."""
        self.frozen = True
        return self.eval().requires_grad_(False)

    def train(self: Model, mode: bool = True) -> Model:
        return super().train(mode and not self.frozen)

    def requires_grad_(self: Model, requires_grad: bool = True) -> Model:
        return super().requires_grad_(requires_grad and not self.frozen)

    @property
    def checkpointing(self) -> bool:
        """Whether layers are computed again in the backward pass instead of being kept."""
        return all(layer.active for layer in self._recomputed())

    @checkpointing.setter
    def checkpointing(self, wanted: bool) -> None:
        for layer in self._recomputed():
            layer.active = wanted

    def _recomputed(self) -> list[Recomputed]:
        return [module for module in self.modules() if isinstance(module, Recomputed)]


class Recomputed(nn.Module):
    """A layer that forgets what it computed inside, and computes it again when a gradient asks for it.

    `transformers` has the same, but only in training mode, which a frozen model never enters.

    >>> Recomputed(nn.Linear(4, 4))(torch.rand(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.active = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        if self.active and torch.is_grad_enabled():
            # No layer here draws random numbers, so that there is no state of a generator to bring back.
            return checkpoint(self.layer, *inputs, use_reentrant=False, preserve_rng_state=False, **options)
        return self.layer(*inputs, **options)


def told_unknown(words: Sequence[str]) -> str:
    """A line about words that a model does not know.

    >>> told_unknown(["kick", "pull"])
    'words that this model has never read count as <unk>: kick, pull'
    """
    return f"words that this model has never read count as <unk>: {', '.join(words)}"


def recompute(layers: nn.ModuleList) -> None:
    """Put every layer of the list into a `Recomputed`, in place.

    >>> recompute(nn.ModuleList([nn.Linear(4, 4)]))
    """
    for place, layer in enumerate(layers):
        layers[place] = Recomputed(layer)
