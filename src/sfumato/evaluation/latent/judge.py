"""The judge of latent anonymizers: raw features first, then each adapter, by every protocol that the data allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from sfumato.anonymizers.latent_adapter import LatentAnonymizer
from sfumato.errors import SfumatoError
from sfumato.evaluation.comparison import ACTION, Evidence, difference_notes, differences, front, tradeoff_notes
from sfumato.evaluation.latent.action import ActionProtocol
from sfumato.evaluation.latent.anomaly import AnomalyProtocol
from sfumato.evaluation.latent.base import LatentConfig, LatentProtocol, Sheet, measure
from sfumato.evaluation.latent.bias import BiasProtocol
from sfumato.evaluation.latent.detection import DetectionProtocol
from sfumato.evaluation.latent.gait import OTHER, SAME, GaitProtocol
from sfumato.evaluation.latent.gap import GapProtocol
from sfumato.evaluation.latent.inversion import InversionProtocol
from sfumato.evaluation.latent.material import RawFeatures, Subject, make_subject, moved, moved_notes
from sfumato.evaluation.latent.probe import ProbeProtocol
from sfumato.evaluation.latent.readers import EPOCHS
from sfumato.evaluation.latent.reconstruction import ReconstructionProtocol
from sfumato.evaluation.latent.retrieval import RetrievalProtocol
from sfumato.evaluation.metrics import leakage_removed, nhv, utility_kept
from sfumato.evaluation.notes import persons_note, seeds_note
from sfumato.evaluation.provenance import commit, versions
from sfumato.evaluation.result import Leakage, Line, Measure, Result, Score
from sfumato.evaluation.scoring import (
    Choice,
    Ruler,
    Sitting,
    attack_result,
    choose,
    headline,
    utility_draws,
    utility_score,
)
from sfumato.training.device import hardware
from sfumato.training.feature_data import FeatureSet

if TYPE_CHECKING:
    from sfumato.evaluation.protocols.known import Watch

PROTOCOLS: Mapping[str, type[LatentProtocol]] = {
    kind.name: kind
    for kind in (
        ActionProtocol, ProbeProtocol, DetectionProtocol, AnomalyProtocol, RetrievalProtocol, GaitProtocol, BiasProtocol,
        GapProtocol, InversionProtocol, ReconstructionProtocol,
    )
}  # fmt: skip
ALL = "latent"
NAN = math.nan


@dataclass
class LatentLine(Line):
    """One anonymizer of features; `scores` are what is neither the action nor an attack: detection, retrieval, …"""

    scores: list[Measure] = field(default_factory=list)


class LatentJudge:
    """Judges adapters one after another on the same features by the protocols of those names; all, where none is named.

    A protocol that the data has no labels for is left out and noted; one that was asked for by itself is an error.
    """

    def __init__(
        self, data: FeatureSet, config: LatentConfig, *, names: Sequence[str] = (), device: torch.device,
        watch: Watch | None = None,
    ) -> None:  # fmt: skip
        from sfumato.evaluation.protocols.known import Watch  # the protocols' register knows this judge

        self.data, self.config, self.device, self.watch = data, config, device, watch or Watch()
        self.name = f"{ALL}-{names[0]}" if len(names) == 1 else ALL
        every = [PROTOCOLS[name](data, config, device) for name in names or PROTOCOLS]
        self.protocols = [protocol for protocol in every if not protocol.lacks]
        missing = [f"{ALL}-{p.name} left out: {data.name} {p.lacks}" for p in every if p.lacks]
        if not self.protocols or (names and missing):
            raise SfumatoError(missing[0], "give features of videos that say so, see annotations.jsonl beside them")
        self.missing = missing

    def judge(self, adapters: Mapping[str, LatentAnonymizer]) -> Result:
        """One result: raw features, then the adapters by name."""
        raw = RawFeatures(self.data.manifest.width)
        self.watch.total(len(self.protocols) * self.config.seeds * (1 + len(adapters)))
        reference = self._examine(make_subject(raw.name, raw, self.data))
        lines: list[Line] = [self._line(raw.name, reference, reference)[0]]
        evidence, told = {}, []
        for name, adapter in adapters.items():
            subject = make_subject(name, adapter, self.data)
            found, evidence[name] = self._line(name, self._examine(subject), reference)
            lines.append(found)
            told += moved_notes(name, moved(subject))
        result = self._result(lines)
        result.differences, result.pareto = differences(evidence), front(lines[1:])
        order = difference_notes(result.differences, lines[1:])
        result.notes += [*told, *order, seeds_note(self.config.seeds), *tradeoff_notes(lines[1:])]
        return result

    def _examine(self, subject: Subject) -> dict[str, list[Sheet]]:
        """What each protocol leaves, a sheet for each seed."""
        found: dict[str, list[Sheet]] = {protocol.name: [] for protocol in self.protocols}
        for seed in range(self.config.seeds):
            for protocol in self.protocols:
                self.watch.status(f"{subject.name}: {protocol.name}")
                found[protocol.name].append(protocol.examine(subject, seed))
                self.watch.done(f"{subject.name}: {protocol.name}")
        return found

    def _line(
        self, name: str, sheets: dict[str, list[Sheet]], raw: dict[str, list[Sheet]]
    ) -> tuple[LatentLine, Evidence]:
        """The scores of one anonymizer, paired with raw, and what the action and the leakage are on every resample."""
        utility, attacks, scores = None, [], []
        results = []
        for protocol in self.protocols:
            mine, theirs = sheets[protocol.name], raw[protocol.name]
            for asked in protocol.asked:
                answers, references = ([s.answers[asked.exam.name] for s in some] for some in (mine, theirs))
                sitting = Sitting(asked.exam, asked.reader, answers, references, persons=asked.persons)
                ruler = Ruler(sitting, asked.heads)
                if asked.role == "utility":
                    utility = ruler
                elif asked.role == "score":
                    scores.append(Measure(f"{asked.exam.name} {ruler.metric}", utility_score(ruler)))
                else:
                    attacks.append(ruler)
                    results.append(attack_result(ruler, asked.specs))
            for number in range(len(mine[0].tallies)):
                scores.append(measure([s.tallies[number] for s in mine], [s.tallies[number] for s in theirs]))
        choices = _choices(attacks)
        strongest = [choice.strongest for choice in choices]
        drawn = {c.strongest.target: c.leakage for c in choices if c.leakage is not None}
        worst = headline(strongest, drawn) if strongest else Leakage(NAN, NAN, NAN, "inconclusive")
        score = utility_score(utility) if utility else Score(NAN, NAN, NAN, NAN, NAN)
        kept = utility_kept(score.value, score.chance, score.raw) if utility else NAN
        decided = worst.verdict == "measured" and not math.isnan(kept)
        line = LatentLine(
            name, score, _each_seed(utility), results, strongest, worst,
            nhv([(kept, leakage_removed(worst.value))]) if decided else NAN, scores,
        )  # fmt: skip
        return line, ({ACTION: utility_draws(utility)} if utility else {}) | drawn

    def _result(self, lines: list[Line]) -> Result:
        told = self.data.annotations
        test = [a for a in told if a.part("person") == "test"]
        notes = [
            *self.missing,
            *dict.fromkeys(note for protocol in self.protocols for note in protocol.notes),
            f"judged on features of '{self.data.manifest.encoder}', {self.data.manifest.width} wide; intervals are over videos"
            f"{persons_note(lines)}",
            *scored_notes(lines),
        ]
        return Result(
            self.name, self.data.name, len({a.action for a in told} - {""}), len({a.person for a in told} - {""}),
            len(test), len({a.person for a in test} - {""}), list(range(self.config.seeds)),
            {protocol.name: protocol.models for protocol in self.protocols}, self.config.epochs or EPOCHS,
            hardware(self.device), versions(), commit(), lines, notes,
        )  # fmt: skip


def _each_seed(utility: Ruler | None) -> list[float]:
    if utility is None:
        return []
    return [float((a.test.argmax(1) == a.test_labels[:, 0]).mean()) for a in utility.sitting.answers]


def _choices(attacks: Sequence[Ruler]) -> list[Choice]:
    """The strongest reader of attributes, and of persons; where nobody reads either, who moves like that.

    Beside the others gait is no headline: without any training its attacker is often too weak on raw features to say anything.
    """
    targets = [t for t in ("attributes", "identity") if any(r.sitting.exam.target == t for r in attacks)]
    if targets:
        return [choose([r for r in attacks if r.sitting.exam.target == target]) for target in targets]
    gait = {ruler.sitting.exam.name: ruler for ruler in attacks}
    own = gait.get(OTHER.name) or gait.get(SAME.name)
    return [choose([own])] if own else []


def scored_notes(lines: Sequence[Line]) -> list[str]:
    """The scores that have no column in the table, and what gait gives away, a line for each anonymizer and score.

    >>> scored_notes(result.lines)[0]
    'identity: TAD mAP 0.62 [0.55–0.68], without looking 0.08, raw 0.62'
    """

    def told(name: str, what: str, s: Score) -> str:
        return (
            f"{name}: {what} {s.value:.2f} [{s.low:.2f}–{s.high:.2f}], without looking {s.chance:.2f}, raw {s.raw:.2f}"
        )

    found = []
    for line in lines:
        for attack in line.attacks:
            if attack.target == "re-identification":
                found.append(told(line.anonymizer, f"{attack.attacker} {attack.metric}", attack.score))
        found += [told(line.anonymizer, m.name, m.score) for m in getattr(line, "scores", [])]
    return found
