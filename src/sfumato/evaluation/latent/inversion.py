"""The *inversion* protocol (SPLAVU section 5.3, Table 8): raw features are recovered, and readers of raw features look at them.

Black box: the attacker runs f_A over videos of their own and trains a network that maps what comes out back to what went in.
White box: they know f_A and move a made-up feature, by its gradient, until f_A makes of it what was observed. Both hand what
they recover to readers who only know raw features: a linear one of the action, an MLP of the attributes, as in the paper.

The black box's own videos are another data set's where the store holds one: videos whose action and attributes nobody told,
such as long plays. Else they are the training videos themselves, which makes the attacker stronger.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.anonymizers.latent_adapter import LatentAnonymizer
from sfumato.evaluation.exam import Answers, Exam, Target, exam_score
from sfumato.evaluation.latent.base import Asked, LatentProtocol, Sheet
from sfumato.evaluation.latent.material import Rows, Subject, stretches, whole_rows
from sfumato.evaluation.latent.probe import Inquiry, inquire_actions, inquire_attributes
from sfumato.evaluation.latent.readers import EPOCHS, Lesson, Reader, learn, read
from sfumato.training.batches import mix
from sfumato.training.device import seeded
from sfumato.training.feature_data import FeatureSet
from sfumato.training.optimisation import adam, frozen, one_cycle, set_rate

BOXES = ("black-box", "white-box")
READERS: dict[Target, str] = {"attributes": "mlp", "action": "linear"}
PAIRS = 200  # clips; fewer of another data set teach nothing
RATE, BATCH, VAL_EVERY, RIDGE = 1e-3, 256, 5, 1e-4
STEPS, STRIDE = 300, 0.2  # of the white box: how often, and how far at first, in deviations of the features
# What is chosen as a whole, where f_A mixes clips: what suits one of them best may spoil the others. Residuals (B, S) to sums.
TOGETHER: Mapping[str, Callable[[Tensor], Tensor]] = {
    "video": lambda left: left.sum(1, keepdim=True).expand_as(left),
    "batch": lambda left: left.sum().expand_as(left),
}


class Undo(nn.Module):
    """Anonymized features (N, D) to raw ones: the linear map that fits the pairs (N, D) best, plus what an MLP adds.

    >>> Undo(torch.rand(20, 8), torch.rand(20, 8))(torch.rand(4, 8)).shape
    torch.Size([4, 8])
    """

    given: Tensor
    spread: Tensor
    wanted: Tensor
    scale: Tensor

    def __init__(self, hidden: Tensor, raw: Tensor) -> None:
        super().__init__()
        width = raw.shape[1]
        for name, value in (("given", hidden.mean(0)), ("wanted", raw.mean(0))):
            self.register_buffer(name, value)
        for name, value in (("spread", hidden), ("scale", raw)):
            self.register_buffer(name, value.std(0, correction=0).clamp(min=1e-6))
        self.straight = nn.Linear(width, width)
        self.bent = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        given, wanted = (hidden - self.given) / self.spread, (raw - self.wanted) / self.scale
        ridge = RIDGE * len(raw) * torch.eye(width, device=raw.device)
        with torch.no_grad():
            self.straight.weight.copy_(torch.linalg.solve(given.T @ given + ridge, given.T @ wanted).T)
        nn.init.zeros_(self.straight.bias)
        nn.init.zeros_(self.bent[-1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.bent[-1].bias)  # type: ignore[arg-type]

    def forward(self, features: Tensor) -> Tensor:
        """(N, D) to the same."""
        normal = (features - self.given) / self.spread
        return (self.straight(normal) + self.bent(normal)) * self.scale + self.wanted


def learn_to_undo(hidden: Tensor, raw: Tensor, *, seed: int, epochs: int = EPOCHS) -> Undo:
    """From pairs (N, D): the network of the epoch that comes closest to every fifth pair, which it does not learn from.

    >>> learn_to_undo(2 * torch.rand(50, 4), torch.rand(50, 4), seed=0, epochs=1)  # doctest: +SKIP
    """
    torch.manual_seed(seed)
    device = raw.device
    held = torch.arange(len(raw), device=device) % VAL_EVERY == VAL_EVERY - 1
    shown, wanted = hidden[~held], raw[~held]
    model, draw = Undo(shown, wanted).to(device), seeded(seed)
    optimizer = adam(model, RATE, 0.0, device)
    best, state = math.inf, copy.deepcopy(model.state_dict())
    for epoch in range(epochs):
        set_rate(optimizer, RATE * one_cycle(epoch / epochs))
        for rows in torch.randperm(len(shown), generator=draw).to(device).split(BATCH):
            loss = F.mse_loss(model(shown[rows]) / model.scale, wanted[rows] / model.scale)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            now = float(F.mse_loss(model(hidden[held]) / model.scale, raw[held] / model.scale))
        if now <= best:
            best, state = now, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    return model


def invert(adapter: LatentAnonymizer, observed: Tensor, mask: Tensor, scale: float, steps: int = STEPS) -> Tensor:
    """A made-up (B, S, D) of which f_A makes what was observed, as nearly as the gradient gets; it begins as that.

    Of every clip the guess of the step that came nearest, the first included; where f_A attends to a whole video, of every
    video. scale: the deviation of the features, which steps are measured in.

    >>> invert(LatentAdapter(16), torch.rand(2, 1, 16), torch.ones(2, 1).bool(), 1.0, steps=1).shape
    torch.Size([2, 1, 16])
    """
    guess = observed.clone().requires_grad_()
    optimizer = torch.optim.Adam([guess], lr=STRIDE * scale)
    together = TOGETHER.get(str(adapter.settings().get("attend")), lambda left: left)
    best, least = observed, torch.full(mask.shape, math.inf, device=observed.device)
    with frozen([adapter]):
        for step in range(steps + 1):
            with torch.enable_grad():
                left = (adapter(guess, mask) - observed).square().sum(2).masked_fill(~mask, 0)
            off = together(left.detach())
            nearer = off < least
            best, least = torch.where(nearer[..., None], guess.detach(), best), torch.where(nearer, off, least)
            if step == steps or not left.requires_grad:  # f_A makes the same of everything
                break
            set_rate(optimizer, STRIDE * scale * (1 - step / steps))
            (guess.grad,) = torch.autograd.grad(left.sum(), guess, allow_unused=True)
            optimizer.step()
    return best


class InversionProtocol(LatentProtocol):
    """Whether the action and the attributes come back."""

    name = "inversion"
    summary = "black-box and white-box recovery of raw features, then readers of raw features; section 5.3, Table 8"
    models = "mlp, gradient descent"

    def prepare(self) -> None:
        """For each box an exam about the action and one about the attributes, as far as they are told."""
        found: dict[Target, Inquiry] = {
            "attributes": inquire_attributes(self.data), "action": inquire_actions(self.data),
        }  # fmt: skip
        self.inquiries = {target: inquiry for target, inquiry in found.items() if not inquiry.lacks}
        self.lacks = "" if self.inquiries else found["attributes"].lacks
        for box in BOXES:
            for target, inquiry in self.inquiries.items():
                by = "clip" if target == "attributes" else "person"
                exam = Exam(f"inversion-{box}-{target}", f"{target} from recovered features", target, "video", by)  # type: ignore[arg-type]
                role = "attack" if target == "attributes" else "score"
                question, persons = inquiry.question, inquiry.persons(self.data)
                self.asked.append(Asked(exam, READERS[target], question.heads, role, question.specs, persons))  # type: ignore[arg-type]
        self.pairs = self._pairs()
        self._readers: dict[tuple[Target, int], Reader] = {}

    def _pairs(self) -> Tensor:
        """The rows (N,) of the clips that the black box may see before and after f_A."""
        known = torch.tensor([bool(a.action or a.attributes) for a in self.data.annotations])
        own = known.repeat_interleave(self.data.count)
        if int((~own).sum()) >= PAIRS:
            return (~own).nonzero()[:, 0]
        if not self.lacks:
            self.notes.append("black-box inversion: no other videos in the store, it learns from the training videos")
        learned = torch.zeros(len(known), dtype=torch.bool)
        for inquiry in self.inquiries.values():
            learned[inquiry.parts.train] = True
        return learned.repeat_interleave(self.data.count).nonzero()[:, 0]

    def examine(self, subject: Subject, seed: int) -> Sheet:
        """Both boxes; of raw features nothing has to be recovered."""
        sheet = Sheet()
        for box in BOXES:
            started = time.perf_counter()
            recovered = subject.features if subject.is_raw else self._recover(box, subject, seed)
            for target, inquiry in self.inquiries.items():
                reader, question, parts = self._reader(target, seed), inquiry.question, inquiry.parts
                val, test = (
                    read(reader, whole_rows(recovered, v), question.heads).numpy() for v in (parts.val, parts.test)
                )
                labels = question.labels.numpy()
                sheet.answers[f"inversion-{box}-{target}"] = Answers(
                    val, labels[parts.val.numpy()], test, labels[parts.test.numpy()], np.empty(0),
                    time.perf_counter() - started,
                )  # fmt: skip
        return sheet

    def _reader(self, target: Target, seed: int) -> Reader:
        """Who knows raw features alone; the same for every subject."""
        if (target, seed) not in self._readers:
            inquiry = self.inquiries[target]
            labels, heads, _ = inquiry.question
            exam = next(a.exam for a in self.asked if a.exam.target == target)

            def lesson(videos: Tensor) -> Lesson:
                rows: Rows = whole_rows(self.data, videos)
                return Lesson(rows, labels[videos])

            self._readers[target, seed], _ = learn(
                READERS[target], lesson(inquiry.parts.train), heads, seed=seed, epochs=self.config.epochs or EPOCHS,
                watched=lesson(inquiry.parts.val), choice=exam_score(exam, heads),
            )  # fmt: skip
        return self._readers[target, seed]

    def _recover(self, box: str, subject: Subject, seed: int) -> FeatureSet:
        """The features of the videos that are asked about, as the attacker thinks they were; all others as observed."""
        asked = torch.zeros(len(self.data.count), dtype=torch.bool)
        for inquiry in self.inquiries.values():
            asked[inquiry.parts.val] = asked[inquiry.parts.test] = True
        vectors = subject.features.vectors.clone()
        undo = self._undo(subject, seed) if box == "black-box" else None
        scale = float(self.data.vectors[:, 0].std(0).mean())
        for observed, mask, rows in stretches(subject.features, asked.nonzero()[:, 0]):
            if undo is None:
                vectors[rows, 0] = invert(subject.adapter, observed, mask, scale)[mask]
            else:
                with torch.no_grad():
                    vectors[rows, 0] = undo(observed[mask])
        return FeatureSet(self.data.name, self.data.manifest, vectors, self.data.count, self.data.annotations)

    def _undo(self, subject: Subject, seed: int) -> Undo:
        rows = self.pairs.to(self.data.vectors.device)
        hidden, raw = subject.features.vectors[rows, 0], self.data.vectors[rows, 0]
        return learn_to_undo(hidden, raw, seed=mix(seed, "undo"), epochs=self.config.epochs or EPOCHS)
