"""STPrivacy's algorithm: f_A learns to name the action from few tubelets (eq. 12), then plays against f_T and f_B (eq. 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.anonymizers.tubelets import Tubelets
from sfumato.methods.stprivacy.config import STPrivacyConfig
from sfumato.objectives.labels import action_loss, named_actions
from sfumato.objectives.sparsification import sparsification_loss
from sfumato.training.bank import frame_step
from sfumato.training.contest import Stage, contest
from sfumato.training.dealing import ActionBatch, Banks
from sfumato.training.device import autocast
from sfumato.training.minimax import Game, Terms
from sfumato.training.opponents import Views
from sfumato.training.optimisation import descend, frozen, one_cycle, set_rate
from sfumato.training.phases import Phase


class TubeletGame(Game):
    """The minimax game with f_A over tubelets, and the head by which f_A names actions itself before it meets anybody."""

    config: STPrivacyConfig
    anonymizer: Tubelets

    def __init__(self, config: STPrivacyConfig, banks: Banks, *, seed: int, device: torch.device) -> None:
        super().__init__(config, banks, seed=seed, device=device)
        self.decisions: Sequence[Tensor] = ()  # Î_(1) … Î_(M) of the last action batch that f_A drew
        self.head = self._ready(nn.Linear(config.embedding, banks.action_count))
        self.optimizers["head"] = self._adam(self.head, config.initialisation_rate)

    def make_anonymizer(self, size: int) -> Tubelets:
        """f_A as the config asks for."""
        c = self.config
        return Tubelets(
            embedding=c.embedding, duration=c.duration, patch=c.patch, stem=c.stem, size=size,
            frames=self.banks.action.pixels.shape[1], frame_step=frame_step(self.banks.action.times),
            alpha=self.keep_ratio, two_pass=c.two_pass, anonymize=c.mechanism != "sparsification",
            sparsify=c.mechanism != "anonymization",
        )  # fmt: skip

    @property
    def keep_ratio(self) -> float:
        """α; where nothing is dropped, 1."""
        return 1.0 if self.config.mechanism == "anonymization" else self.config.keep_ratio

    # ---- initialisation, eq. 12 ----------------------------------------------------------------------------------

    def initialisation(self) -> Phase:
        """f_A names the action from the tubelets it keeps."""
        steps = self.config.initialisation_steps
        return Phase("initialise", steps, self.initialisation_step, self.watch_initialisation)

    def initialisation_step(self, step: int) -> Terms:
        """L_Spars + L'_Action."""
        self.anonymizer.train()
        factor = one_cycle(step / self.config.initialisation_steps) if self.config.schedule == "one-cycle" else 1.0
        moved = [self.optimizers[name] for name in ("anonymizer", "head")]
        for optimizer in moved:
            set_rate(optimizer, factor * self.config.initialisation_rate)
        batch = self.deal.action_batch("initialise", step)
        with autocast(self.device):
            found = self.anonymizer.sparsify(batch.video)
            terms = {
                "spars": sparsification_loss(found.decisions, self.keep_ratio),
                "action": action_loss(self.head(found.pooled()), batch.actions),
            }
        descend(terms["spars"] + terms["action"], *moved)
        return {f"f_A {name}": value.detach() for name, value in terms.items()}

    @torch.no_grad()
    def watch_initialisation(self) -> dict[str, float]:
        """What f_A itself reads from the tubelets it would keep, on clips of new people."""
        bank, logits = self.banks.watch_action, []
        with frozen([self.anonymizer, self.head]), autocast(self.device):
            for pixels in bank.pixels.split(self.config.batch):
                video = pixels.float() / 255
                found = self.anonymizer.sparsify(video, held=self.anonymizer.decide(video))
                logits.append(self.head(found.pooled()).float())
        read = torch.cat(logits)
        return {
            "L'_Action": float(action_loss(read, bank.actions)), "action": float(named_actions(read, bank.actions)),
        }  # fmt: skip

    # ---- adversarial learning, eq. 13 ----------------------------------------------------------------------------

    def draw(self, video: Tensor) -> Tensor:
        """f_A's pictures, and which tubelets it kept."""
        found = self.anonymizer.sparsify(video)
        self.decisions = found.decisions
        return self.anonymizer.render(video, found)

    def tubelet_terms(self, batch: ActionBatch, output: Tensor, views: Mapping[str, Views]) -> Terms:
        """L_Spars + λ_Action·L_Action − λ_Privacy·L_Privacy."""
        return {
            "spars": sparsification_loss(self.decisions, self.keep_ratio),
            "action": self.config.action_weight * self.utility_loss(output, batch.actions),
            "budget": -self.config.budget_weight * self.budget_confusion(views),
        }

    # ---- pictures and state --------------------------------------------------------------------------------------

    def strip(self, count: int = 2) -> list[Tensor]:
        """Before, what is kept, and after: uint8 (T, 3, H, W) rows of a few watched clips."""
        rows, pairs = [], super().strip(count)
        for before, after in zip(pairs[::2], pairs[1::2], strict=True):
            with torch.no_grad(), frozen([self.anonymizer]):
                kept = self.anonymizer.keep(before[None].to(self.device).float() / 255)[0]
            rows += [before, (kept * 255).round().to(torch.uint8).cpu(), after]
        return rows

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed game needs."""
        return super().state_dict() | {"head": self.head.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a game where `state_dict` left it."""
        super().load_state_dict(state)
        self.head.load_state_dict(state["head"])


def train(config: STPrivacyConfig, stage: Stage) -> dict[str, Any]:
    """Initialise, play, audit."""
    game = TubeletGame(config, stage.banks, seed=stage.seed, device=stage.device)
    return contest(game, game.tubelet_terms, game.action_loss, stage)
