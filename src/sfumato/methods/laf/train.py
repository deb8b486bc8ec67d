"""LaF-Privacy's algorithm: f_A learns to repaint, then to look different and mean the same (3.4.4), in three phases.

No label is read. What a clip means is what a frozen vision-language model makes of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, optim
from torch.nn import functional as F

from sfumato.anonymizers.masked_transformer import MaskedTransformer, Rendered
from sfumato.errors import SfumatoError
from sfumato.methods.laf.config import LaFConfig, Part
from sfumato.methods.laf.teacher import load_teacher, require_fit
from sfumato.objectives.reconstruction import l1_reconstruction
from sfumato.objectives.sparsification import sparsification_loss
from sfumato.objectives.visual import embedding_loss, mask_loss, visual_loss
from sfumato.recognizers.vlm import VideoEmbeddings, VideoLanguageModel
from sfumato.recognizers.weights import checksum
from sfumato.training.augment import DRAWS, nudge
from sfumato.training.bank import frame_step
from sfumato.training.batches import Rounds, mix
from sfumato.training.contest import Stage, leave
from sfumato.training.dealing import Banks
from sfumato.training.device import autocast, find_fast_kernels, keep_freed_memory, seeded
from sfumato.training.minimax import Terms
from sfumato.training.optimisation import adam, count_moved, descend, frozen, one_cycle, set_rate
from sfumato.training.phases import Phase, Player
from sfumato.training.processes import current, same_everywhere

MOMENTUM = 0.9  # of SGD; the paper gives none, and without any nothing moves at its rates


class LabelFree:
    """f_A, its optimizer and its batches before a frozen model. All randomness comes from `seed` and the step."""

    def __init__(
        self, config: LaFConfig, vlm: VideoLanguageModel, banks: Banks, *, seed: int, device: torch.device
    ) -> None:
        self.config, self.banks, self.seed, self.device, self.crew = config, banks, seed, device, current()
        self.vlm = vlm.freeze().to(device)
        require_fit(self.vlm, banks.action, device)
        torch.manual_seed(mix(seed, "first weights"))
        self.anonymizer = self._make_anonymizer().to(device)
        same_everywhere(self.anonymizer)
        self.optimizer = self._make_optimizer()
        self.rounds = Rounds(len(banks.action), config.batch * self.crew.size, seed=mix(seed, "action"))
        self.masking = config.masked  # as of the last step: pictures and figures are then of f_A as it is trained

    def _make_anonymizer(self) -> MaskedTransformer:
        """f_A as the config asks for, weights at random."""
        c, bank = self.config, self.banks.action
        frames, _, height, width = bank.pixels.shape[1:]
        if height != width:
            raise SfumatoError(
                f"f_A takes square frames, and those of {bank.name} are {height}×{width}", "give clips with square frames"
            )  # fmt: skip
        return MaskedTransformer(
            embedding=c.embedding, depth=c.depth, patch=c.patch, frames=frames, size=height,
            frame_step=frame_step(bank.times), masked=c.masked, ratio=c.keep_ratio, training_mask=c.training_mask,
            temperature=c.temperature,
        )  # fmt: skip

    def _make_optimizer(self) -> optim.Optimizer:
        c = self.config
        if c.optimizer == "adamw":
            return adam(self.anonymizer, c.phase1_rate, c.weight_decay, self.device)
        return optim.SGD(self.anonymizer.parameters(), lr=c.phase1_rate, momentum=MOMENTUM, weight_decay=c.weight_decay)

    def phases(self) -> list[Phase]:
        """Reconstruction, then the phases that the config asks for."""
        steps = self.config.reconstruction_steps
        begin = Phase("reconstruct", steps, self.reconstruction_step, self.watch_reconstruction)
        parts = [Phase(part.name, part.steps, partial(self.step, part), self.watch) for part in self.config.parts()]
        return [begin, *parts]

    # ---- steps ---------------------------------------------------------------------------------------------------

    def deal(self, phase: str, step: int) -> Tensor:
        """Clips (B, T, 3, H, W) in [0, 1], gently augmented, and nothing else about them."""
        bank, everybody = self.banks.action, self.rounds.rows(step)
        draw = seeded(mix(self.seed, phase, "action", step), self.device)
        chance = torch.rand(len(everybody), DRAWS, generator=draw, device=self.device)
        rows = self.crew.share(everybody).to(self.device, non_blocking=True)
        return nudge(bank.take(rows), self.crew.share(chance), flip=bank.mirror_safe)

    def reconstruction_step(self, step: int) -> Terms:
        """f_A towards identity, all patches shown."""
        self._begin(masking=False, rate=self.config.reconstruction_rate, share=step / self.config.reconstruction_steps)
        video = self.deal("reconstruct", step)
        with autocast(self.device):
            loss = l1_reconstruction(video, self.anonymizer.render(video, masked=False).output)
        descend(loss, self.optimizer)
        return {"L1": loss.detach()}

    def step(self, part: Part, step: int) -> Terms:
        """f_A down the sum of the phase's terms."""
        self._begin(masking=part.masking, rate=part.rate, share=step / part.steps)
        video = self.deal(part.name, step)
        with autocast(self.device):
            terms = self.terms(part, video, self.anonymizer.render(video, masked=part.masking))
        descend(torch.stack(list(terms.values())).sum(), self.optimizer)
        return {f"f_A {name}": value.detach() for name, value in terms.items()}

    def _begin(self, *, masking: bool, rate: float, share: float) -> None:
        """Ready f_A for a step when `share` of its phase is done."""
        self.masking = masking
        self.anonymizer.train()
        set_rate(self.optimizer, rate * (one_cycle(share) if self.config.schedule == "one-cycle" else 1.0))

    # ---- losses --------------------------------------------------------------------------------------------------

    def terms(self, part: Part, video: Tensor, found: Rendered) -> Terms:
        """λ_action·L_action − λ_vis·L_visual + λ_mask·L_mask, of which phase 1 has no mask and phase 2 no L_visual."""
        c = self.config
        terms = {"action": c.action_weight * self.action_loss(*self.embed(video, found.output))}
        if part.visual_weight:
            terms["visual"] = -part.visual_weight * self.visual_difference(video, found, masking=part.masking)
        if part.masking:
            terms["mask"] = c.mask_weight * self.shown(found.mask)
        return terms

    def embed(self, video: Tensor, output: Tensor) -> tuple[VideoEmbeddings, VideoEmbeddings]:
        """What the frozen model makes of X, which is the goal and gets no gradient, and of X'."""
        with torch.no_grad():
            goal = self.vlm.embed_video(video)
        return goal, self.vlm.embed_video(output)

    def action_loss(self, goal: VideoEmbeddings, found: VideoEmbeddings) -> Tensor:
        """L_action over the levels that the config names."""
        return embedding_loss(goal._asdict(), found._asdict(), self.config.levels())

    def visual_difference(self, video: Tensor, found: Rendered, *, masking: bool) -> Tensor:
        """L_visual, with M binary: what would be shown in use."""
        c = self.config
        kept = self.anonymizer.hard_mask(found.scores) if masking else found.mask
        mask = self.anonymizer.spread(kept)
        return visual_loss(video, found.output, mask, c.visual, pixel_weight=c.pixel_weight, ssim_weight=c.ssim_weight)

    def shown(self, mask: Tensor) -> Tensor:
        """L_mask: how much is shown, or how far that is from a fixed ratio (appendix B.4)."""
        ratio = self.config.keep_ratio
        return sparsification_loss([mask], ratio) if ratio else mask_loss(mask)

    # ---- watching ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def watch_reconstruction(self) -> dict[str, float]:
        """How near f_A is to identity on clips of new people."""
        return self._over_watched(lambda video, found: {"L1": l1_reconstruction(video, found.output)})

    @torch.no_grad()
    def watch(self) -> dict[str, float]:
        """f_A in eval mode on clips of new people: how different they look, how alike the model finds them, what is kept."""
        return self._over_watched(self._figures)

    def _figures(self, video: Tensor, found: Rendered) -> Terms:
        goal, reached = self.embed(video, found.output)
        return {
            "L1": l1_reconstruction(video, found.output),
            "L_visual": self.visual_difference(video, found, masking=self.masking),
            "L_action": self.action_loss(goal, reached),
            "alignment": F.cosine_similarity(goal.video.float(), reached.video.float()).mean(),  # 1: means the same
            "kept": found.mask.mean(),  # the share of patches that are shown
        }

    def _over_watched(self, figures: Callable[[Tensor, Rendered], Terms]) -> dict[str, float]:
        """The mean of figures over all watched clips, f_A in eval mode, masking as in the last step."""
        clips, totals = self.banks.watch_action.pixels, defaultdict[str, float](float)
        with frozen([self.anonymizer]), autocast(self.device):
            for pixels in clips.split(self.config.batch):
                video = pixels.float() / 255
                for name, value in figures(video, self.anonymizer.render(video, masked=self.masking)).items():
                    totals[name] += float(value) * len(pixels) / len(clips)
        return dict(totals)

    @torch.no_grad()
    def strip(self, count: int = 2) -> list[Tensor]:
        """Before, what is kept, and after: uint8 (T, 3, H, W) rows of a few watched clips."""
        rows: list[Tensor] = []
        with frozen([self.anonymizer]):
            for clip in self.banks.watch_action.pixels[:count]:
                video = clip[None].float() / 255
                found = self.anonymizer.render(video, masked=self.masking)
                kept = video * self.anonymizer.spread(found.mask)
                rows += [(row[0] * 255).round().to(torch.uint8).cpu() for row in (video, kept, found.output)]
        return rows

    # ---- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs; the frozen model is where it was."""
        return {"anonymizer": self.anonymizer.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a training where `state_dict` left it."""
        self.anonymizer.load_state_dict(state["anonymizer"])
        self.optimizer.load_state_dict(state["optimizer"])


def train(config: LaFConfig, stage: Stage) -> dict[str, Any]:
    """Reconstruct, then play the phases; there is no adversary, and no audit."""
    if stage.run.result.exists():
        return stage.run.read_result()
    if stage.banks.privacy is not stage.banks.action:
        raise SfumatoError("laf learns without labels, and from one data set", "leave --privacy-data out")
    learner = LabelFree(config, load_teacher(config.vlm), stage.banks, seed=stage.seed, device=stage.device)
    if current().main:  # another model under the same name would be another teacher half-way
        stage.run.pin("weights of the vision-language model", checksum(learner.vlm))
    keep_freed_memory()
    find_fast_kernels()
    Player(
        learner.phases(), learner, stage.run, stage.device, stage.seed, timing=stage.timing, progress=stage.progress
    ).play()
    # Which actions are right nobody here knows: their score is the judge's to find.
    watched = {**learner.watch(), "action": None}
    result: dict[str, Any] = {
        "watched": watched, "audit": [], "reconstruction": _reconstructed(stage),
        "trained_parameters": count_moved(learner.optimizer),
    }  # fmt: skip
    leave(learner.anonymizer, result, stage)
    return result


def _reconstructed(stage: Stage) -> float | None:
    """L1 per pixel at the end of the pretraining, on the watched clips; None where there was none."""
    watched = [line for line in stage.run.records() if line["kind"] == "watch" and line["phase"] == "reconstruct"]
    return watched[-1]["L1"] if watched else None
