"""What a recognizer is: a network from video to logits that owns its normalisation and its layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError

Level = Literal["video", "frame"]
Clip = tuple[int, int, int]


class Pixels(NamedTuple):
    """How a network wants its pixels: (value - mean) / std for each of R, G, B in [0, 1]."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]


IMAGENET = Pixels((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
KINETICS = Pixels((0.43216, 0.394666, 0.37645), (0.22803, 0.22145, 0.216989))
CENTRED = Pixels((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


class Recognizer(nn.Module, ABC):
    """f_T or f_B: `forward(video)` maps (B, T, 3, H, W), RGB in [0, 1], to logits (B, outputs).

    `features(video)` gives what the head sees, (B, feature_width). A clip's logits in eval mode depend on that clip
    alone. `head_name` is the path of the last linear layer, so that weights can be loaded under a new head.
    `clip` is the (T, H, W) it was made for; convolutional networks that end in a global average take others too.
    """

    level: ClassVar[Level]
    head_name: ClassVar[str] = "fc"
    feature_width: int
    mean: Tensor
    std: Tensor

    def __init__(self, outputs: int, clip: Clip, pixels: Pixels) -> None:
        super().__init__()
        if outputs < 1:
            raise SfumatoError(f"a recognizer cannot have {outputs} outputs", "ask for 1 or more")
        if len(clip) != 3 or min(clip) < 1:
            raise SfumatoError(f"{clip} is no clip", "give (frames, height, width), each 1 or more")
        self.outputs = outputs
        self.clip: Clip = (clip[0], clip[1], clip[2])
        # Not persistent: published state dicts do not hold them, and must load with no key missing.
        self.register_buffer("mean", torch.tensor(pixels.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(pixels.std).view(3, 1, 1), persistent=False)

    @property
    def head(self) -> nn.Module:
        """The last linear layer, (B, feature_width) to (B, outputs)."""
        return self.get_submodule(self.head_name)

    def normalise(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) in [0, 1] to the same shape with this network's mean and standard deviation taken out."""
        if video.ndim != 5 or video.shape[2] != 3:
            raise SfumatoError(f"{tuple(video.shape)} is no video", "give (batch, frames, 3 colours, height, width)")
        return (video - self.mean) / self.std

    def classify(self, features: Tensor) -> Tensor:
        """(N, feature_width) to logits (N, outputs)."""
        logits: Tensor = self.head(features)
        return logits

    @abstractmethod
    def features(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) in [0, 1] to (B, feature_width)."""

    @abstractmethod
    def forward(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) in [0, 1] to logits (B, outputs)."""


class VideoRecognizer(Recognizer):
    """Sees the clip as a whole. A family only writes `encode`: normalised (B, 3, T, H, W) to (B, feature_width)."""

    level = "video"

    @abstractmethod
    def encode(self, clips: Tensor) -> Tensor:
        """Normalised (B, 3, T, H, W), time after colour as 3-D convolutions want it, to (B, feature_width)."""

    def require_size(self, clips: Tensor) -> None:
        """For networks with a place for every token: refuse clips (B, 3, T, H, W) of another size than `clip`."""
        if clips.shape[2:] != self.clip:
            raise SfumatoError(
                f"this recognizer was made for clips of (frames, height, width) {self.clip}, not {tuple(clips.shape[2:])}",
                "resize the clips, or make the recognizer with their size",
            )

    def features(self, video: Tensor) -> Tensor:
        # Channels-last: 3-D convolutions are faster in this layout, on a GPU as on a CPU.
        clips = self.normalise(video).transpose(1, 2).contiguous(memory_format=torch.channels_last_3d)
        return self.encode(clips)

    def forward(self, video: Tensor) -> Tensor:
        return self.classify(self.features(video))


class FrameRecognizer(Recognizer):
    """Sees one frame at a time; a clip's logits are the mean over T of its frames' logits, its features likewise.

    A family only writes `encode`: normalised (N, 3, H, W) to (N, feature_width).
    """

    level = "frame"

    @abstractmethod
    def encode(self, frames: Tensor) -> Tensor:
        """Normalised RGB frames (N, 3, H, W) to (N, feature_width)."""

    def frame_features(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) to (B, T, feature_width): each frame by itself."""
        # (B, T) are neighbours in this layout, so that flattening them gives true RGB frames.
        frames = self.normalise(video).flatten(0, 1).contiguous(memory_format=torch.channels_last)
        return self.encode(frames).unflatten(0, video.shape[:2])

    def features(self, video: Tensor) -> Tensor:
        return self.frame_features(video).mean(1)

    def forward(self, video: Tensor) -> Tensor:
        return self.classify(self.frame_features(video)).mean(1)
