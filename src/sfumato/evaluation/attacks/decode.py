"""Decode, then attack: tubelets are brought back from what is faint in them, and a fresh attacker looks at what they show.

A transformer that paints a tubelet from a token, as STPrivacy's and LaF-Privacy's do, is paid for what f_T reads and not for
forgetting the rest: nearly all that is to be seen may be one pattern that looks like noise, and a token's other features are
a grey level or two on top of it. A convolutional network looks past them. Along the axes in which tubelets vary they are as
large as all others (`whitening`), and a linear map of them gives colours back. As for `reconstruct`, whoever holds the
anonymizer makes the pairs to learn from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.evaluation.attacks.reconstruct import Undoing
from sfumato.evaluation.attacks.variants import variants
from sfumato.evaluation.exam import Desk
from sfumato.evaluation.whitening import ROUNDING, Size, axes_of, cut, grid_of, joined
from sfumato.training.device import seeded

SIZES: tuple[Size, ...] = ((1, 8, 8), (2, 8, 8), (4, 8, 8), (1, 16, 16), (2, 16, 16))  # of tubelets that are tried
SAMPLE = 40_000  # tubelets from which axes and the linear map are reckoned
VALUES = 3000  # of a tubelet that is tried; to find the axes of more takes minutes
RIDGE = 1e-3  # of the variance of a value along its axis


class Decoder(nn.Module):
    """Every tubelet that shows anything, decoded: by a linear map, and by what two convolutions over its neighbours add to it.

    shown, hidden: the same n tubelets, (n, values) each, anonymized and raw, from which the linear map is reckoned; the rest adds
    nothing before it has learnt. All in full precision: what tells may be in the last of the 8 bits. Black tubelets stay
    black. (B, T, 3, H, W) to the same shape, for clips of (T, H, W).

    >>> Decoder((2, 8, 8), (8, 64, 64), shown, hidden, width=128)(video)
    """

    mean: Tensor
    axes: Tensor

    def __init__(self, tubelet: Size, clip: Size, shown: Tensor, hidden: Tensor, width: int) -> None:
        super().__init__()
        self.tubelet, self.clip, self.grid = tubelet, clip, grid_of(clip, tubelet)
        self.register_buffer("mean", shown.mean(0))
        self.register_buffer("axes", axes_of(shown, ROUNDING))
        along, values = self.axes.shape[1], shown.shape[1]
        self.linear = nn.Linear(along, values)
        self.linear.weight.data, self.linear.bias.data = _ridge((shown - self.mean) @ self.axes, hidden)
        self.embed = nn.Conv3d(along, width, 1)
        self.place = nn.Parameter(torch.zeros(width, *self.grid))
        self.context = nn.Conv3d(width, width, (1, 3, 3), padding=(0, 1, 1))
        self.head = nn.Conv3d(width, values, 1)
        for parameter in self.head.parameters():
            nn.init.zeros_(parameter)

    def forward(self, video: Tensor) -> Tensor:
        with torch.autocast(video.device.type, enabled=False):
            tokens = cut(video.float(), self.tubelet)
            shown = tokens.any(2, keepdim=True)
            along = ((tokens - self.mean) @ self.axes) * shown
            around = along.transpose(1, 2).unflatten(2, self.grid)
            added = self.head(F.gelu(self.context(F.gelu(self.embed(around) + self.place))))
            decoded = self.linear(along) + added.flatten(2).transpose(1, 2)
            return joined(decoded * shown, self.clip, self.tubelet)


def _ridge(known: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Weight (values, along) and bias (values,) of the linear map from (n, along), of mean 0, to (n, values)."""
    usual = wanted.mean(0)
    strength = RIDGE * len(known) * torch.eye(known.shape[1], device=known.device)
    return torch.linalg.solve(known.T @ known + strength, known.T @ (wanted - usual)).T.contiguous(), usual


def sizes_for(clip: Size, native: tuple[int, int] | None) -> list[Size]:
    """The tubelets that are tried on clips of (T, H, W): those of SIZES, and as large as these have become where the
    anonymizer works at another size (height, width) and its pictures were brought to that of the clips.

    >>> sizes_for((2, 112, 112), (64, 64))
    [(1, 8, 8), (2, 8, 8), (1, 16, 16), (2, 16, 16), (1, 14, 14), (2, 14, 14), (1, 28, 28)]
    """
    rows, columns = (side / size for side, size in zip(clip[1:], native or clip[1:], strict=True))
    resized = [(frames, round(height * rows), round(width * columns)) for frames, height, width in SIZES]
    tried = dict.fromkeys((*SIZES, *resized))
    return [size for size in tried if size[0] <= clip[0] and 0 < 3 * math.prod(size) <= VALUES]


@torch.inference_mode()
def _missed(decoder: Decoder, desk: Desk) -> float:
    """Its mean squared error on validation clips where they are not black: what larger tubelets paint around that is no merit."""
    total = torch.zeros(2, device=desk.device)
    for chunk in zip(*(source("val").split(desk.examinee.fit.batch) for source in (desk.clips, desk.raw)), strict=True):
        given, wanted = (pixels.flatten(0, 1).to(desk.device).float() / 255 for pixels in chunk)
        shown = given.any(2, keepdim=True)
        total += torch.stack([((decoder(given) - wanted).square() * shown).sum(), 3.0 * shown.sum()])
    return float(total[0] / total[1].clamp(min=1))


@dataclass(frozen=True)
class Decode(Undoing):
    """Undoes by a `Decoder` of whole clips, for tubelets of that size whose linear map is the best on validation."""

    width: int = 128
    rate: ClassVar[float] = 1e-3
    parts: ClassVar[int] = 4

    def network(self, desk: Desk) -> nn.Module:
        clip = desk.dataset.shape
        sizes = sizes_for((clip.frames, clip.height, clip.width), desk.native)
        found = (self._decoder(tubelet, desk).to(desk.device) for tubelet in sizes)
        return min(found, key=lambda decoder: _missed(decoder, desk))

    def _decoder(self, tubelet: Size, desk: Desk) -> Decoder:
        shown, hidden = desk.clips("train"), desk.raw("train")
        clip = shown.shape[2], shown.shape[4], shown.shape[5]
        order = torch.randperm(len(shown), generator=seeded(desk.seed)).split(desk.examinee.fit.batch)
        pairs: list[Tensor] = []
        for rows in order:
            at = rows.to(shown.device)
            both = [cut(pixels[at].flatten(0, 1).to(desk.device).float() / 255, tubelet) for pixels in (shown, hidden)]
            pairs.append(torch.stack(both)[:, both[0].any(2)])
            if sum(pair.shape[1] for pair in pairs) >= SAMPLE:
                break
        found = torch.cat(pairs, 1)
        seen, raw = found if found.shape[1] else torch.stack(both)[:, :, 0]  # where all is black any will do
        return Decoder(tubelet, clip, seen, raw, self.width)

    def lesson(self, model: nn.Module, shown: Tensor, hidden: Tensor, rows: Tensor, draw: torch.Generator) -> Tensor:
        view = torch.randint(shown.shape[1], (len(rows),), generator=draw, device=rows.device)
        at = rows.to(shown.device), view.to(shown.device)
        given, wanted = (pixels[at].to(rows.device).float() / 255 for pixels in (shown, hidden))
        return F.mse_loss(model(given), wanted)


DECODE = variants("decode", "after tubelets have been decoded from what is faint in them", Decode())
