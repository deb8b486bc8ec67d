"""The minimax game that all adversarial methods share.

Step 1 moves f_A by what the method's objective asks, f_T and the f_B held still and in eval mode. Step 2 moves f_T and
every f_B to do their own task on what f_A, held still and in eval mode as it will be deployed, now gives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.anonymizers.base import Anonymizer
from sfumato.errors import SfumatoError
from sfumato.objectives.labels import action_loss, blind_action_loss, named_actions
from sfumato.objectives.rate import sparsity
from sfumato.objectives.reconstruction import l1_reconstruction
from sfumato.objectives.rotation import check_square
from sfumato.recognizers import make_recognizer
from sfumato.training.adversarial import GameConfig
from sfumato.training.audit import Audit
from sfumato.training.bank import require_same_length
from sfumato.training.batches import mix
from sfumato.training.dealing import ActionBatch, Banks, Dealer
from sfumato.training.device import autocast, settle
from sfumato.training.opponents import Lineup, Opponent, Views, make_opponent
from sfumato.training.optimisation import adam, descend, frozen, one_cycle, set_rate
from sfumato.training.phases import Phase
from sfumato.training.processes import alone, mean_over_crew, same_everywhere, synchronise_norms

Terms = dict[str, Tensor]


# What f_A minimises, by name, given the batch, f_A's output on it, and the f_B's views by level; their sum is descended.
Objective = Callable[[ActionBatch, Tensor, Mapping[str, Views]], Terms]
# What f_T minimises, given the batch and f_A's output on it.
UtilityLoss = Callable[[ActionBatch, Tensor], Tensor]


class Game(ABC):
    """f_A, f_T and the f_B with their optimizers, batches and steps. All randomness comes from `seed` and the step."""

    def __init__(self, config: GameConfig, banks: Banks, *, seed: int, device: torch.device) -> None:
        self.config, self.banks, self.seed, self.device = config, banks, seed, device
        if banks.action_count < 2:
            raise SfumatoError(f"{banks.action.name} has fewer than two actions", "give videos of two actions or more")
        frames, _, height, width = banks.action.pixels.shape[1:]
        torch.manual_seed(mix(seed, "first weights"))
        self.anonymizer = self._ready(self.make_anonymizer(height))
        whole = self.anonymizer.spec.length is not None
        if whole:
            require_same_length(banks.action, banks.privacy)
        self.deal = Dealer(config, banks, seed=seed, device=device, whole=whole)
        self.utility = self._ready(
            make_recognizer(
                config.utility,
                banks.action_count,
                clip=(frames, height, width),
                width=config.utility_width,
                **({"dilated_last_stage": True} if config.utility_dilated else {}),
            )
        )
        self.opponents = [self._ready(make_opponent(lineup)) for lineup in self._lineups()]
        self.past: list[Opponent] = []
        self.restarts = 0
        self.challenged = False  # whether some f_B has read so much that beating it would mean something
        self.audit = Audit(self._audit_lineups(), lambda made, salt: self._fresh(made, salt, config.audit_rate))
        self.optimizers = {
            "anonymizer": self._adam(self.anonymizer, config.anonymizer_rate),
            "utility": self._adam(self.utility, config.utility_rate),
        }
        self.budget_optimizers = [self._adam(opponent, config.budget_rate) for opponent in self.opponents]

    @abstractmethod
    def make_anonymizer(self, size: int) -> Anonymizer:
        """f_A for frames of that side, weights at random."""

    @abstractmethod
    def initialisation(self) -> Phase:
        """How f_A begins, before it meets anybody."""

    # ---- players -------------------------------------------------------------------------------------------------

    def _lineups(self) -> list[Lineup]:
        config, bank = self.config, self.banks.privacy
        if config.budget_update == "none":
            return []
        asked = bank.questions(config.budget_labels) if config.budget == "labels" else ()
        if config.budget == "labels" and not asked:
            kind = "privacy" if config.budget_labels == "both" else config.budget_labels
            raise SfumatoError(f"{bank.name} has no {kind} labels", "choose a self-supervised budget, or other data")
        if config.budget in ("nt-xent", "moco") and len(bank) < 2:
            raise SfumatoError(f"{bank.name} has one video to train on, which f_B cannot tell from others", "give more")
        if config.budget == "rotation":
            check_square(*self._clip()[1:])
        # MoCo's queue holds a quarter of the videos at most: beyond that many of its keys would be no negatives.
        keys = min(1024, max(1, len(bank) // 4))
        return [
            Lineup(
                config.budget, network, config.budget_norm, self._clip(), tuple(bank.heads[q] for q in asked), asked,
                config.temperature, config.confusion, config.budget_width, keys,
            )
            for network in config.networks()
        ]  # fmt: skip

    def _audit_lineups(self) -> list[Lineup]:
        """The f_B once more, and one that is told who it is, or else what people look like, where the data says so."""
        bank = self.banks.privacy
        asked = bank.questions("identity") or bank.questions("attributes")
        heads = tuple(bank.heads[q] for q in asked)
        labelled = [Lineup("labels", self.config.auditor, "batch", self._clip(), heads, asked)] if asked else []
        return [*self._lineups(), *labelled]

    def _clip(self) -> tuple[int, int, int]:
        frames, _, height, width = self.banks.privacy.pixels.shape[1:]
        return frames, height, width

    def _ready(self, module: Any) -> Any:
        """On the device, and among several processes with the same weights and common statistics."""
        module = settle(synchronise_norms(module), self.device)
        same_everywhere(module)
        return module

    def _adam(self, module: nn.Module, rate: float) -> torch.optim.Optimizer:
        return adam(module, rate, self.config.weight_decay, self.device)

    def _fresh(
        self, lineups: list[Lineup], salt: str, rate: float
    ) -> tuple[list[Opponent], list[torch.optim.Optimizer]]:
        """New opponents, weights at random, with their optimizers."""
        torch.manual_seed(mix(self.seed, salt))
        fresh = [self._ready(make_opponent(lineup)) for lineup in lineups]
        return fresh, [self._adam(opponent, rate) for opponent in fresh]

    # ---- losses --------------------------------------------------------------------------------------------------

    def draw(self, video: Tensor) -> Tensor:
        """What f_A makes of action clips in step 1, for a game to keep more of than the pictures."""
        return self.anonymizer(video)

    def anonymize(self, views: Views) -> Views:
        """Both views through f_A, as the reader sees them."""
        first, second = self.anonymizer(torch.cat([views.first, views.second])).chunk(2)
        return Views(first, second, views.answers, views.videos, views.frames).picked()

    def utility_loss(self, output: Tensor, actions: Tensor) -> Tensor:
        """L_T of f_T on anonymized clips."""
        return action_loss(self.utility(output), actions)

    def budget_confusion(self, views: Mapping[str, Views]) -> Tensor:
        """What f_A maximises: the mean over all f_B, present and past, or the best reader's alone. views: by level."""
        each = [o.confusion(views[o.level]) for o in [*self.opponents, *self.past]]
        if not each:
            return torch.zeros((), device=self.device)
        if not self.config.strongest:
            return torch.stack(each).mean()
        # Among several processes the mean over all their clips decides, so that f_A faces the same f_B in each.
        over_all = mean_over_crew({str(number): value for number, value in enumerate(each)})
        return each[int(torch.stack(list(over_all.values())).argmin())]

    @cached_property
    def guessing(self) -> float:
        """L_T of an f_T that does not look."""
        return blind_action_loss(self.banks.action.actions, self.banks.action_count)

    def action_loss(self, batch: ActionBatch, output: Tensor) -> Tensor:
        """What every method's f_T minimises: L_T."""
        return self.utility_loss(output, batch.actions)

    def levels(self) -> list[str]:
        """Whether some f_B sees frames, whole clips, or both are there; in the same order in every process."""
        return list(dict.fromkeys(opponent.level for opponent in self.opponents))

    def beaten(self, losses: Sequence[float]) -> bool:
        """Whether the watched L_B of every f_B has come up to th_Bmax; from below, since who never read was not beaten."""
        limit = self.config.budget_maximum
        self.challenged |= any(loss < limit for loss in losses)
        return self.challenged and all(loss >= limit for loss in losses)

    # ---- steps ---------------------------------------------------------------------------------------------------

    def anonymizer_step(self, step: int, objective: Objective) -> Terms:
        """Step 1 (eq. 9): f_A against the objective's terms, everybody else frozen and in eval mode.

        With `utility_update = together` f_T, which wants the same as f_A, moves in this step too.
        """
        self.anonymizer.train()
        together = self.config.utility_update == "together"
        still = [*self.opponents, *self.past, *([] if together else [self.utility])]
        if together:
            self.utility.train()
        batch = self.deal.action_batch("minimax", step if together else 2 * step)
        turn = step * (1 + self.config.budget_steps)
        with frozen(still):
            with autocast(self.device):
                output = self.draw(batch.video)
                deal = self.deal.privacy_batch
                views = {level: self.anonymize(deal("minimax", turn, level)) for level in self.levels()}
                terms = objective(batch, output, views)
            moved = ("anonymizer", "utility") if together else ("anonymizer",)
            # Out of autocast, which would also round the gradients of what was computed in full precision on purpose.
            descend(torch.stack(list(terms.values())).sum(), *(self.optimizers[name] for name in moved))
        return {f"f_A {name}": value.detach() for name, value in terms.items()}

    def utility_step(self, phase: str, turn: int, utility_loss: UtilityLoss) -> Terms:
        """Step 2 (eq. 7): f_T by its loss on batch number `turn`; f_A still, in eval mode."""
        self.utility.train()
        batch = self.deal.action_batch(phase, turn)
        with frozen([self.anonymizer]), autocast(self.device):
            with torch.no_grad():
                output = self.anonymizer(batch.video)
            loss = utility_loss(batch, output)
        descend(loss, self.optimizers["utility"])
        return {"L_T": loss.detach()}

    def budget_step(
        self, phase: str, turn: int, opponents: Sequence[Opponent], optimizers: Sequence[torch.optim.Optimizer], *,
        raw: bool = False,
    ) -> Terms:  # fmt: skip
        """Step 2 (eq. 8): each f_B by its own loss on batch number `turn`; f_A still, in eval mode, or left out (raw)."""
        terms: Terms = {}
        seen: dict[str, Views] = {}
        for number, (opponent, optimizer) in enumerate(zip(opponents, optimizers, strict=True)):
            opponent.train()
            with autocast(self.device):
                if opponent.level not in seen:
                    batch = self.deal.privacy_batch(phase, turn, opponent.level)
                    with torch.no_grad(), frozen([self.anonymizer]):
                        seen[opponent.level] = batch.picked() if raw else self.anonymize(batch)
                loss, accuracy = opponent.reading(seen[opponent.level])
            descend(loss, optimizer)
            with autocast(self.device):
                opponent.remember(seen[opponent.level])
            terms |= {f"L_B{number or ''}": loss.detach(), f"f_B{number or ''} reads": accuracy.detach()}
        return terms

    def schedule(self, step: int) -> None:
        """The learning rates of this minimax step."""
        factor = one_cycle(step / self.config.steps) if self.config.schedule == "one-cycle" else 1.0
        set_rate(self.optimizers["anonymizer"], factor * self.config.anonymizer_rate)
        set_rate(self.optimizers["utility"], factor * self.config.utility_rate)

    def restart(self, step: int) -> None:
        """VITA's restarting: one f_B after another begins anew; the one that leaves may stay as a frozen opponent."""
        number = self.restarts % len(self.opponents)
        if self.config.history:
            self.past = [*self.past, self.opponents[number].eval()][-self.config.history :]
        fresh, optimizers = self._fresh(self._lineups(), f"restart {step}", self.config.budget_rate)
        self.opponents[number], self.budget_optimizers[number] = fresh[number], optimizers[number]
        self.restarts += 1

    def audit_step(self, step: int) -> Terms:
        """Each fresh attacker by its own loss, on what the finished f_A gives and on raw clips."""
        if not self.audit.attackers:
            self.audit.begin()
        terms: Terms = {}
        for side, attackers in self.audit.attackers.items():
            found = self.budget_step("audit", step, attackers, self.audit.optimizers[side], raw=side == "raw")
            terms |= {f"{side} {name}": value for name, value in found.items()}
        return terms

    # ---- watching ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def watch(self) -> dict[str, float]:
        """f_A and f_T in eval mode, as they would be deployed, on clips of new people."""
        action, found = self.banks.watch_action, {}
        with frozen([self.anonymizer, self.utility]), autocast(self.device):
            video = action.pixels.float() / 255
            output = torch.cat([self.anonymizer(part) for part in video.split(self.config.batch)])
            logits = torch.cat([self.utility(part).float() for part in output.split(self.config.batch)])
            found["L1"] = l1_reconstruction(video, output)
            found["shown"] = sparsity(output)
            found["L_T"] = action_loss(logits, action.actions)
            found["action"] = named_actions(logits, action.actions)
        return {name: float(value) for name, value in found.items()}

    @torch.no_grad()
    def watch_opponents(self, opponents: Sequence[Opponent], *, raw: bool = False) -> dict[str, float]:
        """L_B and accuracy of each f_B in eval mode on clips it has not seen, through f_A or raw."""
        found: dict[str, float] = {}
        # Every process looks at all clips, so that all decide alike.
        with alone(), frozen([self.anonymizer, *opponents]), autocast(self.device):
            for number, opponent in enumerate(opponents):
                views = self.deal.watched_views(opponent.level, plain=opponent.told)
                loss, accuracy = opponent.watched(views.picked() if raw else self.anonymize(views))
                found |= {f"L_B{number or ''}": float(loss), f"f_B{number or ''} reads": float(accuracy)}
        return found

    def watch_audit(self) -> dict[str, float]:
        """What the fresh attackers read of anonymized and of raw clips."""
        found: dict[str, float] = {}
        for side, attackers in self.audit.attackers.items():
            watched = self.watch_opponents(attackers, raw=side == "raw")
            found |= {f"{side} {name}": value for name, value in watched.items()}
        return found

    def watch_chance(self, opponent: Opponent) -> float:
        """What an f_B that knows nothing would read of the clips it is watched on."""
        return opponent.chance(self.deal.watched_views(opponent.level, plain=opponent.told).answers)

    def strip(self, count: int = 2) -> list[Tensor]:
        """Before and after: uint8 (T, 3, H, W) rows of a few watched clips, each followed by what f_A makes of it."""
        rows = []
        for clip in self.banks.watch_action.pixels[:count]:
            with torch.no_grad(), frozen([self.anonymizer]):
                output = self.anonymizer(clip[None].float() / 255)[0]
            rows += [clip.cpu(), (output.clamp(0, 1) * 255).round().to(torch.uint8).cpu()]
        return rows

    # ---- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed game needs."""
        return {
            "anonymizer": self.anonymizer.state_dict(),
            "utility": self.utility.state_dict(),
            "opponents": [o.state_dict() for o in self.opponents],
            "past": [o.state_dict() for o in self.past],
            "restarts": self.restarts,
            "challenged": self.challenged,
            "optimizers": {name: o.state_dict() for name, o in self.optimizers.items()},
            "budget optimizers": [o.state_dict() for o in self.budget_optimizers],
            "audit": self.audit.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a game where `state_dict` left it."""
        self.anonymizer.load_state_dict(state["anonymizer"])
        self.utility.load_state_dict(state["utility"])
        self.restarts, self.challenged = state["restarts"], state["challenged"]
        lineups = self._lineups()
        # They left in turn, place after place, so that the last one's place tells every other's.
        first = self.restarts - len(state["past"])
        self.past = [self._ready(make_opponent(lineups[(first + i) % len(lineups)])) for i in range(len(state["past"]))]
        for key, modules in (("opponents", self.opponents), ("past", self.past)):
            for module, weights in zip(modules, state[key], strict=True):
                module.load_state_dict(weights)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        for optimizer, kept in zip(self.budget_optimizers, state["budget optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.audit.load_state_dict(state["audit"])
