"""What of dropped tubelets can still be read from those beside them (claim V9; trap 7 of SPEC.md).

In the paper's mode kept tokens have seen dropped ones before the drop. To tell what comes through from what an attacker
could guess by itself, the anonymizer decides on a clip, and then what it drops is replaced by another clip's content, which
nothing in the kept tubelets hints at. The decision held, an attacker sees the output, where the dropped tubelets are black,
and says of which colour they were. How much of the variance that explains is known beforehand wherever nothing comes
through, as with `two_pass`: none, but for chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.anonymizers.base import Anonymizer
from sfumato.anonymizers.tubelets import Decision, Tubelets
from sfumato.errors import SfumatoError
from sfumato.evaluation.metrics import MIN_GROUPS, bootstrap
from sfumato.evaluation.whitening import ROUNDING, Size, axes_of, cut
from sfumato.recognizers.layers import TransformerLayer, initialise_transformer
from sfumato.training.device import keep_freed_memory, seeded
from sfumato.training.optimisation import adam

RATE, WEIGHT_DECAY, WIDTH = 1e-3, 0.02, 192
TOKENS = 20_000  # kept tubelets, from which the attacker learns along which axes they vary
Pairs = list[tuple[Tensor, Tensor]]  # batches of clips (B,), and of those that are put into them (B,)


@dataclass(frozen=True)
class Reading:
    """The share of the variance of dropped colours that was read on test clips, R², with its 95% interval over them.

    validation: the same on validation clips, in the epoch that was best there.
    """

    value: float
    low: float
    high: float
    validation: float


def dropped_places(held: Decision, grid: Size) -> Tensor:
    """Which tubelets are dropped in the end: bool (B, L, rows, columns), for a grid of (L, rows, columns).

    >>> dropped_places(Decision((torch.tensor([[[0, 3]]]),)), (1, 2, 2)).tolist()
    [[[[False, True], [True, False]]]]
    """
    _, rows, columns = grid
    return (held.masks(rows * columns)[-1] == 0).unflatten(2, (rows, columns))


def swap_dropped(video: Tensor, other: Tensor, dropped: Tensor, tubelet: Size) -> Tensor:
    """`video` with the pixels of `other` in its dropped tubelets: twice (B, T, 3, H, W), bool (B, L, rows, columns).

    tubelet: (frames, height, width) of one; those at the far ends may be cut short.

    >>> black, white = torch.zeros(1, 1, 3, 1, 4), torch.ones(1, 1, 3, 1, 4)
    >>> swap_dropped(black, white, torch.tensor([[[[True, False]]]]), (1, 1, 2))[0, 0, 0]
    tensor([[1., 1., 0., 0.]])
    """
    pixels = dropped
    for axis, size in enumerate(tubelet, start=1):
        pixels = pixels.repeat_interleave(size, axis)
    frames, _, height, width = video.shape[1:]
    return torch.where(pixels[:, :frames, None, :height, :width], other, video)


def tubelet_colours(video: Tensor, tubelet: Size) -> Tensor:
    """The mean colour of every tubelet: (B, T, 3, H, W) to (B, L, 3, rows, columns).

    >>> tubelet_colours(torch.rand(1, 8, 3, 64, 64), (2, 16, 16)).shape
    torch.Size([1, 4, 3, 4, 4])
    """
    return F.avg_pool3d(video.transpose(1, 2), tubelet, ceil_mode=True).transpose(1, 2)


def dropped_colour(colours: Tensor, dropped: Tensor, cells: int = 1) -> tuple[Tensor, Tensor]:
    """The mean colour of the dropped tubelets in each step of time, or in each of `cells`×`cells` parts of its picture.

    (B, L, 3, rows, columns) and bool (B, L, rows, columns) to (B, L, 3, cells, cells), 0 where none is dropped, and
    bool (B, L, 1, cells, cells), whether one is.

    >>> colours = torch.tensor([0.2, 0.4, 0.9]).expand(1, 1, 3, 1, 3)
    >>> dropped_colour(colours, torch.tensor([[[[True, True, False]]]]))[0].flatten()
    tensor([0.3000, 0.3000, 0.3000])
    """
    chosen = dropped[:, :, None].to(colours.dtype)
    total, share = (F.adaptive_avg_pool2d(each.flatten(0, 1), cells) for each in (colours * chosen, chosen))
    mean = total / share.masked_fill(share == 0, 1)
    return mean.unflatten(0, dropped.shape[:2]), (share > 0).unflatten(0, dropped.shape[:2])


def explained(missed: np.ndarray, varied: np.ndarray) -> float:
    """R²: 1 − squared error / squared deviation, each (N,), of N clips.

    >>> explained(np.array([1.0, 0.0]), np.array([2.0, 2.0]))
    0.75
    """
    return float(1 - missed.sum() / varied.sum())


def read_dropped(
    anonymizer: Anonymizer, train: Tensor, val: Tensor, test: Tensor, *, epochs: int = 20, batch: int = 32, seed: int = 0,
    device: torch.device, cells: int = 1,
) -> Reading:  # fmt: skip
    """How well an attacker reads the colour of what was dropped (see above) in each step of time; cells: see `dropped_colour`.

    train, val, test: raw uint8 pixels (N, views, T, 3, H, W) of the anonymizer's size. The attacker learns on training
    clips with others put into them anew in every batch; the epoch is the best one on validation. To name what the mean clip
    of the part shows where something is dropped, which the black places tell, is R² = 0.

    >>> read_dropped(load("runs/stprivacy/anonymizer"), *parts, device=torch.device("cpu")).value  # doctest: +SKIP
    """
    asked = _checked(anonymizer, train, val, test).to(device).eval()
    keep_freed_memory()
    lessons, checks, exams = (_Swaps(asked, part, cells, batch, device) for part in (train, val, test))
    torch.manual_seed(seed)
    seen = lessons.kept_tubelets(lessons.draw(seeded(seed, device)))
    reader = TubeletReader(asked.tubelet, asked.grid, seen, cells).to(device)
    validation = _learn(reader, lessons, checks, epochs, seed)
    missed, varied = _judge(reader, exams, seed)
    found = bootstrap(lambda items: explained(missed[items], varied[items]), len(missed), seed=seed)
    return Reading(found.value, found.low, found.high, validation)


def _checked(anonymizer: Anonymizer, *parts: Tensor) -> Tubelets:
    """The anonymizer, if it drops tubelets and there are clips enough."""
    if not isinstance(anonymizer, Tubelets):
        raise SfumatoError(f"'{anonymizer.name}' drops no tubelets", "give one that stprivacy has trained")
    if anonymizer.alpha == 1:
        raise SfumatoError("with alpha = 1 nothing is dropped, and there is nothing to read", "set a smaller alpha")
    for part in parts:
        if part.ndim != 6 or part.shape[3] != 3 or part.dtype != torch.uint8:
            raise SfumatoError(
                f"{tuple(part.shape)} of {part.dtype} are no stored clips",
                "give uint8 (clips, views, frames, 3 colours, height, width)",
            )
        if len(part) < MIN_GROUPS:
            raise SfumatoError(f"{len(part)} clips are too few to swap", f"give {MIN_GROUPS} or more in each part")
    return anonymizer


class _Swaps:
    """The clips of a part, what is dropped of each, and by how much the colours of its tubelets differ from the mean."""

    @torch.no_grad()
    def __init__(self, anonymizer: Tubelets, pixels: Tensor, cells: int, batch: int, device: torch.device) -> None:
        self.anonymizer, self.cells, self.batch, self.device = anonymizer, cells, batch, device
        self.clips, self.views = pixels.shape[:2]
        self.pixels = pixels.flatten(0, 1)
        colours, kept = [], []
        for rows in torch.arange(len(self.pixels)).split(batch):
            video = self._video(rows)
            colours.append(tubelet_colours(video, anonymizer.tubelet))
            kept.append(anonymizer.decide(video).kept)
        self.colours = torch.cat(colours)  # (N·views, L, 3, rows, columns)
        # Places differ by themselves, and which were dropped is to be seen: without this, it would say something of colours.
        self.colours -= self.colours.mean(0)
        self.held = Decision(tuple(torch.cat(block) for block in zip(*kept, strict=True)))

    def _video(self, rows: Tensor) -> Tensor:
        """As float (B, T, 3, H, W) on the device."""
        return self.pixels[rows.to(self.pixels.device)].to(self.device).float() / 255

    @torch.no_grad()
    def show(self, rows: Tensor, others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What an attacker gets, in 8 bits, of clips (B,) with others (B,) where they are dropped; then `dropped_colour`."""
        held = Decision(tuple(block[rows] for block in self.held.kept))
        dropped = dropped_places(held, self.anonymizer.grid)
        swapped = swap_dropped(self._video(rows), self._video(others), dropped, self.anonymizer.tubelet)
        shown = (self.anonymizer.forward_with(swapped, held).clamp(0, 1) * 255).round() / 255
        return shown, *dropped_colour(self.colours[others], dropped, self.cells)

    def draw(self, draw: torch.Generator) -> Pairs:
        """An epoch: each clip once, in a random view, with a random view of any other clip; whole batches only."""

        def random(low: int, high: int) -> Tensor:
            return torch.randint(low, high, (self.clips,), generator=draw, device=self.device)

        order = torch.randperm(self.clips, generator=draw, device=self.device)
        others = (order + random(1, self.clips)) % self.clips
        found = self._pairs(order * self.views + random(0, self.views), others * self.views + random(0, self.views))
        return found[: self.steps]

    @property
    def steps(self) -> int:
        """How many batches an epoch has."""
        return max(1, self.clips // self.batch)

    def ring(self, draw: torch.Generator) -> Pairs:
        """Each view of each clip, in order, with the same view of another clip; each clip is put into one other.

        Where no two pairs share a clip in the same role, they can be resampled as if each stood for itself.
        """
        order = torch.randperm(self.clips, generator=draw, device=self.device)
        other = torch.empty_like(order).scatter_(0, order, order.roll(1))
        views = torch.arange(self.views, device=self.device)
        own = torch.arange(self.clips, device=self.device)
        rows, others = ((clips[:, None] * self.views + views).flatten() for clips in (own, other))
        return self._pairs(rows, others)

    def _pairs(self, rows: Tensor, others: Tensor) -> Pairs:
        return list(zip(rows.split(self.batch), others.split(self.batch), strict=True))

    def kept_tubelets(self, pairs: Pairs) -> Tensor:
        """Tubelets that are to be seen, (n, values), from as many pairs as it takes for `TOKENS` of them."""
        found: list[Tensor] = []
        for pair in pairs:
            tokens = cut(self.show(*pair)[0], self.anonymizer.tubelet)
            found.append(tokens[tokens.any(2)])
            if sum(map(len, found)) >= TOKENS:
                break
        return torch.cat(found)


class TubeletReader(nn.Module):
    """(B, T, 3, H, W) to colours (B, L, 3, cells, cells): one transformer layer over the tubelets that are to be seen.

    A leak is faint beside what else a tubelet shows, but anonymizers paint from few features: along the axes in which
    tubelets vary, each brought to the same deviation, it is not. All in full precision: the leak may be in the last of the 8
    bits.

    >>> TubeletReader((2, 16, 16), (4, 4, 4), kept)(torch.rand(2, 8, 3, 64, 64)).shape
    torch.Size([2, 4, 3, 1, 1])
    """

    mean: Tensor
    axes: Tensor

    def __init__(self, tubelet: Size, grid: Size, seen: Tensor, cells: int = 1) -> None:
        super().__init__()
        self.tubelet, self.steps, self.cells = tubelet, grid[0], cells
        self.register_buffer("mean", seen.mean(0))
        self.register_buffer("axes", axes_of(seen, 4 * ROUNDING))
        along = self.axes.shape[1]
        self.embed = nn.Linear(along, WIDTH)
        self.position = nn.Parameter(torch.zeros(math.prod(grid), WIDTH))
        self.layer = TransformerLayer(WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(2 * WIDTH, 3 * cells**2)
        initialise_transformer(self)
        nn.init.trunc_normal_(self.position, std=0.02)
        nn.init.normal_(self.embed.weight, std=along**-0.5)
        nn.init.zeros_(self.head.weight)  # at first it says the mean

    def forward(self, video: Tensor) -> Tensor:
        tokens = cut(video, self.tubelet)
        kept = tokens.any(2, keepdim=True)
        tokens = self.embed((tokens - self.mean) @ self.axes) * kept + self.position
        in_step = self.norm(self.layer(tokens)).unflatten(1, (self.steps, -1)).mean(2)
        in_clip = in_step.mean(1, keepdim=True).expand_as(in_step)
        said: Tensor = self.head(torch.cat([in_step, in_clip], 2))
        return said.unflatten(2, (3, self.cells, self.cells))


def _learn(reader: TubeletReader, lessons: _Swaps, checks: _Swaps, epochs: int, seed: int) -> float:
    """Leaves the best epoch's weights in the reader; how well it did on validation."""
    draw, scale = seeded(seed, lessons.device), lessons.colours.square().mean() * reader.steps * 3 * reader.cells**2
    optimizer = adam(reader, RATE, WEIGHT_DECAY, lessons.device)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=lessons.steps * epochs)
    best, best_state = -math.inf, reader.state_dict()
    for _ in range(epochs):
        reader.train()
        for pair in lessons.draw(draw):
            loss = _squares(reader, lessons, *pair)[0].mean() / scale
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        now = explained(*_judge(reader, checks, seed))
        if now >= best:
            best, best_state = now, {key: value.clone() for key, value in reader.state_dict().items()}
    reader.load_state_dict(best_state)
    return best


@torch.no_grad()
def _judge(reader: TubeletReader, swaps: _Swaps, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Its squared error on every clip of a part, and that of who says the mean: twice (N,)."""
    reader.eval()
    found = [_squares(reader, swaps, *pair) for pair in swaps.ring(seeded(seed, swaps.device))]
    missed, varied = torch.cat(found, 1).unflatten(1, (swaps.clips, swaps.views)).sum(2).double().cpu().numpy()
    return missed, varied


def _squares(reader: TubeletReader, swaps: _Swaps, rows: Tensor, others: Tensor) -> Tensor:
    """(2, B): the squared error of the reader on each pair, and that of who says the mean, where something is dropped."""
    shown, colour, counted = swaps.show(rows, others)
    both = torch.stack([reader(shown) - colour, colour]).square() * counted
    return both.flatten(2).sum(2)
