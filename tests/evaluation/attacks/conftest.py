"""A data set and anonymizers of which it is known what they tell, and an attack on them from training to score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers.base import Anonymizer
from sfumato.datasets.base import Clips, ClipShape, Labels, Part, Progress, SplitBy, VideoDataset
from sfumato.datasets.sample import AttributeSpec, Sample
from sfumato.evaluation import scoring
from sfumato.evaluation.attacks import ATTACKS
from sfumato.evaluation.attacks.architectures import STAND_IN
from sfumato.evaluation.attacks.reconstruct import Undoing
from sfumato.evaluation.exam import Answers, Exam, Examinee, Memory, asked, questions, sit
from sfumato.evaluation.material import anonymize_clips
from sfumato.evaluation.result import AttackResult
from sfumato.evaluation.scoring import Ruler, Sitting, attack_result
from sfumato.training.fit import FitConfig

CPU = torch.device("cpu")
PEOPLE, SIDE, FRAMES = 4, 16, 2
PARTS = ("train", "clip val", "clip test", "person val", "person test")


class Parade(VideoDataset):
    """Frames of one colour each, a little noisy; every person has their own. 4 people in training, 4 in val, 4 in test.

    The first pixel of a frame tells whoever knows it the person, the second is a coin that was tossed for the clip. A
    recording is so many clips one after the other.
    """

    name, summary, mirror_safe = "parade", "for tests", True
    actions, attributes = ("stand", "go"), (AttributeSpec("odd"),)
    persons = tuple(f"person {i}" for i in range(3 * PEOPLE))
    shape = ClipShape(FRAMES, SIDE, SIDE)

    def __init__(self, sizes: tuple[int, int, int] = (64, 16, 120), recording: int = 1, views: int = 1) -> None:
        train, val, test = sizes
        self.ends = torch.tensor([train, val, test, val, test]).cumsum(0).tolist()
        self.recording, self.views = recording, views

    def __len__(self) -> int:
        return int(self.ends[-1])

    def split(self, part: Part, by: SplitBy) -> Tensor:
        at = 0 if part == "train" else PARTS.index(f"{by} {part}")
        return torch.arange(self.ends[at - 1] if at else 0, self.ends[at])

    def recordings(self, indices: Tensor) -> Tensor:
        return indices // self.recording

    def labels(self, indices: Tensor) -> Labels:
        cast = (indices >= self.ends[2]).long() + (indices >= self.ends[3]).long()
        person = cast * PEOPLE + self.recordings(indices) % PEOPLE
        return Labels(indices % 2, person, person[:, None] % 2)

    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        draw = torch.Generator().manual_seed(3)
        colours = torch.randint(40, 215, (len(self.persons), 3), generator=draw)
        noise = torch.randint(-12, 13, (len(self), self.views, FRAMES, 3, SIDE, SIDE), generator=draw)
        coins = torch.randint(0, 256, (len(self), self.views, 1, 1), generator=draw)
        person = self.labels(indices).person
        pixels = (colours[person][:, None, None, :, None, None] + noise[indices]).clamp(0, 255)
        pixels[..., 0, 0] = 20 * person[:, None, None, None]
        pixels[..., 0, 1] = coins[indices]
        return Clips(pixels.to(device, torch.uint8), None)

    def fingerprint(self) -> str:
        return f"parade {self.ends} {self.recording} {self.views}"

    def sample(self, index: int) -> Sample:
        pytest.fail("no attack looks at a sample")


class Told(Anonymizer):
    """Shows of a clip what `tell(video, person, coin)` says: person (B,) and coin (B,) in [0, 1] are read from the video."""

    name, summary = "told", "for tests"

    def __init__(self, tell: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.tell = tell

    def forward(self, video: Tensor) -> Tensor:
        person = (video[:, 0, 0, 0, 0] * 255 / 20).round().long()
        return self.tell(video, person, video[:, 0, 0, 0, 1])


def grey(video: Tensor) -> Tensor:
    return torch.full_like(video, 0.25)


def with_bit(video: Tensor, bit: Tensor) -> Tensor:
    """All grey, but for one corner pixel, which is bright where the bit is set."""
    shown = grey(video)
    shown[..., -1, -1] += 0.75 * bit.view(-1, 1, 1).float()
    return shown


NOTHING_HIDDEN = Told(lambda video, person, coin: video)
ALL_HIDDEN = Told(lambda video, person, coin: grey(video))
ONE_BIT = Told(lambda video, person, coin: with_bit(video, person % 2))


@dataclass
class Lab:
    """Attacks on anonymizers of one data set. Answers are kept, and trainings on raw clips: each is the same every time."""

    dataset: Parade
    epochs: int = 6
    memory: Memory = field(default_factory=Memory)
    kept: dict[tuple[str, Anonymizer], Answers] = field(default_factory=dict)

    def answers(self, exam: Exam, anonymizer: Anonymizer) -> Answers:
        def source(hidden: Anonymizer) -> Callable[[Part], Tensor]:
            @lru_cache
            def clips(part: Part) -> Tensor:
                return anonymize_clips(hidden, self.dataset.clips(asked(exam, self.dataset, part)), CPU)

            return clips

        fit = FitConfig(epochs=self.epochs, batch=8, learning_rate=3e-3, moved=not exam.placed, flip=not exam.placed)
        who = Examinee(exam.recognizer or f"tiny-{exam.level}", fit, STAND_IN if exam.recognizer else 1.0)
        return sit(
            exam, who, self.dataset, source(anonymizer), seed=0, device=CPU,
            raw=source(NOTHING_HIDDEN), memory=Memory(raw=self.memory.raw),
        )  # fmt: skip

    def attack(self, name: str, anonymizer: Anonymizer) -> AttackResult:
        exam = ATTACKS.make(name)
        if isinstance(exam.approach, Undoing):
            exam = replace(exam, approach=replace(exam.approach, width=8))  # pictures this small need no more
        for hidden in (NOTHING_HIDDEN, anonymizer):
            if (name, hidden) not in self.kept:
                self.kept[name, hidden] = self.answers(exam, hidden)
        found, raw = self.kept[name, anonymizer], self.kept[name, NOTHING_HIDDEN]
        items = (exam.approach.items(exam, self.dataset, part) for part in ("val", "test"))
        val, test = (self.dataset.recordings(indices).numpy() for indices in items)
        sitting = Sitting(exam, "net", [found], [raw], (val, test))
        return attack_result(Ruler(sitting, questions(exam, self.dataset)), self.dataset.attributes)


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 200)


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab(Parade())
