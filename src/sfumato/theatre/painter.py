"""Draws soft-edged shapes into a batch of frames, each only inside its own bounding box.

A shape is a line from a to b, as thick as a half-width running from w0 to w1, with every corner rounded by r:
w0 = w1 = 0 is a capsule (a limb), a = b a disc (an eye), r small a box (a window). Its coverage comes from the signed
distance, so edges are smooth; a depth per pixel decides what hides what, so the order of drawing does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

FAR = -1e4  # depth of the empty canvas; larger is nearer to the camera


@dataclass
class Shapes:
    """K shapes in each of N pictures, in pixels. All fields (N, K), colours (N, K, 3)."""

    ax: Tensor
    ay: Tensor
    bx: Tensor
    by: Tensor
    w0: Tensor
    w1: Tensor
    r: Tensor
    z0: Tensor
    z1: Tensor
    opacity: Tensor
    colour: Tensor
    # The pattern: the second colour shows where cos(fu·u) + cos(fv·v) > threshold, u along the shape, v across.
    colour2: Tensor
    fu: Tensor
    fv: Tensor
    threshold: Tensor
    # Which of the K shapes ever carry a pattern, length K: the others skip its arithmetic.
    patterned: list[bool]

    def pack(self) -> Tensor:
        """All that drawing needs as one table (N, K, 22), so that a shape is picked in one go; see `_Stroke`."""
        # A tiny push keeps the direction defined when a limb points straight at the camera.
        dx, dy = self.bx - self.ax + 1e-3, self.by - self.ay
        length = torch.sqrt(dx * dx + dy * dy)
        middle_x, middle_y = (self.ax + self.bx) / 2, (self.ay + self.by) / 2
        numbers = [self.ax, self.ay, middle_x, middle_y, dx / length, dy / length, length, self.w0, self.w1 - self.w0]
        numbers += [self.r, self.z0, self.z1 - self.z0, self.opacity, self.fu, self.fv, self.threshold]
        return torch.cat([torch.stack(numbers, dim=-1), self.colour, self.colour2], dim=-1)


class _Stroke(NamedTuple):
    """One shape per picture, every number (n, 1, 1) and every colour (n, 1, 1, 3), ready to be spread over pixels."""

    ax: Tensor
    ay: Tensor
    middle_x: Tensor
    middle_y: Tensor
    tx: Tensor
    ty: Tensor
    length: Tensor
    w0: Tensor
    widening: Tensor
    r: Tensor
    z0: Tensor
    nearing: Tensor
    opacity: Tensor
    fu: Tensor
    fv: Tensor
    threshold: Tensor
    colour: Tensor
    colour2: Tensor

    @staticmethod
    def of(rows: Tensor) -> _Stroke:
        """From rows (n, 22) of `Shapes.pack`."""
        spread = rows[:, None, None]
        return _Stroke._make([*spread[..., :16].unbind(-1), spread[..., 16:19], spread[..., 19:22]])


class Canvas:
    """N pictures of height × width pixels, RGB and depth.

    >>> Canvas(torch.zeros(2, 32, 32, 3)).rgb.shape
    torch.Size([2, 32, 32, 3])
    """

    def __init__(self, rgb: Tensor) -> None:
        depth = torch.full_like(rgb[..., :1], FAR)
        self.pixels = torch.cat([rgb, depth], dim=-1)
        self.count, self.height, self.width = rgb.shape[:3]

    @property
    def rgb(self) -> Tensor:
        """The colours, (N, H, W, 3)."""
        return self.pixels[..., :3]

    @property
    def depth(self) -> Tensor:
        """How near each pixel is, (N, H, W); FAR where nothing solid was drawn."""
        return self.pixels[..., 3]

    def paint(self, shapes: Shapes, pictures: Tensor, *, solid: bool = True) -> None:
        """Draw shape k of row n into picture `pictures[n]` (int64 (N,), each at most once).

        `solid=False` (shadows) tints without entering the depth.
        """
        table = shapes.pack()
        for k, job in enumerate(self._jobs(shapes)):
            for members, rows, columns in job:
                stroke = _Stroke.of(table[members, k])
                self._paint_one(stroke, pictures[members], rows, columns, solid, shapes.patterned[k])

    def _jobs(self, s: Shapes) -> list[list[tuple[Tensor, int, int]]]:
        """For every shape: which rows to draw together, and the height and width in pixels of a box that holds them.

        Rows are sorted by the size of their box, so that one large shape does not make every box large, and those that
        show nothing fall out. All sizes cross from the device at once.
        """
        count = len(s.ax)
        groups = min(max(1, count // 40), 4)
        reach = torch.maximum(s.w0, s.w1) + s.r + 1.5
        shown = s.opacity > 0
        high = torch.where(shown, (s.ay - s.by).abs() + 2 * reach + 1, 0.0)
        wide = torch.where(shown, (s.ax - s.bx).abs() + 2 * reach + 1, 0.0)
        order = (
            (high * wide).argsort(dim=0)
            if groups > 1
            else torch.arange(count, device=high.device)[:, None].expand_as(high)
        )
        bounds = [count * g // groups for g in range(groups + 1)]
        spans = list(pairwise(bounds))
        boxes = [torch.stack([x.gather(0, order[a:b]).amax(0) for x in (high, wide)]) for a, b in spans]
        sizes = torch.stack(boxes).ceil().long().tolist()  # (groups, 2, K)
        jobs: list[list[tuple[Tensor, int, int]]] = []
        for k in range(high.shape[1]):
            mine = [(order[a:b, k], sizes[g][0][k], sizes[g][1][k]) for g, (a, b) in enumerate(spans)]
            jobs.append([(rows, min(h, self.height), min(w, self.width)) for rows, h, w in mine if h > 0])
        return jobs

    def _paint_one(self, s: _Stroke, pictures: Tensor, rows: int, columns: int, solid: bool, patterned: bool) -> None:
        """Draw one shape into each of `pictures` (n,), inside a box of rows × columns pixels around it."""
        top = (s.middle_y - rows / 2).round().clamp(0, self.height - rows).long()
        left = (s.middle_x - columns / 2).round().clamp(0, self.width - columns).long()
        ys = top + torch.arange(rows, device=top.device)[:, None]
        xs = left + torch.arange(columns, device=top.device)
        py, px = ys + 0.5 - s.ay, xs + 0.5 - s.ax

        u = px * s.tx + py * s.ty
        v = py * s.tx - px * s.ty
        along = torch.minimum(u.clamp(min=0), s.length)
        share = along / s.length
        half_width = torch.addcmul(s.w0, s.widening, share)
        beyond_side = (v.abs() - half_width).clamp_(min=0)
        beyond_end = u - along
        distance = torch.addcmul(beyond_side * beyond_side, beyond_end, beyond_end).sqrt_()
        alpha = (s.r + 0.5 - distance).clamp_(0, 1).mul_(s.opacity).view(-1)
        z = torch.addcmul(s.z0, s.nearing, share).view(-1)

        # A pixel's four floats travel as one 16-byte number: much faster to gather than rows of four.
        flat = self.pixels.view(torch.complex128).view(-1)
        where = ((pictures[:, None, None] * self.height + ys) * self.width + xs).view(-1)
        pixels = flat[where].view(torch.float32).view(-1, 4)
        rgb, depth = pixels[:, :3], pixels[:, 3]
        alpha = alpha.mul_(z >= depth)
        rgb.lerp_(_colour(s, u, v, half_width + s.r, patterned).view(-1, 3), alpha[:, None])
        if solid:
            depth.copy_(torch.where(alpha > 0.5, z, depth))
        flat[where] = pixels.view(torch.complex128).view(-1)


def _colour(s: _Stroke, u: Tensor, v: Tensor, half_width: Tensor, patterned: bool) -> Tensor:
    """Pattern and a soft light from the upper left: (N, rows, columns, 3)."""
    first = s.colour
    light = (1.0 - 0.22 * v / half_width).clamp_(0.72, 1.22)
    if patterned:
        wave = torch.cos(u * s.fu) + torch.cos(v * s.fv) - s.threshold
        show = (wave * 2.5 + 0.5).clamp_(0, 1)[..., None]
        first = first + (s.colour2 - first) * show
    return first * light[..., None]
