"""Fits a recognizer to labels: chosen on validation data, blind to test data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.objectives.labels import heads_loss, split_heads
from sfumato.training.augment import augment
from sfumato.training.device import autocast, find_fast_kernels, keep_freed_memory, seeded, settle
from sfumato.training.optimisation import adam
from sfumato.video.sampling import Box, crop_boxes

IN_PLACE = {"shift": 0.0, "zoom": 0.0}
Report = Callable[[int, int, float], None]


@dataclass(frozen=True)
class FitConfig:
    """How long and how hard a recognizer is trained."""

    epochs: int = 20
    batch: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.02
    frames: int | None = None  # frames per clip in a training step; None: the whole clip
    test_frames: int | None = None  # frames per clip, evenly spread, when judging
    test_crop: float = 1.0  # of the sides of the picture, what is seen of it when judging
    test_crops: int = 1  # such crops, from end to end, whose answers are averaged
    flip: bool = True
    moved: bool = True  # clips are shifted and zoomed in training; False keeps everything in its place


@dataclass
class ClipSet:
    """Clips and what to tell about them. pixels: uint8 (N, views, T, 3, H, W); labels: int64 (N, heads), -1 unknown."""

    pixels: Tensor
    labels: Tensor


@dataclass
class Fit:
    """What a training gave: the best epoch's model, its score on validation, and the score after every epoch."""

    model: nn.Module
    validation: float
    curve: list[float] = field(default_factory=list)


@torch.inference_mode()
def predict(model: nn.Module, pixels: Tensor, heads: Sequence[int], config: FitConfig, device: torch.device) -> Tensor:
    """Probabilities (N, sum of heads): softmax per question, averaged over a video's views and crops. The model in eval mode.

    pixels: uint8 (N, views, T, 3, H, W).
    """
    model.eval()
    answers = []
    for chunk in pixels.split(config.batch):
        n, views, t = chunk.shape[:3]
        keep = torch.linspace(0, t - 1, config.test_frames or t).round().long()
        clips = chunk[:, :, keep].flatten(0, 1).to(device).float() / 255
        found = []
        for box in crop_boxes(clips.shape[-2], clips.shape[-1], config.test_crop, config.test_crops):
            with autocast(device):
                logits = model(_cropped(clips, box))
            found.append(torch.cat([part.float().softmax(-1) for part in split_heads(logits, heads)], dim=-1))
        answers.append(torch.stack(found).mean(0).view(n, views, -1).mean(1).cpu())
    return torch.cat(answers)


def fit(
    model: nn.Module, train: ClipSet, validation: ClipSet, heads: Sequence[int], config: FitConfig, *,
    score: Callable[[Tensor, Tensor], float], seed: int, device: torch.device, report: Report | None = None,
) -> Fit:  # fmt: skip
    """Train `model` on `train`, keep the epoch that `score(probabilities, labels)` likes best on `validation`.

    There is no test set in sight: whoever calls this judges the answer afterwards, once.
    """
    keep_freed_memory()
    find_fast_kernels()
    model = settle(model, device)
    draw = seeded(seed, device)
    pixels, labels = train.pixels, train.labels.to(device)
    optimizer = adam(model, config.learning_rate, config.weight_decay, device)
    steps = max(1, len(pixels) // config.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.learning_rate, total_steps=steps * config.epochs)
    best, best_state, curve = -float("inf"), None, []
    for epoch in range(config.epochs):
        model.train()
        order = torch.randperm(len(pixels), generator=draw, device=device)
        for step in range(steps):
            rows = order[step * config.batch : (step + 1) * config.batch]
            clips = _draw_views(pixels, rows, config.frames, draw).to(device)
            with autocast(device):
                logits = model(augment(clips, draw, flip=config.flip, **({} if config.moved else IN_PLACE)))
            loss = heads_loss(logits, labels[rows], heads)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        now = score(predict(model, validation.pixels, heads, config, device), validation.labels)
        curve.append(now)
        if now >= best:
            best, best_state = now, {k: v.detach().clone() for k, v in model.state_dict().items()}
        if report:
            report(epoch + 1, config.epochs, now)
    if best_state is not None:
        model.load_state_dict(best_state)
    return Fit(model.eval(), best, curve)


def _cropped(clips: Tensor, box: Box) -> Tensor:
    """(B, T, 3, H, W) to the same: what lies in the box, brought to the size of all."""
    size = clips.shape[-2:]
    if (box.height, box.width) == tuple(size):
        return clips
    part = clips[..., box.top : box.top + box.height, box.left : box.left + box.width]
    return F.interpolate(part.flatten(0, 1), size, mode="bilinear", align_corners=False).unflatten(0, clips.shape[:2])


def _draw_views(pixels: Tensor, rows: Tensor, frames: int | None, draw: torch.Generator) -> Tensor:
    """One random view of each clip, or some random frames of it in order: uint8 (B, T or frames, 3, H, W)."""
    views, t = pixels.shape[1:3]
    device = rows.device
    view = torch.randint(views, (len(rows),), generator=draw, device=device)
    clips = pixels[rows.to(pixels.device), view.to(pixels.device)]
    if frames is None or frames >= t:
        return clips
    picked = torch.rand(len(rows), t, generator=draw, device=device).topk(frames, dim=1).indices.sort(1).values
    picked = picked.to(pixels.device)
    return clips[torch.arange(len(rows), device=pixels.device)[:, None], picked]
