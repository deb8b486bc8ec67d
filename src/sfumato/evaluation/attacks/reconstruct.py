"""Reconstruct, then attack: a network learns to undo the anonymizer, and a fresh attacker looks at what it gives back.

Whoever holds the anonymizer makes as many pairs of raw and anonymised clips as they like; here they are those of the
training part. How close the reconstruction comes is measured on the test clips, as PSNR and SSIM, beside what the mean
picture of the training part reaches, which is the best one can paint without looking.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from sfumato.anonymizers.unet import UNet
from sfumato.datasets.base import Part
from sfumato.evaluation.attacks.variants import variants
from sfumato.evaluation.exam import Approach, Desk, Reply, asked
from sfumato.evaluation.metrics import psnr
from sfumato.objectives.reconstruction import l1_reconstruction
from sfumato.objectives.ssim import ssim
from sfumato.training.device import autocast, seeded, settle
from sfumato.training.optimisation import adam

FRAMES = 2  # of a clip at a time: neighbours are alike, and a batch wants many clips


class Undo(nn.Module):
    """A small U-Net that says what to add to each frame; at first nothing. (B, T, 3, H, W) to the same shape.

    >>> Undo(width=16)(video)
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        # Norms of a batch, not of a frame: how bright a frame is as a whole may have to be undone too.
        self.network = UNet(width=width, norm="batch", size=0)
        for parameter in self.network.output.parameters():
            nn.init.zeros_(parameter)

    def forward(self, video: Tensor) -> Tensor:
        change: Tensor = self.network(video)  # in [0, 1]; ½ is no change
        return video + 2 * change - 1


