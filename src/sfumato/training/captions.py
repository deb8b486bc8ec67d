"""Teaches the small vision-language model by drawn clips and what is said about them, but for some actions.

Every clip is drawn for one step and never again: another person, another stage, one of the motions of
`theatre.compositions.rehearsed`. What is held out is only described when the training is over; how often the description
is found is the model's zero-shot accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.objectives.alignment import alignment
from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig, fill_prompts, save_vlm, words_of
from sfumato.theatre.compositions import rehearsed
from sfumato.theatre.script import write
from sfumato.theatre.show import Show
from sfumato.theatre.wording import SUBJECTS, WAYS, sentences
from sfumato.training.adversarial import setting
from sfumato.training.batches import Rounds, mix
from sfumato.training.device import autocast, keep_freed_memory, seeded
from sfumato.training.optimisation import adam, descend, one_cycle, set_rate
from sfumato.training.phases import Progress, Timing
from sfumato.training.processes import current, gather
from sfumato.training.run import RunFolder
from sfumato.training.teaching import Teaching, teach

# The theatres whose clips it can be trained for, and the same with nothing but held-out actions.
UNSEEN = {"theatre": "unseen", "theatre:small": "small-unseen"}
TEMPLATE = f"{SUBJECTS[0]} {{}}"
WATCHED = 128  # clips a training is watched by
AT_ONCE = 64  # clips, where nothing is learned
AHEAD = 8  # steps whose clips a GPU draws at once: drawing is many small kernels, and few clips do not fill it


@dataclass(frozen=True)
class CaptionConfig:
    """The size of the model and how long it learns; the defaults are for a GPU."""

    width: int = setting(128, "D", low=8)
    depth: int = setting(4, low=1)
    temporal_depth: int = setting(2, low=1)
    text_width: int = setting(96, low=8)
    text_depth: int = setting(3, low=1)
    embedding: int = setting(128, "E", low=2)
    batch: int = setting(256, low=2)
    steps: int = setting(4000, low=1)
    rate: float = setting(1e-3, low=0)
    weight_decay: float = setting(0.02, low=0)


class Rehearsal:
    """Draws clips of the motions that may be seen, and says what they show: all of it follows from (seed, step)."""

    def __init__(self, data: TheatreDataset, batch: int, *, seed: int, device: torch.device) -> None:
        self.motions, self.prevalence, self.device = rehearsed(), data.preset.prevalence, device
        self.said = [sentences(motion.caption) for motion in self.motions]
        # A world of its own: nobody in it is in any data set.
        self.world, self.batch = mix(seed, "rehearsal"), batch * current().size
        self.rounds = Rounds(len(self.motions), self.batch, seed=self.world)
        self.show = Show(self.motions, data.shape.height, data.shape.frames, device)
        self.ahead = AHEAD if device.type == "cuda" else 1
        self.drawn: tuple[int, Tensor] | None = None  # the first step of those that are drawn, and their clips

    def words(self) -> tuple[str, ...]:
        """Every word that is ever said here."""
        return words_of(sentence for said in self.said for sentence in said)

    def draw(self, step: int) -> tuple[Tensor, Tensor]:
        """This process's clips of that step, uint8 (B, T, 3, H, W) on the device, and their motions (B,) on the CPU."""
        first = step - step % self.ahead
        if self.drawn is None or self.drawn[0] != first:
            self.drawn = first, self._draw(range(first, first + self.ahead))
        motion = self._motions(step)
        return self.drawn[1].unflatten(0, (self.ahead, -1))[step - first], motion

    def _motions(self, step: int) -> Tensor:
        return current().share(self.rounds.rows(step))

    @torch.no_grad()
    def _draw(self, steps: range) -> Tensor:
        """The clips of those steps, one step after the other."""
        motion = torch.cat([self._motions(step) for step in steps]).to(self.device)
        numbers = torch.arange(steps.start * self.batch, steps.stop * self.batch).view(len(steps), -1)
        index = torch.cat([current().share(row) for row in numbers]).to(self.device)
        # Every clip has a person of its own.
        return self.show.draw(write(self.world, index, index, motion, self.motions, self.prevalence)).clips

    def captions(self, motion: Tensor, step: int) -> list[str]:
        """What is said about those motions (B,) in that step, all in one way.

        In several, two clips of one action could be called the same by one sentence and not by the other.
        """
        way = int(torch.randint(len(WAYS), (), generator=seeded(mix(self.world, "way", step))))
        return [self.said[number][way] for number in motion.tolist()]


