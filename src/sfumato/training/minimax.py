"""The minimax game that SPAct, VITA, TeD-SPAD and the penalty-driven anonymizer share.

Step 1 moves f_A by what the method's objective asks, f_T and the f_B held still and in eval mode. Step 2 moves f_T and
every f_B to do their own task on what f_A, held still and in eval mode as it will be deployed, now gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.anonymizers.unet import UNet
from sfumato.anonymizers.unet_plus_plus import UNetPlusPlus
from sfumato.errors import SfumatoError
from sfumato.objectives.rate import sparsity
from sfumato.objectives.reconstruction import l1_reconstruction
from sfumato.recognizers import make_recognizer
from sfumato.training.adversarial import AdversarialConfig
from sfumato.training.batches import mix
from sfumato.training.dealing import ActionBatch, Banks, Dealer
from sfumato.training.device import autocast, settle
from sfumato.training.opponents import Lineup, Opponent, Views, make_opponent
from sfumato.training.optimisation import descend, frozen, one_cycle, set_rate
from sfumato.training.processes import alone, mean_over_crew, same_everywhere, synchronise_norms

Terms = dict[str, Tensor]


# What f_A minimises, by name, given the batch, f_A's output on it, and the f_B's views by level; their sum is descended.
Objective = Callable[[ActionBatch, Tensor, Mapping[str, Views]], Terms]
# What f_T minimises, given the batch and f_A's output on it.
UtilityLoss = Callable[[ActionBatch, Tensor], Tensor]


class Game:
    """f_A, f_T and the f_B with their optimizers, batches and steps. All randomness comes from `seed` and the step."""

    def __init__(self, config: AdversarialConfig, banks: Banks, *, seed: int, device: torch.device) -> None:
        self.config, self.banks, self.seed, self.device = config, banks, seed, device
        if banks.action_count < 2:
            raise SfumatoError(f"{banks.action.name} has fewer than two actions", "give videos of two actions or more")
        self.deal = Dealer(config, banks, seed=seed, device=device)
        frames, _, height, width = banks.action.pixels.shape[1:]
        torch.manual_seed(mix(seed, "first weights"))
        self.anonymizer = self._ready(make_anonymizer(config, height))
        self.utility = self._ready(
            make_recognizer(
                config.utility, banks.action_count, clip=(frames, height, width), width=config.utility_width
            )
        )
        self.opponents = [self._ready(make_opponent(lineup)) for lineup in self._lineups()]
        self.past: list[Opponent] = []
        self.restarts = 0
        self.auditors: list[Opponent] = []  # fresh f_B that meet the finished f_A
        self.audit_optimizers: list[torch.optim.Optimizer] = []
        self.optimizers = {
            "anonymizer": self._adam(self.anonymizer, config.anonymizer_rate),
            "utility": self._adam(self.utility, config.utility_rate),
        }
        self.budget_optimizers = [self._adam(opponent, config.budget_rate) for opponent in self.opponents]

    # ---- players -------------------------------------------------------------------------------------------------

    def _lineups(self) -> list[Lineup]:
        config, bank = self.config, self.banks.privacy
        if config.budget_update == "none":
            return []
        if config.budget == "labels" and not bank.heads:
            raise SfumatoError(f"{bank.name} has no privacy labels", "choose a self-supervised budget, or other data")
        clip = (bank.pixels.shape[1], *bank.pixels.shape[3:])
        common = (config.budget_norm, clip, bank.heads, config.temperature, config.confusion, config.budget_width)
        # MoCo's queue holds a quarter of the videos at most: beyond that a video would meet itself as a negative.
        keys = min(1024, max(1, len(bank) // 4))
        return [Lineup(config.budget, network, *common, keys) for network in config.networks()]

    def _ready(self, module: Any) -> Any:
        """On the device, and among several processes with the same weights and common statistics."""
        module = settle(synchronise_norms(module), self.device)
        same_everywhere(module)
        return module

    def _adam(self, module: nn.Module, rate: float) -> torch.optim.Optimizer:
        learned = [p for p in module.parameters() if p.requires_grad]
        return torch.optim.AdamW(
            learned, lr=rate, weight_decay=self.config.weight_decay, fused=self.device.type == "cuda"
        )

    def fresh_opponents(self, salt: str) -> tuple[list[Opponent], list[torch.optim.Optimizer]]:
        """New f_B of the same make, weights at random, with their optimizers."""
        torch.manual_seed(mix(self.seed, salt))
        fresh = [self._ready(make_opponent(lineup)) for lineup in self._lineups()]
        return fresh, [self._adam(opponent, self.config.budget_rate) for opponent in fresh]

    # ---- losses --------------------------------------------------------------------------------------------------

    def anonymize(self, views: Views) -> Views:
        """Both views through f_A."""
        return Views(self.anonymizer(views.first), self.anonymizer(views.second), views.answers)

    def utility_loss(self, output: Tensor, actions: Tensor) -> Tensor:
        """L_T: cross-entropy of f_T on anonymized clips."""
        return F.cross_entropy(self.utility(output).float(), actions)

    def shown(self, output: Tensor, action_loss: Tensor) -> Tensor:
        """μ times the share of the picture that is shown, at full price only while f_T reads.

        The price falls to nothing as L_T rises to half the loss of guessing: otherwise black is the quickest way out
        before f_T has learnt anything, and from black there is no way back.
        """
        loss = mean_over_crew({"L_T": action_loss})["L_T"]
        price = (1 - loss / (0.5 * math.log(self.banks.action_count))).clamp(min=0)
        return price * self.config.sparsity_weight * sparsity(output)

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

    def levels(self) -> list[str]:
        """Whether some f_B sees frames, whole clips, or both are there; in the same order in every process."""
        return list(dict.fromkeys(opponent.level for opponent in self.opponents))

    # ---- steps ---------------------------------------------------------------------------------------------------

    def reconstruction_step(self, step: int) -> Terms:
        """f_A towards identity (eq. 4 and 6)."""
        self.anonymizer.train()
        set_rate(self.optimizers["anonymizer"], self.config.reconstruction_rate)
        batch = self.deal.action_batch("reconstruct", step)
        with autocast(self.device):
            loss = l1_reconstruction(batch.video, self.anonymizer(batch.video))
        descend(loss, self.optimizers["anonymizer"])
        return {"L1": loss.detach()}

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
        with frozen(still), autocast(self.device):
            output = self.anonymizer(batch.video)
            views = {level: self.anonymize(self.deal.privacy_batch("minimax", turn, level)) for level in self.levels()}
            terms = objective(batch, output, views)
            moved = ("anonymizer", "utility") if together else ("anonymizer",)
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
        self, phase: str, turn: int, opponents: Sequence[Opponent], optimizers: Sequence[torch.optim.Optimizer]
    ) -> Terms:
        """Step 2 (eq. 8): each f_B by its own loss on batch number `turn`; f_A still, in eval mode."""
        terms: Terms = {}
        seen: dict[str, Views] = {}
        for number, (opponent, optimizer) in enumerate(zip(opponents, optimizers, strict=True)):
            opponent.train()
            with autocast(self.device):
                if opponent.level not in seen:
                    with torch.no_grad(), frozen([self.anonymizer]):
                        seen[opponent.level] = self.anonymize(self.deal.privacy_batch(phase, turn, opponent.level))
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
        fresh, optimizers = self.fresh_opponents(f"restart {step}")
        self.opponents[number], self.budget_optimizers[number] = fresh[number], optimizers[number]
        self.restarts += 1

    def audit_step(self, step: int) -> Terms:
        """Fresh f_B of the same make against the finished f_A: what the f_B it was trained against did not find."""
        if not self.auditors:
            self.auditors, self.audit_optimizers = self.fresh_opponents("audit")
        return self.budget_step("audit", step, self.auditors, self.audit_optimizers)

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
            found["L_T"] = F.cross_entropy(logits, action.actions)
            found["action"] = (logits.argmax(1) == action.actions).float().mean()
        return {name: float(value) for name, value in found.items()}

    @torch.no_grad()
    def watch_reconstruction(self) -> dict[str, float]:
        """How near f_A is to identity on clips of new people; f_T has seen nothing yet and is left alone."""
        with frozen([self.anonymizer]), autocast(self.device):
            parts = (self.banks.watch_action.pixels.float() / 255).split(self.config.batch)
            return {"L1": float(torch.stack([l1_reconstruction(part, self.anonymizer(part)) for part in parts]).mean())}

    @torch.no_grad()
    def watch_opponents(self, opponents: Sequence[Opponent]) -> dict[str, float]:
        """L_B and accuracy of each f_B in eval mode on clips it has not seen."""
        found: dict[str, float] = {}
        # Every process looks at all clips, so that all decide alike.
        with alone(), frozen([self.anonymizer, *opponents]), autocast(self.device):
            for number, opponent in enumerate(opponents):
                loss, accuracy = opponent.reading(self.anonymize(self.deal.watched_views(opponent.level)))
                found |= {f"L_B{number or ''}": float(loss), f"f_B{number or ''} reads": float(accuracy)}
        return found

    def watch_chance(self, opponent: Opponent) -> float:
        """What an f_B that knows nothing would read of the clips it is watched on."""
        return opponent.chance(self.banks.watch_privacy.answers)

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
            "optimizers": {name: o.state_dict() for name, o in self.optimizers.items()},
            "budget optimizers": [o.state_dict() for o in self.budget_optimizers],
            "auditors": [o.state_dict() for o in self.auditors],
            "audit optimizers": [o.state_dict() for o in self.audit_optimizers],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a game where `state_dict` left it."""
        self.anonymizer.load_state_dict(state["anonymizer"])
        self.utility.load_state_dict(state["utility"])
        self.restarts = state["restarts"]
        lineups = self._lineups()
        # They left in turn, place after place, so that the last one's place tells every other's.
        first = self.restarts - len(state["past"])
        self.past = [self._ready(make_opponent(lineups[(first + i) % len(lineups)])) for i in range(len(state["past"]))]
        if state["auditors"]:
            self.auditors, self.audit_optimizers = self.fresh_opponents("audit")
        for key, modules in (("opponents", self.opponents), ("past", self.past), ("auditors", self.auditors)):
            for module, weights in zip(modules, state[key], strict=True):
                module.load_state_dict(weights)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        for key, optimizers in (
            ("budget optimizers", self.budget_optimizers),
            ("audit optimizers", self.audit_optimizers),
        ):
            for optimizer, kept in zip(optimizers, state[key], strict=True):
                optimizer.load_state_dict(kept)


def make_anonymizer(config: AdversarialConfig, size: int) -> UNet | UNetPlusPlus:
    """f_A as the config asks for, weights at random."""
    bounds: dict[str, Any] = {"levels": config.levels, "cell": config.cell, "grey": config.grey, "size": size}
    if config.anonymizer == "unet":
        return UNet(width=config.width, norm=config.anonymizer_norm, **bounds)
    return UNetPlusPlus(width=config.width / 64, norm=config.anonymizer_norm, **bounds)
