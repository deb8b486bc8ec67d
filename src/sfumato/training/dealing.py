"""Deals the batches of an adversarial training: augmented clips for f_T, two views of each video for f_B.

Whatever is random is drawn for the whole batch, from the seed and the step: every process draws the same and takes its share.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.training.adversarial import GameConfig
from sfumato.training.augment import DRAWS, distort, nudge
from sfumato.training.bank import Bank
from sfumato.training.batches import Positives, Rounds, mix
from sfumato.training.device import seeded
from sfumato.training.opponents import Views
from sfumato.training.processes import Crew, current


@dataclass
class ActionBatch:
    """video: (B, T, 3, H, W) in [0, 1], augmented; actions: as in a bank. pixels, chance, flip: what `video` was made of."""

    video: Tensor
    actions: Tensor
    pixels: Tensor
    chance: Tensor
    flip: bool

    def again(self, frames: int) -> Tensor:
        """The first `frames` frames of the same clips, augmented in another way: (B, frames, 3, H, W)."""
        return nudge(self.pixels[:, :frames], 1 - self.chance, flip=self.flip)


@dataclass
class Banks:
    """What is trained on: action and privacy clips may come from two data sets; `watch_action` are clips of new
    people, `watch_privacy` other clips of people who were trained on."""

    action: Bank
    privacy: Bank
    watch_action: Bank
    watch_privacy: Bank
    action_count: int
    fingerprint: str = ""  # of all these clips: what a resumed run must find again


class Dealer:
    """The batches of one process; two data sets of different lengths are both seen whole, round after round.

    whole: f_A needs whole clips, so that views for a reader of frames are clips too, with the frames to be picked.
    """

    def __init__(
        self, config: GameConfig, banks: Banks, *, seed: int, device: torch.device, whole: bool = False
    ) -> None:
        self.banks, self.seed, self.device, self.crew, self.whole = banks, seed, device, current(), whole
        self.augment = {"strong": distort, "gentle": nudge}[config.augmentation]
        self.positives = Positives.parse(config.positives)
        for bank in (banks.privacy, banks.watch_privacy):
            self.positives.check(bank.times, bank.name)
        size = self.crew.size
        self.action_rounds = Rounds(len(banks.action), config.batch * size, seed=mix(seed, "action"))
        self.privacy_rounds = Rounds(len(banks.privacy), config.privacy_batch * size, seed=mix(seed, "privacy"))

    def action_batch(self, phase: str, step: int) -> ActionBatch:
        """Augmented clips and their actions."""
        bank, everybody = self.banks.action, self.action_rounds.rows(step)
        chance = self.crew.share(self._chance(len(everybody), phase, "action", step))
        rows = self._here(self.crew.share(everybody))
        pixels, flip = bank.take(rows), bank.mirror_safe
        return ActionBatch(self.augment(pixels, chance, flip=flip), bank.actions[rows], pixels, chance, flip)

    def privacy_batch(self, phase: str, step: int, level: str) -> Views:
        """Two raw views of each video, augmented each by itself: two frames, or the whole clip twice."""
        return self._views(self.banks.privacy, self.privacy_rounds.rows(step), level, self.crew, phase, "privacy", step)

    def watched_views(self, level: str, *, plain: bool) -> Views:
        """Views of the clips that f_B is watched on, always the same; of whole clips fewer, since each is so many frames.

        plain: as they are, nothing cut off or erased, for who is asked what they show and not which ones belong together.
        """
        bank = self.banks.watch_privacy
        count = len(bank) if level == "frame" and not self.whole else min(64, len(bank))
        spread = torch.linspace(0, len(bank) - 1, count).round().long()
        return self._views(bank, spread, level, Crew(), "watch", plain=plain)

    def _here(self, rows: Tensor) -> Tensor:
        """On the device, without waiting for what is under way there."""
        return rows.to(self.device, non_blocking=True)

    def _chance(self, count: int, *salt: int | str) -> Tensor:
        """The random numbers for a whole batch, (count, DRAWS)."""
        draw = seeded(mix(self.seed, *salt), self.device)
        return torch.rand(count, DRAWS, generator=draw, device=self.device)

    def _views(
        self, bank: Bank, everybody: Tensor, level: str, crew: Crew, *salt: int | str, plain: bool = False
    ) -> Views:
        # Pairs are drawn on the CPU, so that they are the same on every device.
        pairs = crew.share(self.positives.draw(bank.times[everybody], seeded(mix(self.seed, *salt, "pairs"))))
        pairs, rows = self._here(pairs), self._here(crew.share(everybody))
        single = level == "frame" and not self.whole
        views = []
        for side in range(2):
            clips = bank.take(rows, pairs[:, side])[:, None] if single else bank.take(rows)
            chance = crew.share(self._chance(len(everybody), *salt, side))
            views.append(clips.float() / 255 if plain else distort(clips, chance, flip=bank.mirror_safe))
        frames = pairs if level == "frame" and self.whole else None
        return Views(views[0], views[1], bank.answers[rows], rows, frames)
