"""`noisy-features`: a few noisy frequencies of every block, the training-free reading of "Collective protection".

Zhang et al. (ICDM 2019) add noise to features before they are passed on; the papers on video quote it as "Noisy
Features" (SPAct) and "Collective" (STPrivacy). Here the features are low frequencies of the picture itself.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfumato.anonymizers.base import Anonymizer, Knob, enlargement
from sfumato.errors import SfumatoError

BLOCK = 8  # pixels per side, at up to 112 px
NOISE = Knob(
    "noise", 0.5, low=0.0, high=4.0, summary="noise on each kept coefficient of a block, where white is a constant of 8"
)

LEAST_NOISE = 0.05  # on a coefficient: below it a pixel is off by less than a twentieth of the way from black to white


class NoisyFeatures(Anonymizer):
    """Keeps the `kept`×`kept` lowest frequencies of each 8×8 block's DCT, adds Gaussian noise and brings the block back.

    noise: the standard deviation on a coefficient of the orthonormal 8×8 DCT, whose constant term is 8 times the
    block's mean: at 0.5 the mean is off by 0.5/8 = 0.06 and a pixel by noise·kept/8 = 0.25 (before clamping). In frames
    larger than 112 px the block grows with the frame, and the noise with the block, so that both figures stay.

    The noise is drawn from the SHA-256 of the frame's own 8-bit content: the same frame gives the same noise on any
    device and beside any other, and there is no fixed pattern to be learnt and subtracted. The digest is long because
    a short seed could be found by trying all. What this does not give: whoever can run the anonymizer can check a guess
    of the exact frame, and over many frames of a still scene independent noise averages out.

    >>> NoisyFeatures(kept=4, noise=0.5)(video)
    """

    name = "noisy-features"
    summary = "a few low frequencies of every block, with noise"
    knobs = (NOISE,)

    def __init__(self, kept: int = 4, noise: float = NOISE.default) -> None:
        super().__init__()
        if not 1 <= kept <= BLOCK:
            raise SfumatoError(f"kept = {kept} is out of range", f"use 1 to {BLOCK} frequencies per direction")
        self.kept, self.noise = kept, NOISE.check(noise)

    @property
    def changes_nothing(self) -> bool:
        # With 7 of 8 frequencies all details are there.
        return self.kept >= BLOCK - 1 and self.noise < LEAST_NOISE

    def settings(self) -> dict[str, float | int | str | bool]:
        """The constructor's arguments."""
        return {"kept": self.kept, "noise": self.noise}

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, C, H, W) to the same shape."""
        height, width = video.shape[-2:]
        block = round(BLOCK * enlargement(video))
        waves = cosine_waves(block, self.kept).to(video.device)
        frames = video.flatten(0, 1).float()
        filled = functional.pad(frames, (0, -width % block, 0, -height % block), mode="replicate")
        # (N, C, rows, block, columns, block) to (N, C, rows, columns, block, block)
        blocks = filled.unflatten(-1, (-1, block)).unflatten(-3, (-1, block)).transpose(-2, -3)
        features = waves @ blocks @ waves.T
        features = features + self.noise * block / BLOCK * _noise_of(frames, features.shape[1:])
        blocks = waves.T @ features @ waves
        filled = blocks.transpose(-2, -3).flatten(-4, -3).flatten(-2)
        return filled[..., :height, :width].clamp(0, 1).to(video.dtype).reshape(video.shape)


def cosine_waves(block: int, kept: int) -> Tensor:
    """The first `kept` rows of the orthonormal DCT-II of `block` values: (kept, block).

    >>> cosine_waves(2, 1)  # the constant wave
    tensor([[0.7071, 0.7071]])
    """
    frequency, place = torch.arange(kept)[:, None], torch.arange(block)
    waves = torch.cos(math.pi / block * (place + 0.5) * frequency) * math.sqrt(2 / block)
    waves[0] /= math.sqrt(2)
    return waves


def _noise_of(frames: Tensor, shape: torch.Size) -> Tensor:
    """(N, *shape), standard normal: each frame's own, drawn on the CPU so that every device gets the same."""
    stored = (frames.detach() * 255).round().clamp(0, 255).to(torch.uint8).cpu().numpy()
    digests = (int.from_bytes(hashlib.sha256(frame.tobytes()).digest(), "big") for frame in stored)
    drawn = [np.random.default_rng(digest).standard_normal(shape, np.float32) for digest in digests]
    return torch.from_numpy(np.stack(drawn)).to(frames.device)
