"""The *reconstruction* protocol (SPLAVU Appendix C, Figure 4): a small decoder paints the picture back, in four conditions.

(a) from the encoder's tokens, one for each patch; (b) from what f_A makes of each of them; (c) from the one embedding of the
whole clip; (d) from what f_A makes of that. A fresh decoder is trained for each, its epoch chosen on validation. What is painted
is the clip's middle frame, at 32×32; PSNR and SSIM are those of the test clips, beside the mean picture of the training clips,
which is the best one can paint without looking. The paper finetunes VideoMAE's own decoder; ours is fresh, for any encoder.

It needs the pixels and the encoder: a store of a data set's clips, and the encoder where the manifest says it is.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.anonymizers.latent_adapter import LatentAnonymizer
from sfumato.anonymizers.streaming import resized
from sfumato.errors import SfumatoError
from sfumato.evaluation.latent.base import LatentProtocol, Sheet, per_item
from sfumato.evaluation.latent.material import LONGEST, Parts, Subject, parts_of
from sfumato.evaluation.latent.origins import opened, origin
from sfumato.evaluation.latent.probe import videos_of
from sfumato.evaluation.metrics import psnr
from sfumato.objectives.ssim import ssim
from sfumato.recognizers.encoders import FAMILIES, Encoder, PublishedEncoder, RecognizerEncoder, load_encoder
from sfumato.recognizers.layers import TransformerLayer, head_count
from sfumato.training.device import seeded
from sfumato.training.extraction import first_clips
from sfumato.training.feature_data import FeatureSet
from sfumato.training.optimisation import adam, one_cycle, set_rate

SIDE, PATCH = 32, 4  # pixels
MOST = {"train": 512, "val": 64, "test": 128}  # clips: tokens of all of them are held at once
EPOCHS, BATCH, RATE, DEPTH = 40, 32, 2e-3, 2
ENCODED = 8  # clips at a time


class Decoder(nn.Module):
    """Tokens (B, P, D) to pictures (B, 3, 32, 32) in [0, 1]; at first the mean picture, whatever they say.

    Each patch of the picture asks all tokens. One embedding is one token: to repeat it for every patch, as the paper does,
    would change nothing here.

    >>> Decoder(torch.rand(9, 4, 16), torch.rand(9, 3, 32, 32), channels=8)(torch.rand(2, 4, 16)).shape
    torch.Size([2, 3, 32, 32])
    """

    mean: Tensor
    deviation: Tensor
    blank: Tensor

    def __init__(self, tokens: Tensor, pictures: Tensor, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", tokens.mean((0, 1)))
        self.register_buffer("deviation", tokens.std((0, 1), correction=0).clamp(min=1e-6))
        self.register_buffer("blank", pictures.mean(0).clamp(0.01, 0.99).logit())
        self.project = nn.Linear(tokens.shape[2], channels)
        self.places = nn.Parameter(0.02 * torch.randn(tokens.shape[1], channels))
        self.patches = nn.Parameter(0.02 * torch.randn((SIDE // PATCH) ** 2, channels))
        heads = head_count(channels)
        self.ask = nn.ModuleList(nn.MultiheadAttention(channels, heads, batch_first=True) for _ in range(DEPTH))
        self.think = nn.ModuleList(TransformerLayer(channels) for _ in range(DEPTH))
        self.paint = nn.Linear(channels, 3 * PATCH * PATCH)
        nn.init.zeros_(self.paint.weight)
        nn.init.zeros_(self.paint.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, P, D) to (B, 3, 32, 32)."""
        seen = self.project((tokens - self.mean) / self.deviation) + self.places
        hidden = self.patches.expand(len(tokens), -1, -1)
        for ask, think in zip(self.ask, self.think, strict=True):
            hidden = think(hidden + ask(hidden, seen, seen, need_weights=False)[0])
        across = SIDE // PATCH
        squares = self.paint(hidden).view(-1, across, across, 3, PATCH, PATCH)
        change = squares.permute(0, 3, 1, 4, 2, 5).reshape(-1, 3, SIDE, SIDE)
        return torch.sigmoid(change + self.blank)


