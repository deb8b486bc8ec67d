"""The embedded data: clips drawn by the procedural theatre. Needs no download and no decoder."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from sfumato.datasets.base import Clips, ClipShape, Labels, Part, Progress, SplitBy, VideoDataset
from sfumato.datasets.sample import AttributeSpec, Sample, Segment
from sfumato.registry import unknown_name
from sfumato.theatre.cast import AGE_NAMES, BUILD_NAMES, GENDER_NAMES, HAIR_NAMES, TONE_NAMES
from sfumato.theatre.choreography import Motion, actions
from sfumato.theatre.compositions import compositions, held_out
from sfumato.theatre.screenplay import Kind, perform
from sfumato.theatre.script import BALANCED, VP_PREVALENCE, Script, write
from sfumato.theatre.show import Footage, Show
from sfumato.theatre.stage import OBJECTS, SCENES

# The five attributes of the VP data sets ("identifiable in this video"), and a second, disjoint set.
VP_ATTRIBUTES = tuple(AttributeSpec(name) for name in VP_PREVALENCE)
_SCENE, _OBJECT = AttributeSpec("scene", SCENES), AttributeSpec("object", OBJECTS)
NOVEL_ATTRIBUTES = (
    AttributeSpec("hair_colour", HAIR_NAMES), AttributeSpec("age_group", AGE_NAMES), AttributeSpec("tattoo"),
    AttributeSpec("sport_object"), _SCENE, AttributeSpec("landmark"),
    AttributeSpec("build", BUILD_NAMES),
)  # fmt: skip
VALUE_ATTRIBUTES = (
    AttributeSpec("skin_tone", TONE_NAMES),
    AttributeSpec("gender_value", GENDER_NAMES),
    _OBJECT,
)

_SMALL_ACTIONS = (
    "sit down", "stand up", "push", "pull", "raise hand", "lower hand", "wave", "kick", "jumping jack", "shake hands",
)  # fmt: skip
# None of them in `small`: what an anonymizer made on `small` has never been asked to keep.
_OTHER_ACTIONS = (
    "pick up", "put down", "open arms", "close arms", "walk forward", "walk backward", "clap", "squat", "punch", "bow",
)  # fmt: skip


@dataclass(frozen=True)
class Preset:
    """A theatre of a certain size. People of the training cast come first, then those only seen in val, then test."""

    summary: str
    side: int
    frames: int
    cast: tuple[int, int, int]
    sizes: tuple[int, int, int]
    prevalence: dict[str, float]
    action_names: tuple[str, ...] | None = None
    attributes: tuple[AttributeSpec, ...] = VP_ATTRIBUTES
    composed: bool = False  # motions composed of words instead of named actions
    unseen: bool = False  # of those, only what our vision-language model was never shown

    def motions(self) -> tuple[Motion, ...]:
        """What people do here."""
        if self.unseen:
            return tuple(c.motion for c in held_out())
        if self.composed:
            return tuple(c.motion for c in compositions())
        return tuple(m for m in actions() if self.action_names is None or m.name in self.action_names)


_FULL = Preset("people of a drawn world", 112, 16, (32, 6, 10), (6000, 600, 1200), VP_PREVALENCE)
PRESETS = {
    "": _FULL,
    "small": Preset("the same for a laptop", 64, 8, (10, 4, 8), (1200, 240, 400), VP_PREVALENCE, _SMALL_ACTIONS),
    "small-novel": Preset(
        "other actions and other private attributes than small",
        64,
        8,
        (10, 4, 8),
        (1200, 240, 400),
        VP_PREVALENCE,
        _OTHER_ACTIONS,
        NOVEL_ATTRIBUTES,
    ),
    "balanced": replace(_FULL, summary="every attribute in half of the clips", prevalence=BALANCED),
    "novel": replace(_FULL, summary="another set of private attributes", attributes=NOVEL_ATTRIBUTES),
    "motions": replace(_FULL, summary="324 motions composed of words, with captions", composed=True),
    "unseen": replace(_FULL, summary="composed motions held out of the small vision-language model", unseen=True),
}
PRESETS["small-scenes"] = replace(
    PRESETS["small"], summary="the same clips as small, scene and object are private", attributes=(_SCENE, _OBJECT)
)
# Two CPU cores train and judge an anonymizer of thumbnails in minutes.
PRESETS["tiny"] = replace(PRESETS["small"], summary="small as thumbnails, for two CPU cores", side=32)
PRESETS["tiny-novel"] = replace(PRESETS["small-novel"], summary="what small-novel is to small, for tiny", side=32)
PRESETS["small-unseen"] = replace(PRESETS["small"], summary=PRESETS["unseen"].summary, action_names=None, unseen=True)


class TheatreDataset(VideoDataset):
    """`theatre` and its presets (`theatre:small`, …): index → the same clip for ever (of one seed).

    The indices are five blocks: training clips; val and test clips of the same people; val and test clips of new people.

    >>> TheatreDataset("small").sample(0).clip.shape
    torch.Size([8, 3, 64, 64])
    """

    def __init__(self, preset: str = "", *, seed: int = 0) -> None:
        if preset not in PRESETS:
            raise unknown_name("theatre", preset, [name for name in PRESETS if name])
        self.preset, self.seed, self.attributes = PRESETS[preset], seed, PRESETS[preset].attributes
        self.name = f"theatre:{preset}" if preset else "theatre"
        p = self.preset
        self.summary = f"{p.summary}, {p.frames}×{p.side}×{p.side}, no download"
        self.motions = p.motions()
        self.mirror_safe = not any(motion.sided for motion in self.motions)
        self.actions = tuple(m.name for m in self.motions)
        self.persons = tuple(f"person {i}" for i in range(sum(p.cast)))
        self.shape = ClipShape(p.frames, p.side, p.side)
        train, val, test = p.sizes
        ends = torch.tensor([train, val, test, val, test]).cumsum(0)
        self._blocks = dict(
            zip(("train", "clip val", "clip test", "person val", "person test"), ends.tolist(), strict=True)
        )

    def __len__(self) -> int:
        return self._blocks["person test"]

    def split(self, part: Part, by: SplitBy) -> Tensor:
        names = list(self._blocks)
        at = 0 if part == "train" else names.index(f"{by} {part}")
        start = self._blocks[names[at - 1]] if at else 0
        return torch.arange(start, self._blocks[names[at]])

    def _person_and_action(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Both run through all combinations as the index counts up, so that every block is balanced."""
        train, val, test = self.preset.cast
        seen_end, val_end = self._blocks["clip test"], self._blocks["person val"]
        block = (indices >= seen_end).long() + (indices >= val_end).long()
        count = torch.tensor([train, val, test])[block]
        first = torch.tensor([0, train, train + val])[block]
        step = indices - torch.tensor([0, seen_end, val_end])[block]
        moves = len(self.motions)
        # One more step each time both counters have come round together, else they would always meet the same way.
        lap = torch.tensor([math.lcm(n, moves) for n in (train, val, test)])[block]
        return first + step % count, (step + step // lap) % moves

    def script(self, indices: Tensor, device: torch.device | str = "cpu") -> Script:
        """The script of those clips."""
        person, action = self._person_and_action(indices.cpu())
        index, person, action = (t.to(device) for t in (indices, person, action))
        return write(self.seed, index, person, action, self.motions, self.preset.prevalence)

    def labels(self, indices: Tensor) -> Labels:
        script = self.script(indices)
        values = {**script.identifiable, **script.values()}
        columns = [values[a.name] for a in self.attributes]
        return Labels(script.motion, script.person, torch.stack(columns, dim=-1))

    def phrases(self) -> tuple[str, ...]:
        return tuple(motion.caption for motion in self.motions)

    def labelled(self) -> tuple[AttributeSpec, ...]:
        return (*VP_ATTRIBUTES, *NOVEL_ATTRIBUTES, *VALUE_ATTRIBUTES)

    def draw(self, indices: Tensor, device: torch.device | str = "cpu", *, actors: bool = True) -> Footage:
        """Clips and person masks on that device; `actors=False` leaves the empty stage."""
        return self._show(str(device)).draw(self.script(indices, device), actors=actors)

    @lru_cache(maxsize=4)  # noqa: B019 - a data set lives as long as the command
    def _show(self, device: str) -> Show:
        return Show(self.motions, self.preset.side, self.preset.frames, device)

    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu",
        progress: Progress | None = None, actors: bool = True,
    ) -> Clips:  # fmt: skip
        whole: list[
            Tensor
        ] = []  # pixels and masks, filled as they come: to join them at the end would take twice the room
        done = 0
        for footage in self._in_chunks(indices, torch.device(device), actors):
            some = footage.clips[:, None], footage.people[:, None]
            whole = whole or [part.new_empty(len(indices), *part.shape[1:]) for part in some]
            for there, part in zip(whole, some, strict=True):
                there[done : done + len(part)] = part
            done += len(footage.clips)
            if progress:
                progress(done, len(indices))
        return Clips(*whole)

    def _in_chunks(self, indices: Tensor, device: torch.device, actors: bool) -> Iterator[Footage]:
        def draw(chunk: Tensor) -> Footage:
            return self.draw(chunk, device, actors=actors)

        if device.type != "cpu":
            yield from map(draw, indices.split(1024))  # a GPU wants many pictures at once
            return
        # Small chunks keep the painter's temporaries in the cache, and one thread draws each: the painter's operations are
        # too small to be worth splitting.
        with ThreadPoolExecutor(torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(draw, indices.split(8))

    def fingerprint(self) -> str:
        drawn = self.draw(torch.tensor([0, len(self) - 1])).clips.numpy().tobytes()
        about = f"{self.name} {self.seed} {self.preset} {self.attributes}".encode()
        return hashlib.sha256(about + drawn).hexdigest()

    def sample(self, index: int) -> Sample:
        one = torch.tensor([index])
        footage, script = self.draw(one), self.script(one)
        # Everything that is known, not only the attributes a judge would ask for.
        named = {name: int(value) for name, value in {**script.identifiable, **script.values()}.items()}
        action, person = int(script.motion), int(script.person)
        caption = f"a person {self.motions[action].caption}"
        return Sample(footage.clips[0], action, person, f"{self.name}/{index}", named, footage.people[0], caption)

    def screenplay(self, index: int, kind: Kind = "untrimmed", frames: int = 256) -> Sample:
        """An untrimmed video with its segments, and, of kind "surveillance", its anomalies; frame-exact."""
        play = perform(self.seed, index, frames=frames, side=self.preset.side, kind=kind)
        segments = tuple(Segment(s.start, s.end, s.label) for s in play.spans)
        strange = tuple(Segment(s.start, s.end, s.label) for s in play.spans if s.anomaly)
        where = f"{self.name}/{kind}/{index}"
        return Sample(play.video, -1, play.person, where, {}, play.people, segments=segments, anomalies=strange)
