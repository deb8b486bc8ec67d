"""Where it happens: scenes, landmarks, and the things that stand around. Nothing here depends on who acts or how."""

from __future__ import annotations

import torch
from torch import Tensor

from sfumato.theatre.dice import Dice
from sfumato.theatre.painter import Canvas, Shapes

OBJECTS = ("ball", "racket", "box", "bag", "bottle", "book")
SPORT_OBJECTS = (1, 1, 0, 0, 0, 0)
SCENES = ("living room", "kitchen", "office", "gym", "park", "street", "beach", "night yard")

# Per scene: wall or sky at the top, at the horizon, floor; then six shapes. A shape is
# (x, y, half width, half height, rounding, red, green, blue, pattern) in shares of the picture's side.
_W, _N = 1, 0
_SCENES: tuple[tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]], ...] = (
    (((0.86, 0.80, 0.70), (0.80, 0.72, 0.62), (0.55, 0.40, 0.28)),
     ((0.22, 0.26, 0.13, 0.12, 0.01, 0.72, 0.86, 0.95, _N), (0.78, 0.24, 0.11, 0.09, 0.01, 0.62, 0.30, 0.28, _W), (0.84, 0.66, 0.16, 0.07, 0.04, 0.40, 0.45, 0.62, _N), (0.84, 0.56, 0.17, 0.04, 0.03, 0.36, 0.40, 0.58, _N), (0.06, 0.55, 0.02, 0.16, 0.01, 0.30, 0.24, 0.20, _N), (0.06, 0.40, 0.06, 0.05, 0.02, 0.95, 0.88, 0.60, _N))),
    (((0.93, 0.94, 0.92), (0.86, 0.90, 0.90), (0.66, 0.68, 0.70)),
     ((0.25, 0.20, 0.22, 0.10, 0.01, 0.55, 0.70, 0.72, _N), (0.80, 0.20, 0.16, 0.10, 0.01, 0.55, 0.70, 0.72, _N), (0.20, 0.64, 0.20, 0.10, 0.01, 0.92, 0.90, 0.86, _N), (0.20, 0.53, 0.21, 0.015, 0.01, 0.35, 0.35, 0.38, _N), (0.88, 0.52, 0.10, 0.24, 0.02, 0.80, 0.83, 0.86, _N), (0.55, 0.40, 0.10, 0.05, 0.00, 0.90, 0.92, 0.95, _W))),
    (((0.80, 0.84, 0.88), (0.74, 0.78, 0.82), (0.46, 0.50, 0.56)),
     ((0.50, 0.18, 0.34, 0.10, 0.00, 0.58, 0.74, 0.88, _W), (0.14, 0.60, 0.14, 0.03, 0.01, 0.62, 0.50, 0.36, _N), (0.14, 0.51, 0.06, 0.05, 0.01, 0.12, 0.13, 0.16, _N), (0.88, 0.46, 0.09, 0.24, 0.01, 0.56, 0.48, 0.40, _W), (0.72, 0.62, 0.04, 0.08, 0.03, 0.20, 0.30, 0.28, _N), (0.06, 0.30, 0.04, 0.04, 0.03, 0.96, 0.96, 0.94, _N))),
    (((0.72, 0.76, 0.80), (0.62, 0.66, 0.72), (0.80, 0.62, 0.36)),
     ((0.50, 0.36, 0.50, 0.02, 0.00, 0.86, 0.30, 0.24, _N), (0.14, 0.22, 0.10, 0.06, 0.00, 0.94, 0.94, 0.96, _N), (0.84, 0.20, 0.12, 0.12, 0.00, 0.70, 0.82, 0.92, _W), (0.10, 0.62, 0.09, 0.03, 0.03, 0.20, 0.22, 0.26, _N), (0.90, 0.60, 0.10, 0.02, 0.02, 0.24, 0.24, 0.30, _N), (0.50, 0.88, 0.50, 0.01, 0.00, 0.96, 0.94, 0.90, _N))),
    (((0.52, 0.76, 0.96), (0.84, 0.93, 0.98), (0.42, 0.68, 0.34)),
     ((0.16, 0.50, 0.02, 0.14, 0.01, 0.42, 0.30, 0.20, _N), (0.16, 0.32, 0.06, 0.04, 0.10, 0.22, 0.52, 0.26, _N), (0.86, 0.52, 0.02, 0.12, 0.01, 0.42, 0.30, 0.20, _N), (0.86, 0.36, 0.05, 0.03, 0.09, 0.30, 0.58, 0.28, _N), (0.55, 0.14, 0.10, 0.00, 0.05, 0.97, 0.98, 1.00, _N), (0.60, 0.66, 0.14, 0.012, 0.01, 0.55, 0.40, 0.26, _N))),
    (((0.66, 0.74, 0.84), (0.82, 0.84, 0.86), (0.42, 0.42, 0.45)),
     ((0.18, 0.38, 0.18, 0.26, 0.00, 0.70, 0.52, 0.44, _W), (0.56, 0.44, 0.15, 0.20, 0.00, 0.80, 0.74, 0.62, _W), (0.88, 0.36, 0.12, 0.28, 0.00, 0.56, 0.60, 0.66, _W), (0.50, 0.67, 0.50, 0.02, 0.00, 0.70, 0.70, 0.70, _N), (0.76, 0.62, 0.13, 0.03, 0.04, 0.76, 0.20, 0.18, _N), (0.40, 0.48, 0.01, 0.18, 0.00, 0.18, 0.18, 0.20, _N))),
    (((0.40, 0.70, 0.95), (0.74, 0.90, 0.98), (0.93, 0.84, 0.62)),
     ((0.50, 0.60, 0.50, 0.08, 0.00, 0.22, 0.55, 0.74, _N), (0.80, 0.16, 0.00, 0.00, 0.07, 1.00, 0.93, 0.60, _N), (0.16, 0.50, 0.012, 0.18, 0.01, 0.50, 0.36, 0.22, _N), (0.16, 0.32, 0.10, 0.01, 0.03, 0.24, 0.56, 0.30, _N), (0.78, 0.76, 0.12, 0.02, 0.02, 0.92, 0.36, 0.30, _W), (0.60, 0.53, 0.04, 0.01, 0.01, 0.98, 0.98, 0.98, _N))),
    (((0.07, 0.09, 0.20), (0.18, 0.20, 0.34), (0.20, 0.24, 0.24)),
     ((0.82, 0.14, 0.00, 0.00, 0.05, 0.96, 0.95, 0.84, _N), (0.20, 0.46, 0.20, 0.18, 0.00, 0.26, 0.22, 0.26, _N), (0.14, 0.44, 0.04, 0.05, 0.00, 0.98, 0.84, 0.44, _N), (0.28, 0.44, 0.04, 0.05, 0.00, 0.94, 0.78, 0.40, _N), (0.70, 0.62, 0.30, 0.03, 0.00, 0.32, 0.27, 0.24, _W), (0.92, 0.46, 0.01, 0.20, 0.00, 0.40, 0.40, 0.44, _N))),
)  # fmt: skip
# Landmarks, drawn behind everything else: a tower, an arch, a monument, as shapes of the same kind.
_LANDMARKS = (
    ((0.50, 0.30, 0.05, 0.30, 0.01, 0.74, 0.66, 0.58, _W), (0.50, 0.02, 0.02, 0.06, 0.01, 0.80, 0.30, 0.24, _N), (0.50, 0.10, 0.08, 0.02, 0.01, 0.66, 0.58, 0.50, _N)),
    ((0.38, 0.38, 0.03, 0.22, 0.01, 0.84, 0.80, 0.72, _N), (0.62, 0.38, 0.03, 0.22, 0.01, 0.84, 0.80, 0.72, _N), (0.50, 0.16, 0.16, 0.04, 0.02, 0.80, 0.76, 0.66, _W)),
    ((0.50, 0.50, 0.10, 0.08, 0.01, 0.60, 0.62, 0.64, _N), (0.50, 0.30, 0.02, 0.14, 0.02, 0.52, 0.66, 0.58, _N), (0.50, 0.14, 0.00, 0.00, 0.05, 0.52, 0.66, 0.58, _N)),
)  # fmt: skip
LANDMARKS = ("none", "tower", "arch", "monument")
HORIZON = 0.68


