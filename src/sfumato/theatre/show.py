"""Draws scripts: the one place where cast, choreography, stage and camera come together."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from sfumato.theatre.camera import Camera, develop, pan
from sfumato.theatre.cast import Cast
from sfumato.theatre.choreography import Motion, Tracks
from sfumato.theatre.costume import Dress, Outliner, draw_object, dress_up
from sfumato.theatre.painter import FAR, Canvas, Shapes
from sfumato.theatre.pose import INDEX, joints
from sfumato.theatre.script import BYSTANDER, COMPANION, NOBODY, PARTNER, Script
from sfumato.theatre.stage import paint_backdrop

Joints = dict[str, Tensor]


@dataclass
class Footage:
    """Drawn clips. clips: uint8 (B, T, 3, side, side); people: uint8 (B, T, 1, side, side), 1 where a person is."""

    clips: Tensor
    people: Tensor


@dataclass
class Moments:
    """What happens in each of N frames, all (N,): the clip it belongs to, its time, the motion and its two phases."""

    clip: Tensor
    time: Tensor
    motion: Tensor
    way: Tensor
    loop: Tensor

    def select(self, rows: Tensor) -> Moments:
        """Some of the frames."""
        return Moments(*(getattr(self, f.name)[rows] for f in fields(self)))


class Show:
    """Plays motions from one repertoire on one device. `smooth`: how many frames one pose takes to flow into the next.

    >>> Show(actions(), side=64, frames=8)  # doctest: +SKIP
    """

    def __init__(
        self,
        motions: tuple[Motion, ...],
        side: int,
        frames: int,
        device: torch.device | str = "cpu",
        *,
        smooth: int = 1,
    ) -> None:
        self.side, self.frames, self.device, self.smooth = side, frames, torch.device(device), smooth
        self.tracks = Tracks(motions, device=device)
        self.partner_tracks = Tracks(motions, partner=True, device=device)

    def draw(self, script: Script, *, actors: bool = True) -> Footage:
        """Draw every clip of the script; `actors=False` leaves the empty stage (no people, no object)."""
        times = (torch.arange(self.frames, device=self.device) + 0.5) / self.frames
        times = times.expand(len(script.index), -1)
        motion = script.motion[:, None].expand_as(times)
        return self.draw_timed(script, times, motion, *self._phases(script, times), actors=actors)

    def _phases(self, s: Script, times: Tensor) -> tuple[Tensor, Tensor]:
        """How far the way has come, and the loop's turns, at each time: (B, T) each."""
        length = (1 - s.start - s.finish).clamp(min=0.05)[:, None]
        way = ((times - s.start[:, None]) / length).clamp(0, 1)
        endless = s.turns[:, None] * times
        loop = torch.where(s.counted[:, None], s.turns[:, None] * way, endless) + s.first_phase[:, None]
        return way * way * (3 - 2 * way), loop

    def draw_timed(
        self, s: Script, times: Tensor, motion: Tensor, way: Tensor, loop: Tensor, *, actors: bool = True
    ) -> Footage:
        """As `draw`, with the motion and its phases given for every frame: all (B, T)."""
        clips, frames = times.shape
        clip = torch.arange(clips, device=self.device).repeat_interleave(frames)
        camera, backdrop, look = self._film(s, times)
        canvas = Canvas(pan(backdrop, camera.shift.view(clips, frames), self.side))
        people = torch.zeros(clips * frames, self.side, self.side, dtype=torch.bool, device=self.device)
        if actors:
            moments = Moments(clip, *(t.reshape(-1) for t in (times, motion, way, loop)))
            people = self._act(canvas, camera, s, moments)
        pixels = develop(canvas.rgb, look["gain"][clip], look["noise"][clip], look["corner"], look["step"][clip])
        mask = people.to(torch.uint8).view(clips, frames, 1, self.side, self.side)
        return Footage(pixels.view(clips, frames, 3, self.side, self.side), mask)

    def _film(self, s: Script, times: Tensor) -> tuple[Camera, Tensor, dict[str, Tensor]]:
        """The camera of every frame, the backdrop of every clip, and how the picture is developed."""
        d = copy(s.dice)  # the script's own dice stay where they are: drawn again, a script gives the same film
        frames = times.shape[1]
        margin = self.side // 14
        drift = d.uniform(-1.0, 1.0)[:, None] * (2 * times - 1) * margin
        shift = drift.round().reshape(-1)
        zoom, centre, elevation = d.uniform(0.94, 1.06), d.uniform(-0.1, 0.1), d.uniform(0.03, 0.2)
        zoom, centre, elevation = (v.repeat_interleave(frames) for v in (zoom, centre, elevation))
        camera = Camera(self.side, zoom, centre, elevation, shift)
        backdrop = paint_backdrop(d, s.scene, s.landmark, self.side + 2 * margin)
        # The grain moves on from frame to frame, from a corner the clip owns.
        first = d.uniform(0, 97)[:, None] + torch.arange(frames, device=self.device) * 37.0
        corner = torch.stack([first % 97, (first * 1.7) % 97], dim=-1).long().view(-1, 2)
        look = {
            "gain": d.uniform(0.86, 1.1)[:, None] * (1 + d.colour(-0.05, 0.05)), "noise": d.uniform(0.0, 0.028),
            "step": d.uniform(0.01, 0.07), "corner": corner,
        }  # fmt: skip
        return camera, backdrop, look

    def _act(self, canvas: Canvas, camera: Camera, s: Script, m: Moments) -> Tensor:
        """Everybody and everything that moves; answers where people are, bool (N, side, side)."""
        everything = torch.arange(len(m.clip), device=self.device)
        pose = self._style(self.tracks.pose(m.motion, m.way, m.loop, s.cast.amplitude[m.clip]), s.cast, s, m)
        along = torch.where(s.second == PARTNER, s.distance / 2, 0.0)
        depth = -along * torch.cos(s.facing)
        place = torch.stack([s.place - along * torch.sin(s.facing), torch.zeros_like(along), depth], -1)
        main = self._on_stage(pose, s.cast, s.mirror, s.facing, place, m.clip)
        canvas.paint(_shadow(camera, main), everything, solid=False)
        canvas.paint(dress_up(camera, main, s.cast.select(m.clip), self._dress(s, m.clip)), everything)
        rows = everything[(s.second != NOBODY)[m.clip]]
        partner_hand = main["R.wrist"]
        if len(rows):
            theirs = m.select(rows)
            other, view = self._second(s, theirs), camera.select(rows)
            canvas.paint(_shadow(view, other), rows, solid=False)
            canvas.paint(dress_up(view, other, s.second_cast.select(theirs.clip), self._dress(s, theirs.clip)), rows)
            partner_hand = partner_hand.index_copy(0, rows, other["R.wrist"])
        people = canvas.depth > FAR / 2
        where = self._object_place(s, m.clip, pose, main, partner_hand, place)
        canvas.paint(draw_object(camera, s.object_kind[m.clip], where), everything)
        return people

    def _style(self, pose: Tensor, cast: Cast, s: Script, m: Moments) -> Tensor:
        """The person's own way of moving, on top of what the motion asks for."""
        if self.smooth > 1:
            tracks = pose.view(-1, self.frames, pose.shape[-1]).transpose(1, 2)
            reach = self.smooth // 2
            padded = torch.nn.functional.pad(tracks, (reach, reach), mode="replicate")
            pose = torch.nn.functional.avg_pool1d(padded, self.smooth, stride=1).transpose(1, 2).reshape(pose.shape)
        pose = pose.clone()
        swing = torch.sin(2 * torch.pi * (cast.sway_tempo[m.clip] * m.time + s.first_phase[m.clip]))
        pose[:, INDEX["roll"]] += cast.sway[m.clip] * swing
        pose[:, INDEX["pitch"]] += cast.stoop[m.clip]
        for name in ("L.arm.a", "R.arm.a"):
            pose[:, INDEX[name]] += cast.elbows_out[m.clip]
        return pose

    def _on_stage(
        self, pose: Tensor, cast: Cast, mirror: Tensor, facing: Tensor, place: Tensor, clip: Tensor
    ) -> Joints:
        """Joints turned to where the person faces and moved to where they stand; (N, 3) each."""
        local = joints(pose, cast.select(clip).body(), mirror[clip])
        turn = (facing[clip] + pose[:, INDEX["turn"]])[:, None]
        cos, sin = torch.cos(turn), torch.sin(turn)
        staged = {}
        for name, p in local.items():
            x, y, z = p.split(1, dim=-1)
            staged[name] = torch.cat([x * cos + z * sin, y, z * cos - x * sin], dim=-1) + place[clip]
        return staged

    def _second(self, s: Script, m: Moments) -> Joints:
        """The other person: a partner plays their part, a companion stands close, a bystander apart."""
        pose = self.partner_tracks.pose(m.motion, m.way, m.loop, s.second_cast.amplitude[m.clip])
        resting = (s.second != PARTNER)[m.clip][:, None]
        pose = torch.where(resting, self.partner_tracks.rest.expand_as(pose), pose)
        pose = self._style(pose, s.second_cast, s, m)
        side = torch.sign(-s.object_place[:, 0])
        reach = torch.where(s.second == COMPANION, 0.5, 0.86)
        depth = torch.where(s.second == BYSTANDER, -0.9, -0.12)
        beside = torch.stack([s.place + side * reach, torch.zeros_like(reach), depth], dim=-1)
        half = s.distance / 2
        opposite = torch.stack(
            [s.place + half * torch.sin(s.facing), torch.zeros_like(half), half * torch.cos(s.facing)], dim=-1
        )
        partner = s.second == PARTNER
        place = torch.where(partner[:, None], opposite, beside)
        facing = torch.where(partner, s.facing + torch.pi, s.facing)
        return self._on_stage(pose, s.second_cast, s.mirror, facing, place, m.clip)

    def _dress(self, s: Script, clip: Tensor) -> Dress:
        seen = {name: flag.float()[clip] for name, flag in s.identifiable.items()}
        return Dress(seen["skin"], s.masked[clip], 1 - seen["gender"], seen["nudity"], s.tattoo[clip])

    def _object_place(
        self, s: Script, clip: Tensor, pose: Tensor, main: Joints, partner_hand: Tensor, place: Tensor
    ) -> Tensor:
        """Where the object is, (N, 3): standing by, on the floor before the actor, in their hands, or the partner's."""
        ahead = pose[:, INDEX["oz"]]
        angle = s.facing[clip]
        lift = torch.full_like(ahead, 0.14)
        before = torch.stack([torch.sin(angle) * ahead, lift, torch.cos(angle) * ahead], dim=-1) + place[clip]
        hands = (main["L.wrist"] + main["R.wrist"]) / 2
        hands = torch.where((s.second == PARTNER)[clip][:, None], main["R.wrist"], hands)
        used = torch.lerp(before, hands, pose[:, INDEX["hold"]].clamp(0, 1)[:, None])
        used = torch.lerp(used, partner_hand, pose[:, INDEX["pass"]].clamp(0, 1)[:, None])
        x, z = s.object_place[clip].unbind(-1)
        aside = torch.stack([x, lift, z], dim=-1)
        return torch.where(s.uses_object[clip][:, None] > 0, used, aside)


def _shadow(camera: Camera, j: Joints) -> Shapes:
    """A soft dark spot on the floor under the person."""
    out = Outliner(camera)
    under = (j["L.ankle"] + j["R.ankle"] + j["pelvis"]) / 3
    under = torch.stack([under[:, 0], torch.zeros_like(under[:, 0]), under[:, 2]], dim=-1)
    wide = torch.tensor([0.22, 0.0, 0.0], device=under.device)
    size = torch.full_like(under[:, 0], 0.05)
    dark = torch.full_like(under, 0.08)
    out.add(under - wide, under + wide, size, size, dark, show=torch.full_like(size, 0.35))
    return out.shapes()