@dataclass(frozen=True)
class Undoing(Approach, ABC):
    """Learns to undo the anonymizer, for as many epochs as the attack itself, then sees all clips undone.

    A kind of undoing says by which `network`, and what that learns from a batch (`lesson`).
    """

    width: int
    rate: ClassVar[float]
    parts: ClassVar[int] = 1  # into which a batch of the exam is divided for the undoing

    @abstractmethod
    def network(self, desk: Desk) -> nn.Module:
        """Who is to undo it, before it has learnt that: (B, T, 3, H, W) to the same shape."""

    @abstractmethod
    def lesson(self, model: nn.Module, shown: Tensor, hidden: Tensor, rows: Tensor, draw: torch.Generator) -> Tensor:
        """The loss on the pairs of these rows of twice uint8 (N, views, T, 3, H, W)."""

    def prepare(self, desk: Desk) -> Desk:
        settings, made = desk.examinee.fit, desk.memory.anonymised
        # Exams about the same clips share it, whatever they ask.
        clips = (tuple(asked(desk.exam, desk.dataset, part).tolist()) for part in ("train", "val"))
        key = self, *clips, settings.epochs, settings.batch, settings.weight_decay, desk.seed
        if key not in made:
            made[key] = self._learn_to_undo(desk)
        undo: nn.Module = made[key]
        kept: dict[Part, Tensor] = {}

        def undone(part: Part) -> Tensor:
            if part not in kept:
                kept[part] = reconstructed(undo, desk.clips(part), settings.batch, desk.device)
            return kept[part]

        return replace(desk, clips=undone)

    def _learn_to_undo(self, desk: Desk) -> nn.Module:
        """On pairs of the training part; the epoch whose PSNR on validation pairs is best."""
        settings, device = desk.examinee.fit, desk.device
        torch.manual_seed(desk.seed)
        model, draw = settle(self.network(desk), device), seeded(desk.seed, device)
        shown, hidden = desk.clips("train"), desk.raw("train")
        batch = max(1, settings.batch // self.parts)
        steps = max(1, len(shown) // batch)
        optimizer = adam(model, self.rate, settings.weight_decay, device)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, total_steps=steps * settings.epochs)
        best, best_state = -math.inf, model.state_dict()
        for epoch in range(settings.epochs):
            model.train()
            order = torch.randperm(len(shown), generator=draw, device=device)
            for rows in order.split(batch)[:steps]:
                loss = self.lesson(model, shown, hidden, rows, draw)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                schedule.step()
            seen = reconstructed(model, desk.clips("val"), settings.batch, device)
            now = float(compared(psnr, seen, desk.raw("val"), settings.batch, device).mean())
            if now >= best:
                best, best_state = now, copy.deepcopy(model.state_dict())
            if desk.report:
                desk.report(epoch + 1, settings.epochs, now)
        model.load_state_dict(best_state)
        return model.eval()


@dataclass(frozen=True)
class Reconstruct(Undoing):
    """Undoes frame by frame, by a U-Net, and measures how close it comes."""

    width: int = 16
    rate: ClassVar[float] = 3e-3

    def network(self, desk: Desk) -> nn.Module:
        return Undo(self.width)

    def lesson(self, model: nn.Module, shown: Tensor, hidden: Tensor, rows: Tensor, draw: torch.Generator) -> Tensor:
        given, wanted = _draw_pairs(shown, hidden, rows, draw)
        with autocast(rows.device):
            return l1_reconstruction(wanted, model(given))

    def answer(self, desk: Desk, model: nn.Module, part: Part) -> Reply:
        reply = super().answer(desk, model, part)
        if part != "test":
            return reply
        batch, device = desk.examinee.fit.batch, desk.device
        seen, truth = desk.clips("test"), desk.raw("test")
        blind = mean_picture(desk.raw("train"), batch).expand_as(truth)
        found = {
            name: torch.stack([compared(measure, guess, truth, batch, device) for guess in (seen, blind)]).numpy()
            for name, measure in (("PSNR", psnr), ("SSIM", ssim))
        }
        return replace(reply, measures=found)


def _draw_pairs(shown: Tensor, hidden: Tensor, rows: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """The same random frames of a random view of both, as float (B, FRAMES, 3, H, W) on the device of `rows`."""
    views, frames = shown.shape[1:3]

    def chosen(count: int, wide: int) -> Tensor:
        return torch.randint(count, (len(rows), wide), generator=draw, device=rows.device)

    at = [index.to(shown.device) for index in (rows[:, None], chosen(views, 1), chosen(frames, FRAMES))]
    given, wanted = (pixels[at[0], at[1], at[2]].to(rows.device).float() / 255 for pixels in (shown, hidden))
    return given, wanted


@torch.inference_mode()
def reconstructed(undo: nn.Module, pixels: Tensor, batch: int, device: torch.device) -> Tensor:
    """Every clip undone, as 8-bit pixels where the given ones are: uint8 (N, views, T, 3, H, W) to the same shape.

    >>> reconstructed(Undo(16), pixels, 32, torch.device("cpu"))
    """
    undo.eval()
    done = torch.empty_like(pixels)
    for start in range(0, len(pixels), batch):
        chunk = pixels[start : start + batch]
        with autocast(device):
            out = undo(chunk.flatten(0, 1).to(device).float() / 255)
        out = (out.float().clamp(0, 1) * 255).round().to(torch.uint8)
        done[start : start + batch] = out.unflatten(0, chunk.shape[:2]).to(done.device)
    return done


@torch.inference_mode()
def compared(
    measure: Callable[[Tensor, Tensor], Tensor], one: Tensor, other: Tensor, batch: int, device: torch.device
) -> Tensor:
    """`measure`, of frames, averaged over the frames of each clip: twice uint8 (N, views, T, 3, H, W) to (N,).

    >>> compared(ssim, undone, raw, 32, torch.device("cpu"))
    """
    found = []
    for pair in zip(one.split(batch), other.split(batch), strict=True):
        first, second = (chunk.flatten(0, 1).to(device).float() / 255 for chunk in pair)
        found.append(measure(first, second).mean(1).view(len(pair[0]), -1).mean(1).cpu())
    return torch.cat(found)


def mean_picture(pixels: Tensor, batch: int) -> Tensor:
    """The mean of all frames of all clips, rounded: uint8 (N, views, T, 3, H, W) to (3, H, W).

    >>> mean_picture(torch.full((2, 1, 4, 3, 8, 8), 7, dtype=torch.uint8), batch=1).unique()
    tensor([7], dtype=torch.uint8)
    """
    total = torch.stack([chunk.float().mean((1, 2)).sum(0) for chunk in pixels.split(batch)]).sum(0)
    return (total / len(pixels)).round().to(torch.uint8)


RECONSTRUCT = variants("reconstruct", "after a network has undone the anonymizer", Reconstruct())