def paint_backdrop(dice: Dice, scene: Tensor, landmark: Tensor, side: int) -> Tensor:
    """The empty stage: (B, side, side, 3). scene (B,) indexes SCENES, landmark (B,) LANDMARKS (0: none)."""
    device = scene.device
    colours = torch.tensor([s[0] for s in _SCENES], device=device)[scene]
    colours = (colours + _jitter(dice, 3)[:, :, None] * 0.5 + dice.colour(-0.05, 0.05)[:, None, :]).clamp(0.02, 1)
    rows = (torch.arange(side, device=device) + 0.5) / side
    horizon = HORIZON + dice.uniform(-0.03, 0.03)[:, None]
    blend = (rows[None] / horizon).clamp(0, 1)[..., None]
    wall = torch.lerp(colours[:, None, 0], colours[:, None, 1], blend)
    ground = colours[:, None, 2] * (0.82 + 0.25 * rows[None, :, None])
    lines = torch.where((rows[None] > horizon)[..., None], ground, wall)
    canvas = Canvas(lines[:, :, None, :].expand(-1, -1, side, -1).contiguous())
    here = torch.arange(len(scene), device=device)
    marks = torch.tensor(_LANDMARKS, device=device)[(landmark - 1).clamp(min=0)]
    stand = marks + torch.nn.functional.pad(dice.uniform(-0.3, 0.3)[:, None, None], (0, 8))
    canvas.paint(_flat_shapes(stand, (landmark > 0).float(), side), here)
    things = torch.tensor([s[1] for s in _SCENES], device=device)[scene]
    moved = things.clone()
    moved[..., 0] += _jitter(dice, 6)
    moved[..., 5:8] = (moved[..., 5:8] + _jitter(dice, 6)[..., None]).clamp(0, 1)
    canvas.paint(_flat_shapes(moved, torch.ones(len(scene), device=device), side), here)
    return canvas.rgb.clamp(0, 1)


def _jitter(dice: Dice, count: int, reach: float = 0.06) -> Tensor:
    return torch.stack([dice.uniform(-reach, reach) for _ in range(count)], dim=-1)


def _flat_shapes(table: Tensor, opacity: Tensor, side: int) -> Shapes:
    """Scene shapes (B, K, 9) in shares of the side as upright Shapes in pixels."""
    x, y, half_width, half_height, r = (table[..., i] * side for i in range(5))
    flat = torch.zeros_like(x)
    colour = table[..., 5:8]
    wave = 2 * torch.pi / (0.055 * side)
    return Shapes(
        ax=x, ay=y - half_height, bx=x, by=y + half_height, w0=half_width, w1=half_width, r=r.clamp(min=0.6), z0=flat, z1=flat,
        opacity=opacity[:, None].expand_as(x), colour=colour, colour2=colour * 0.8,
        fu=flat + wave, fv=flat + wave, threshold=torch.where(table[..., 8] > 0, 0.3, 9.0), patterned=[True] * x.shape[1],
    )  # fmt: skip