@torch.no_grad()
def patch_tokens(encoder: Encoder, video: Tensor) -> Tensor | None:
    """What an encoder has at each place before it pools: (B, T, 3, H, W) to (B, P, D); None where ours does not know where.

    A map that is pooled in several ways, as by mean and maximum, gives as many copies: so one place alone would be pooled.

    >>> patch_tokens(load_encoder("r3d-18:r3d_18.pth"), torch.rand(1, 16, 3, 112, 112)).shape  # doctest: +SKIP
    torch.Size([1, 98, 512])
    """
    kept: list[Tensor] = []
    if isinstance(encoder, PublishedEncoder):
        with encoder.model.register_forward_hook(lambda *made: kept.append(made[2].last_hidden_state)):
            encoder(video)
        # The token that stands for the whole is no patch.
        return kept[0][:, 1:] if encoder.family.pool is FAMILIES["vivit"].pool else kept[0]
    if not isinstance(encoder, RecognizerEncoder):
        return None
    last = next((getattr(encoder.network, name) for name in ("layer4", "body") if hasattr(encoder.network, name)), None)
    if last is None:
        return None
    with last.register_forward_hook(lambda *made: kept.append(made[2])):
        encoder(video)
    tokens = kept[0].flatten(2).transpose(1, 2)
    return tokens.repeat(1, 1, encoder.width // tokens.shape[2]) if encoder.width % tokens.shape[2] == 0 else None


def train_decoder(
    tokens: dict[str, Tensor], pictures: dict[str, Tensor], *, channels: int, epochs: int, seed: int
) -> Tensor:
    """The test pictures as a fresh decoder paints them from tokens["test"]; trained on "train", chosen on "val".

    >>> train_decoder(tokens, pictures, channels=32, epochs=5, seed=0).shape  # doctest: +SKIP
    """
    torch.manual_seed(seed)
    shown, wanted = tokens["train"], pictures["train"]
    model, draw = Decoder(shown, wanted, channels).to(wanted.device), seeded(seed)
    optimizer = adam(model, RATE, 0.01, wanted.device)
    best, state = -math.inf, model.state_dict()
    for epoch in range(epochs):
        set_rate(optimizer, RATE * one_cycle(epoch / epochs))
        for rows in torch.randperm(len(shown), generator=draw).to(wanted.device).split(BATCH):
            loss = F.mse_loss(model(shown[rows]), wanted[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        now = float(psnr(painted(model, tokens["val"])[:, None], pictures["val"][:, None]).mean())
        if now >= best:
            best, state = now, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    return painted(model, tokens["test"])


@torch.no_grad()
def painted(model: nn.Module, tokens: Tensor) -> Tensor:
    """Pictures (N, 3, 32, 32) of tokens (N, P, D).

    >>> painted(decoder, tokens).shape  # doctest: +SKIP
    """
    return torch.cat([model(some) for some in tokens.split(BATCH)])


@torch.no_grad()
def each_alone(adapter: LatentAnonymizer, tokens: Tensor) -> Tensor:
    """f_A on every token by itself, (N, P, D) to the same.

    >>> each_alone(LatentAdapter(16), torch.rand(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """
    flat = tokens.flatten(0, 1)[:, None]
    return torch.cat([adapter(some) for some in flat.split(LONGEST)])[:, 0].view_as(tokens)


class ReconstructionProtocol(LatentProtocol):
    """(b) beside (a), and (d) beside (c)."""

    name = "reconstruction"
    summary = "a small decoder paints pictures from patch tokens and embeddings, PSNR and SSIM; Appendix C, Figure 4"
    models = "cross-attention decoder"

    def prepare(self) -> None:
        """The clips whose pixels can be had, and the encoder."""
        useful = [origin(annotation.name) is not None for annotation in self.data.annotations]
        found = parts_of(self.data, useful, "clip")
        few = {part: _some(videos, MOST[part]) for part, videos in videos_of(found).items()}
        self.parts = Parts(few["train"], few["val"], few["test"], found.note)
        self.lacks = "holds no clips of a data set that can be opened" if not any(useful) else self.parts.lacks()
        if self.lacks:
            return
        manifest = self.data.manifest
        try:
            self.encoder = load_encoder(manifest.encoder).to(self.device)
            manifest.require(self.encoder.fingerprint(), self.encoder.width)
        except SfumatoError as error:
            self.lacks = f"is of an encoder that cannot be had ({error.what})"
        self._made: tuple[dict[str, Tensor], dict[str, Tensor]] | None = None

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """A decoder for the tokens, where there are any, and one for the embedding."""
        pictures, tokens = self._material()
        sights = {"embedding": {p: self._embeddings(subject.features, v) for p, v in videos_of(self.parts).items()}}
        if tokens:
            sights["patch tokens"] = {part: each_alone(subject.adapter, some) for part, some in tokens.items()}
        truth, blind = pictures["test"][:, None], pictures["train"].mean(0).expand_as(pictures["test"])[:, None]
        sheet = Sheet()
        for sight, seen in sights.items():
            guess = train_decoder(
                seen, pictures, channels=self.config.pick(32, 128), epochs=self.config.epochs or EPOCHS, seed=seed
            )[:, None]
            for name, like in (("PSNR", psnr), ("SSIM", ssim)):
                values, without = like(guess, truth)[:, 0].cpu().numpy(), float(like(blind, truth).mean())
                sheet.tallies.append(per_item(f"reconstruction from {sight} {name}", values, without))
        return sheet

    def _embeddings(self, data: FeatureSet, videos: Tensor) -> Tensor:
        """Of the first clip of each video, (n, 1, D)."""
        return data.vectors[data.first[videos].to(data.vectors.device), 0][:, None]

    def _material(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Pictures (n, 3, 32, 32) and tokens (n, P, D) of each part; no tokens where the encoder shows none."""
        if self._made is None:
            drawn = {part: self._look(videos) for part, videos in videos_of(self.parts).items()}
            tokens = {part: seen for part, (_, seen) in drawn.items() if seen is not None}
            if not tokens:
                self.notes.append(f"reconstruction: the tokens of '{self.data.manifest.encoder}' are out of reach")
            self._made = {part: picture for part, (picture, _) in drawn.items()}, tokens
        return self._made

    def _look(self, videos: Tensor) -> tuple[Tensor, Tensor | None]:
        pictures, tokens = [], []
        for some in videos.split(ENCODED):
            clips = self._clips(some.tolist()).to(self.device).float() / 255
            pictures.append(resized(clips[:, clips.shape[1] // 2], (SIDE, SIDE)).clamp(0, 1))
            seen = patch_tokens(self.encoder, clips)
            if seen is not None:
                tokens.append(seen.float())
        return torch.cat(pictures), torch.cat(tokens) if tokens else None

    def _clips(self, videos: list[int]) -> Tensor:
        """The first clip of each video, uint8 (n, T, 3, H, W), as the encoder saw it."""
        found: dict[int, Tensor] = {}
        by_data: dict[str, list[int]] = defaultdict(list)
        places = {video: cast(tuple[str, int], origin(self.data.annotations[video].name)) for video in videos}
        for video, (data, _) in places.items():
            by_data[data].append(video)
        for data, mine in by_data.items():
            indices = torch.tensor([places[video][1] for video in mine])
            found |= dict(zip(mine, first_clips(opened(data), indices, self.data.manifest), strict=True))
        return torch.stack([found[video] for video in videos])


def _some(videos: Tensor, most: int) -> Tensor:
    """At most so many of them, evenly spread."""
    return videos[torch.linspace(0, len(videos) - 1, min(most, len(videos))).round().long()]
