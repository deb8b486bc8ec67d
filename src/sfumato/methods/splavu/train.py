"""SPLAVU's algorithm: f_A and the heads of all tasks go down one loss together (eq. 7), behind an encoder that never moves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.anonymizers.latent_storage import save_latent
from sfumato.errors import SfumatoError
from sfumato.methods.splavu.budget import LabelReader, Pairs, require_attributes
from sfumato.methods.splavu.config import BASE_BATCH, SPLAVUConfig
from sfumato.methods.splavu.tasks import KINDS, Batch, Task, require_labels
from sfumato.objectives.contrastive import cosines
from sfumato.objectives.latent import latent_consistency
from sfumato.objectives.reconstruction import l1_reconstruction
from sfumato.recognizers.encoders import load_encoder
from sfumato.training.batches import mix
from sfumato.training.device import autocast, keep_freed_memory
from sfumato.training.feature_data import (
    FeatureSet,
    FeatureStage,
    NamedEncoder,
    check,
    fetch,
    open_source,
    own_folder,
    require,
    tell_problems,
)
from sfumato.training.minimax import Terms
from sfumato.training.optimisation import adam, descend, frozen
from sfumato.training.phases import Phase, Player
from sfumato.training.processes import current

DRAWN = ("theatre", "screenplay")  # how the names of drawn videos begin
PRIVACY = "privacy"  # whose clips L_B is about, among the tasks' data
SHOWN, CELL = 32, 4  # videos in a picture, and pixels a side for each of its cosines


class CoTraining:
    """f_A, the tasks with their heads, and the budget. All randomness comes from `seed` and the step."""

    def __init__(
        self, config: SPLAVUConfig, data: Mapping[str, FeatureSet], *, seed: int, device: torch.device
    ) -> None:
        self.config, self.device = config, device
        torch.manual_seed(mix(seed, "first weights"))
        self.anonymizer = self._make_anonymizer(data[PRIVACY].manifest.width).to(device)
        self.tasks: list[Task] = [KINDS[name](data[name], config, seed).to(device) for name in config.asked()]
        budget = {"static": Pairs, "labels": LabelReader}[config.budget]
        self.budget = budget(data[PRIVACY], config, seed=seed, device=device)
        rate = config.anonymizer_rate * config.batch / BASE_BATCH  # the linear scaling rule
        self.optimizer = adam(nn.ModuleList([self.anonymizer, *self.tasks]), rate, config.weight_decay, device)
        self.beginning = adam(self.anonymizer, config.reconstruction_rate, config.weight_decay, device)

    def _make_anonymizer(self, width: int) -> LatentAdapter:
        c = self.config
        tokens = c.pieces(width) if c.attend == "feature" else 1
        return LatentAdapter(width, c.layers, c.heads, c.attend, c.feed_forward, tokens)

    def epoch(self) -> int:
        """The steps in which the first-named task sees every video of its own once; the others go round at their own pace."""
        first = self.tasks[0]
        return math.ceil(len(first.videos) / first.batch)

    def phases(self) -> list[Phase]:
        """An MLP learns to be the identity; with attention f_A is from the start. Then all terms at once."""
        reconstruct = self.config.reconstruction_epochs * self.epoch() if self.config.attend == "none" else 0
        return [
            Phase("reconstruct", reconstruct, self.reconstruction_step, self.watch),
            Phase("anonymize", self.config.epochs * self.epoch(), self.step, self.watch),
        ]

    # ---- steps ---------------------------------------------------------------------------------------------------

    def reconstruction_step(self, step: int) -> Terms:
        """f_A towards identity (appendix B.4)."""
        self.anonymizer.train()
        batch = self.tasks[0].deal(step)
        with autocast(self.device):
            loss = l1_reconstruction(batch.features, self.anonymizer(batch.features, batch.mask))
        descend(loss, self.beginning)
        return {"L1": loss.detach()}

    def step(self, step: int) -> Terms:
        """f_A and the heads down the sum of all terms; a budget model, where there is one, learns first."""
        for module in (self.anonymizer, *self.tasks):
            module.train()
        with autocast(self.device):
            met = self.budget.meet(self.adapt, step)
            terms = self.terms([task.deal(step) for task in self.tasks], step)
        descend(torch.stack(list(terms.values())).sum(), self.optimizer)
        return {f"f_A {name}": value.detach() for name, value in terms.items()} | met

    def adapt(self, clips: Tensor) -> Tensor:
        """f_A on lone clips, (B, D) to the same: a static clip has no neighbours in time."""
        anonymized: Tensor = self.anonymizer(clips[:, None])
        return anonymized[:, 0]

    def terms(self, batches: list[Batch], step: int) -> Terms:
        """ω_U·(ω_AR·L_AR + ω_TAD·L_TAD + ω_AD·L_AD) + ω_LC·L_LC − ω_B·L_B."""
        c, terms, apart = self.config, dict[str, Tensor](), list[Tensor]()
        for task, batch in zip(self.tasks, batches, strict=True):
            anonymized = self.anonymizer(batch.features, batch.mask)
            terms[task.symbol] = c.weight(task.name) * task.loss(anonymized, batch)
            apart.append(latent_consistency(batch.features, anonymized, batch.mask))
        terms["LC"] = c.consistency_weight * torch.stack(apart).mean()
        if c.budget_weight:
            terms["B"] = -c.budget_weight * self.budget.loss(self.adapt, step)
        return terms

    # ---- watching ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def watch(self) -> dict[str, float]:
        """f_A and the heads in eval mode on validation videos: each task's loss, L_LC, and how often static clips pair up."""
        found, apart = dict[str, float](), list[float]()
        with frozen([self.anonymizer, *self.tasks]), autocast(self.device):
            for task in self.tasks:
                if not len(task.watched):
                    continue
                batch = task.watched_batch()
                anonymized = self.anonymizer(batch.features, batch.mask)
                found |= task.figures(anonymized, batch)
                apart.append(float(latent_consistency(batch.features, anonymized, batch.mask)))
            found |= self.budget.watch(self.adapt)
        return {**found, "L_LC": sum(apart) / len(apart)} if apart else found

    def raw(self) -> dict[str, float]:
        """How often static clips pair up in the encoder's own features, and by guessing."""
        pairs = 2 * len(self.budget.watched)
        found = self.budget.watch(lambda clips: clips).get("pairs found")
        return {} if found is None else {"pairs found": found, "guessing": 1 / (pairs - 1)}

    @torch.no_grad()
    def strip(self) -> list[Tensor]:
        """The cosines of static clips with each other, before and after, white for 1: uint8 (1, 3, H, W) each.

        A bright line beside the diagonal is a pair that finds itself.
        """
        shown = (self.budget.watched if len(self.budget.watched) else self.budget.videos)[:SHOWN]
        if not len(shown):
            return [torch.zeros(1, 3, CELL, CELL, dtype=torch.uint8)]
        chance = torch.tensor([0.0, 1 - 1e-6]).expand(len(shown), 2)
        clips = torch.stack(self.budget.pairs(shown, chance), 1).flatten(0, 1)  # the two of a video side by side
        with frozen([self.anonymizer]):
            return [_picture(cosines(each, each)) for each in (clips, self.adapt(clips))]

    # ---- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs; features are where they were."""
        return {name: part.state_dict() for name, part in self._parts().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a training where `state_dict` left it."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])

    def _parts(self) -> dict[str, Any]:
        fixed = {"anonymizer": self.anonymizer, "optimizer": self.optimizer, "beginning": self.beginning}
        return {**fixed, "budget": self.budget, **{task.name: task for task in self.tasks}}


def train(config: SPLAVUConfig, stage: FeatureStage) -> dict[str, Any]:
    """Features first, then one loss for all; there is no adversary to audit, unless labels are told."""
    if stage.run.result.exists():
        return stage.run.read_result()
    if current().size > 1:
        raise SfumatoError("splavu trains in one process: on features it takes minutes", "leave --devices out")
    data = gather_features(config, stage)
    learner = CoTraining(config, data, seed=stage.seed, device=stage.device)
    first = learner.tasks[0]
    stage.counting(first.batch, len(first.videos))
    keep_freed_memory()
    Player(
        learner.phases(), learner, stage.run, stage.device, stage.seed, timing=stage.timing, progress=stage.progress
    ).play()
    manifest = data[PRIVACY].manifest
    result: dict[str, Any] = {
        "watched": {"action": None, **learner.watch()},
        "raw": learner.raw(),
        "audit": [],
        "parameters": {"f_A": _count(learner.anonymizer), **{task.name: _count(task) for task in learner.tasks}},
        "features": {"encoder": manifest.encoder, "weights_sha256": manifest.weights_sha256, "width": manifest.width},
        "drawn": any(a.name.startswith(DRAWN) for features in data.values() for a in features.annotations),
    }
    save_latent(learner.anonymizer, manifest, stage.run.anonymizer, stage.title)
    stage.run.save_result(result)
    stage.run.drop_checkpoint()
    return result


def gather_features(config: SPLAVUConfig, stage: FeatureStage) -> dict[str, FeatureSet]:
    """The features of every task and of the budget, all of one encoder; videos are encoded into the run folder."""
    own = {"detection": config.detection_data, "anomaly": config.anomaly_data}
    names = {task: own.get(task) or stage.data for task in config.asked()} | {PRIVACY: stage.privacy_data}
    sources = {name: open_source(name, strict=stage.strict) for name in dict.fromkeys(names.values())}
    for task in config.asked():
        require_labels(task, sources[names[task]])
    if config.budget == "labels":
        require_attributes(sources[stage.privacy_data])
    encoder = NamedEncoder(config.encoder, load_encoder(config.encoder).to(stage.device)) if config.encoder else None
    for source in sources.values():
        tell_problems(source, stage.progress.note)
        check(source, encoder)
    found = {
        name: fetch(source, encoder, own_folder(stage.run, name), stage.device, stage.loading)
        for name, source in sources.items()
    }
    one = found[stage.privacy_data].manifest
    for name, features in found.items():
        require(name, features.manifest, one.weights_sha256, one.width)
    stage.run.pin("features", " ".join(found[name].fingerprint for name in names.values()))
    return {role: found[name] for role, name in names.items()}


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _picture(cosine: Tensor) -> Tensor:
    """(n, n) in [-1, 1] as a grey picture, uint8 (1, 3, CELL·n, CELL·n)."""
    grey = ((cosine + 1) / 2 * 255).round().clamp(0, 255).to(torch.uint8).cpu()
    return grey.repeat_interleave(CELL, 0).repeat_interleave(CELL, 1).expand(1, 3, -1, -1).contiguous()