class CaptionTraining(Teaching[SmallVLM]):
    """The model, its optimizer, and what it is watched by."""

    def __init__(self, config: CaptionConfig, data: str, *, seed: int, device: torch.device) -> None:
        if data not in UNSEEN:
            raise SfumatoError(
                f"captions are not drawn for '{data}'", f"use {' or '.join(UNSEEN)}: it sets the size of the clips"
            )
        self.config, self.device = config, device
        self.unseen = TheatreDataset(UNSEEN[data])
        shape = self.unseen.shape
        self.rehearsal = Rehearsal(self.unseen, config.batch, seed=seed, device=device)
        torch.manual_seed(mix(seed, "weights"))
        c = config
        self.model = SmallVLM(SmallVLMConfig(
            (shape.frames, shape.height, shape.width), self.rehearsal.words(), c.width, c.depth, c.temporal_depth,
            c.text_width, c.text_depth, embedding=c.embedding,
        )).to(device)  # fmt: skip
        self.model.checkpointing = False  # the model is small, and computing everything twice is slow
        self.optimizer = adam(self.model, config.rate, config.weight_decay, device)
        watching = Rehearsal(self.unseen, WATCHED, seed=mix(seed, "watched"), device=device)
        self.seen_clips, self.seen_motions = watching.draw(0)
        held = self.unseen.split("val", "person")
        self.held = held[torch.linspace(0, len(held) - 1, min(WATCHED, len(held))).round().long()]
        self.held_clips = self.unseen.clips(self.held, device=device).pixels[:, 0]

    def step(self, number: int) -> dict[str, Tensor]:
        """One batch that nobody has seen before."""
        set_rate(self.optimizer, self.config.rate * one_cycle(number / self.config.steps))
        clips, motion = self.rehearsal.draw(number)
        with autocast(self.device):
            video = self.model.embed_video(clips.float() / 255).video
            text = self.model.embed_text(self.rehearsal.captions(motion, number))
        # Gathered, because every clip is told apart from all captions of the batch, whichever process has them.
        loss = alignment(gather(video), gather(text), self.model.scale)
        descend(loss, self.optimizer)
        return {"L_align": loss.detach(), "scale": self.model.scale.detach()}

    def watch(self) -> dict[str, float]:
        """Top-1 on new clips: of all motions that are trained, and of those held out, on validation people."""
        shown = [said[0] for said in self.rehearsal.said]
        seen = self.answers(self.seen_clips, shown) == self.seen_motions
        return {"seen": float(seen.float().mean()), "unseen": float(self._right(self.held_clips, self.held).mean())}

    def _right(self, clips: Tensor, indices: Tensor) -> Tensor:
        """1 where the description of a held-out action is found, (N,) float."""
        answers = self.answers(clips, fill_prompts(TEMPLATE, self.unseen.phrases()))
        return (answers == self.unseen.labels(indices).action).float()

    @torch.no_grad()
    def answers(self, clips: Tensor, prompts: Sequence[str]) -> Tensor:
        """Which prompt fits best to each clip, uint8 (N, T, 3, H, W) to (N,) on the CPU."""
        with autocast(self.device):
            text = self.model.embed_text(prompts)
            found = [
                self.model.match(self.model.embed_video(some.float() / 255), text) for some in clips.split(AT_ONCE)
            ]
        return torch.cat(found).argmax(1).cpu()

    def examine(self) -> dict[str, Any]:
        """Top-1 among the held-out actions on test people, whom nothing was chosen by, in all and for each action."""
        indices = self.unseen.split("test", "person")
        right = torch.cat([
            self._right(self.unseen.clips(some, device=self.device).pixels[:, 0], some) for some in indices.split(AT_ONCE)
        ])  # fmt: skip
        action, names = self.unseen.labels(indices).action, self.unseen.phrases()
        each = {name: float(right[action == number].mean()) for number, name in enumerate(names)}
        return {"top1": float(right.mean()), "chance": 1 / len(names), "clips": len(indices), "each": each}

    def strip(self) -> list[Tensor]:
        """A few of the clips it is watched by: seen, then held out."""
        return [*self.seen_clips[:2], *self.held_clips[:2]]


def weights_folder(run: RunFolder) -> Path:
    """Where the trained model lies, for `load_vlm`.

    >>> weights_folder(RunFolder(Path("runs/vlm")))
    PosixPath('runs/vlm/vlm')
    """
    return run.path / "vlm"


def train_captions(
    config: CaptionConfig, data: str, run: RunFolder, *, seed: int, device: torch.device,
    progress: Progress | None = None, timing: Timing | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train to the end, save the model in the run folder, and say what it makes of actions it was never shown."""
    if run.result.exists():  # its checkpoint is gone: to go on would be to begin anew, over what is there
        return run.read_result()
    keep_freed_memory()
    training = CaptionTraining(config, data, seed=seed, device=device)
    if current().main:
        run.pin("clips", training.unseen.fingerprint())
    return teach(
        training, "captions", config.steps, run, lambda model: save_vlm(model, weights_folder(run)), seed=seed,
        device=device, progress=progress, timing=timing,
    )  # fmt: skip
