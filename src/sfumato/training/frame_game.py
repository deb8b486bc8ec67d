"""The game where f_A is a network on each frame, as in SPAct, VITA, TeD-SPAD and the penalty-driven anonymizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sfumato.anonymizers.unet import UNet
from sfumato.anonymizers.unet_plus_plus import UNetPlusPlus
from sfumato.objectives.rate import sparsity
from sfumato.objectives.reconstruction import l1_reconstruction
from sfumato.training.adversarial import AdversarialConfig
from sfumato.training.bank import frame_step
from sfumato.training.dealing import ActionBatch, Banks
from sfumato.training.device import autocast
from sfumato.training.minimax import Game, Terms
from sfumato.training.opponents import Views
from sfumato.training.optimisation import descend, frozen, set_rate
from sfumato.training.phases import Phase
from sfumato.training.processes import mean_over_crew

# How drawings come to the middle: in a third of the minimax steps if f_T reads without loss, slower as it reads worse; from
# half of the steps on without waiting, so that the last fifth shows what f_A will show in use.
PACE, IMPATIENT, THERE = 3.0, 0.5, 0.8


class FrameGame(Game):
    """f_A begins as the identity; what it then draws may have a price."""

    config: AdversarialConfig
    anonymizer: UNet | UNetPlusPlus

    def __init__(self, config: AdversarialConfig, banks: Banks, *, seed: int, device: torch.device) -> None:
        super().__init__(config, banks, seed=seed, device=device)
        self._bring(0.0)

    def make_anonymizer(self, size: int) -> UNet | UNetPlusPlus:
        """f_A as the config asks for."""
        times = self.banks.action.times
        return make_frame_network(self.config, size, times.shape[1], frame_step(times))

    def schedule(self, step: int) -> None:
        """The rates of this minimax step, and how far drawings are brought to the middle in it."""
        super().schedule(step)
        hurry = (step / self.config.steps - IMPATIENT) / (THERE - IMPATIENT)
        self._bring(min(1.0, max(self.brought, hurry)))

    def _bring(self, share: float) -> None:
        """Let drawings go that share of the way to where they are in use: with all of it at once f_T never learns to read."""
        self.brought, self.anonymizer.centred = share, share * self.config.centred

    def adversarial_terms(self, batch: ActionBatch, output: Tensor, views: Mapping[str, Views]) -> Terms:
        """What every method's f_A minimises: L_T, −ω·L_B, and the price of what is shown."""
        action = self.utility_loss(output, batch.actions)
        return {
            "action": action,
            "budget": -self.config.budget_weight * self.budget_confusion(views),
            "shown": self.shown(output, action),
        }

    def shown(self, output: Tensor, action_loss: Tensor) -> Tensor:
        """μ times what is shown of a clip beyond the share that is free, at full price only while f_T reads.

        The price falls to nothing as L_T rises to half the loss of guessing: otherwise black is the quickest way out
        before f_T has learnt anything, and from black there is no way back. Drawings come to the middle at the same pace.
        """
        loss = mean_over_crew({"L_T": action_loss})["L_T"]
        price = (1 - loss / (0.5 * self.guessing)).clamp(min=0)
        if self.config.centred:
            self.brought += float(price) * PACE / self.config.steps
        return price * self.config.sparsity_weight * sparsity(output, self.config.free_share)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed game needs."""
        return super().state_dict() | {"brought": self.brought, "centred": self.anonymizer.centred}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a game where `state_dict` left it."""
        super().load_state_dict(state)
        # How far the next step may bring drawings is not how far they are: after the last step nothing moves any more.
        self.brought, self.anonymizer.centred = state["brought"], state["centred"]

    def reconstruction_step(self, step: int) -> Terms:
        """f_A towards identity (eq. 4 and 6)."""
        self.anonymizer.train()
        set_rate(self.optimizers["anonymizer"], self.config.reconstruction_rate)
        batch = self.deal.action_batch("reconstruct", step)
        with autocast(self.device):
            loss = l1_reconstruction(batch.video, self.anonymizer(batch.video))
        descend(loss, self.optimizers["anonymizer"])
        return {"L1": loss.detach()}

    @torch.no_grad()
    def watch_reconstruction(self) -> dict[str, float]:
        """How near f_A is to identity on clips of new people; f_T has seen nothing yet and is left alone."""
        with frozen([self.anonymizer]), autocast(self.device):
            parts = (self.banks.watch_action.pixels.float() / 255).split(self.config.batch)
            return {"L1": float(torch.stack([l1_reconstruction(part, self.anonymizer(part)) for part in parts]).mean())}

    def initialisation(self) -> Phase:
        """f_A to identity, until th_A0 (eq. 6)."""
        c = self.config
        return Phase(
            "reconstruct", c.reconstruction_steps, self.reconstruction_step, self.watch_reconstruction,
            lambda seen: seen["L1"] <= c.reconstruction_threshold,
        )  # fmt: skip


def make_frame_network(config: AdversarialConfig, size: int, frames: int, step: int) -> UNet | UNetPlusPlus:
    """f_A as the config asks for, weights at random, for clips of so many frames, `step` of the video apart."""
    bounds: dict[str, Any] = {
        "levels": config.levels, "cell": config.cell, "grey": config.grey, "size": size, "frames": frames,
        "frame_step": step, "centred": config.centred,
    }  # fmt: skip
    if config.anonymizer == "unet":
        return UNet(width=config.width, norm=config.anonymizer_norm, **bounds)
    return UNetPlusPlus(width=config.width / 64, norm=config.anonymizer_norm, **bounds)
