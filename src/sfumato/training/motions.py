"""Teaches a small video encoder what people do: it names drawn motions, hundreds of them, and its last features are kept.

Every clip is drawn for one step and never again, as for the vision-language model (`training.captions`); what is held out there
it is not shown either.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.recognizers import level_of, make_recognizer
from sfumato.recognizers.base import VideoRecognizer
from sfumato.recognizers.encoders import save_encoder
from sfumato.training.adversarial import setting
from sfumato.training.batches import mix
from sfumato.training.captions import Rehearsal
from sfumato.training.device import autocast, find_fast_kernels, keep_freed_memory, settle
from sfumato.training.optimisation import adam, descend, one_cycle, set_rate
from sfumato.training.phases import Progress, Timing
from sfumato.training.processes import synchronise_norms
from sfumato.training.run import RunFolder
from sfumato.training.teaching import Teaching, teach

WATCHED, EXAMINED = 128, 1024  # clips: while it learns, and at the end
AT_ONCE = 64  # clips, where nothing is learned


@dataclass(frozen=True)
class EncoderConfig:
    """Which network, and how long it learns. 4/3 of the small one's width gives D = 256."""

    recognizer: str = "tiny-video"
    width: float = setting(4 / 3, low=0.05)
    batch: int = setting(128, low=2)
    steps: int = setting(6000, low=1)
    rate: float = setting(3e-3, low=0)
    weight_decay: float = setting(0.02, low=0)

    def __post_init__(self) -> None:
        if level_of(self.recognizer) != "video":
            raise SfumatoError(f"'{self.recognizer}' looks at frames, not at clips", "choose a video recognizer")


class MotionTraining(Teaching[VideoRecognizer]):
    """The network, its optimizer, and what it is watched by."""

    def __init__(self, config: EncoderConfig, data: str, *, seed: int, device: torch.device) -> None:
        if not data.startswith("theatre"):
            raise SfumatoError(f"motions are not drawn for '{data}'", "use a theatre: it sets the size of the clips")
        self.config, self.device = config, device
        stage = TheatreDataset(data.partition(":")[2])
        shape = stage.shape
        self.rehearsal = Rehearsal(stage, config.batch, seed=seed, device=device)
        self.count = len(self.rehearsal.motions)
        torch.manual_seed(mix(seed, "weights"))
        clip = (shape.frames, shape.height, shape.width)
        network = make_recognizer(config.recognizer, self.count, clip=clip, width=config.width)
        assert isinstance(network, VideoRecognizer)
        self.model = settle(synchronise_norms(network), device)
        self.optimizer = adam(self.model, config.rate, config.weight_decay, device)
        self.watched = Rehearsal(stage, WATCHED, seed=mix(seed, "watched"), device=device).draw(0)
        self.examined = Rehearsal(stage, EXAMINED, seed=mix(seed, "examined"), device=device)

    def step(self, number: int) -> dict[str, Tensor]:
        """One batch that nobody has seen before."""
        self.model.train()
        set_rate(self.optimizer, self.config.rate * one_cycle(number / self.config.steps))
        clips, motion = self.rehearsal.draw(number)
        with autocast(self.device):
            logits = self.model(clips.float() / 255)
        loss = F.cross_entropy(logits.float(), motion.to(self.device))
        descend(loss, self.optimizer)
        return {"L_motion": loss.detach()}

    def watch(self) -> dict[str, float]:
        """How many of a few new clips it names right, among all motions."""
        return {"motions": self._share(*self.watched)}

    def examine(self) -> dict[str, Any]:
        """The same on many clips that nothing was chosen by."""
        return {
            "top1": self._share(*self.examined.draw(0)),
            "chance": 1 / self.count,
            "clips": EXAMINED,
            "motions": self.count,
        }

    @torch.no_grad()
    def _share(self, clips: Tensor, motion: Tensor) -> float:
        self.model.eval()
        with autocast(self.device):
            found = torch.cat([self.model(some.float() / 255).argmax(1).cpu() for some in clips.split(AT_ONCE)])
        return float((found == motion).float().mean())

    def strip(self) -> list[Tensor]:
        """A few of the clips it is watched by."""
        return list(self.watched[0][:4])


def encoder_folder(run: RunFolder) -> Path:
    """Where the trained encoder lies, for `load_encoder`.

    >>> encoder_folder(RunFolder(Path("runs/encoder")))
    PosixPath('runs/encoder/encoder')
    """
    return run.path / "encoder"


def train_encoder(
    config: EncoderConfig, data: str, run: RunFolder, *, seed: int, device: torch.device,
    progress: Progress | None = None, timing: Timing | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train to the end, save the encoder in the run folder, and say how many motions it tells apart."""
    if run.result.exists():  # its checkpoint is gone: to go on would be to begin anew, over what is there
        return run.read_result()
    keep_freed_memory()
    find_fast_kernels()
    training = MotionTraining(config, data, seed=seed, device=device)
    made_with = {"width": config.width}
    return teach(
        training, "motions", config.steps, run,
        lambda model: save_encoder(model, config.recognizer, made_with, encoder_folder(run)), seed=seed, device=device,
        progress=progress, timing=timing,
    )  # fmt: skip
