"""Detectors: where the people of a video are, as a mask for the anonymizers that hide people only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.anonymizers.centerface import CenterFace
from sfumato.errors import SfumatoError
from sfumato.registry import unknown_name

FindBoxes = Callable[[Tensor], list[Tensor]]

DEFAULT_CHECKPOINT = "hustvl/yolos-tiny"
# Low on purpose: a box too many hides a lamp, a box too few shows a person.
FACE_THRESHOLD = 0.2
PERSON_THRESHOLD = 0.3
# A face box ends at brows and chin, a person box at the outline.
FACE_MARGIN = 0.15
PERSON_MARGIN = 0.05
HOLD = 5
CHUNK = 8  # frames at once, so that memory does not grow with the clip

# What the published DETR and YOLOS checkpoints were trained with.
SHORT_SIDE, LONG_SIDE, PATCH = 512, 1333, 32
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SOFTMAX_MODELS = ("detr", "yolos")


class Detector:
    """Float video (B, T, 3, H, W) to a mask (B, T, 1, H, W) of the same type, 1 where a person may be.

    `find_boxes` maps frames (N, 3, H, W) to a (K, 4) tensor of x1, y1, x2, y2 in pixels for each. Every box grows by
    `margin` of its size on each side. Detectors flicker, and a frame they miss would show what the frames around it
    hide: what was found in a frame therefore stays hidden for `temporal_hold` frames before and after it.

    >>> make_detector("faces")(video)
    """

    def __init__(self, find_boxes: FindBoxes, *, margin: float, temporal_hold: int = HOLD) -> None:
        self.find_boxes = find_boxes
        self.margin = margin
        self.temporal_hold = temporal_hold

    def __call__(self, video: Tensor) -> Tensor:
        return hold(self.detect(video), self.temporal_hold)

    @torch.no_grad()
    def detect(self, video: Tensor) -> Tensor:
        """The mask of each frame by itself, without what its neighbours would add; shapes as above."""
        size = (video.shape[-2], video.shape[-1])
        chunks = video.flatten(0, 1).split(CHUNK)
        masks = [fill(enlarge(boxes, self.margin), size) for chunk in chunks for boxes in self.find_boxes(chunk)]
        return torch.stack(masks).reshape(*video.shape[:2], 1, *size).to(video)


def make_detector(
    name: str, *, checkpoint: str | Path | None = None, threshold: float | None = None, temporal_hold: int = HOLD
) -> Detector:
    """The detector `faces` (CenterFace) or `people` (a DETR or YOLOS checkpoint: a folder or a Hugging Face Hub id).

    >>> make_detector("people", checkpoint="models/yolos-tiny")(video)
    """
    if threshold is not None and not 0 < threshold < 1:
        raise SfumatoError(f"a detection threshold of {threshold:g} is out of range", "use a number between 0 and 1")
    if temporal_hold < 0:
        raise SfumatoError(f"regions cannot be held for {temporal_hold} frames", "use 0 or more")
    if name == "faces":
        if checkpoint is not None:
            raise SfumatoError("the detector 'faces' takes no checkpoint", "leave --checkpoint out")
        faces = CenterFace(FACE_THRESHOLD if threshold is None else threshold)
        return Detector(faces, margin=FACE_MARGIN, temporal_hold=temporal_hold)
    if name == "people":
        source = str(DEFAULT_CHECKPOINT if checkpoint is None else checkpoint)
        people = PeopleFinder(source, PERSON_THRESHOLD if threshold is None else threshold)
        return Detector(people, margin=PERSON_MARGIN, temporal_hold=temporal_hold)
    raise unknown_name("detector", name, ["faces", "people"])


def enlarge(boxes: Tensor, margin: float) -> Tensor:
    """Boxes (K, 4), each made larger on every side by `margin` of its width or height.

    >>> enlarge(torch.tensor([[10.0, 10.0, 20.0, 30.0]]), margin=0.1)
    tensor([[ 9.,  8., 21., 32.]])
    """
    extra = margin * (boxes[:, 2:] - boxes[:, :2])
    return torch.cat([boxes[:, :2] - extra, boxes[:, 2:] + extra], dim=1)


def fill(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """A mask (H, W) with 1 on every pixel that a box of (K, 4) touches, 0 elsewhere.

    >>> fill(torch.tensor([[0.5, 0.0, 1.5, 1.0]]), size=(2, 3))
    tensor([[1., 1., 0.],
            [0., 0., 0.]])
    """
    if boxes.isnan().any():
        raise SfumatoError("the detector gave boxes that are not numbers", "check the video and the checkpoint")
    height, width = size
    mask = torch.zeros(height, width)
    limits = torch.tensor([width, height, width, height])
    for left, top, right, bottom in boxes.detach().cpu().float().clamp(min=0).minimum(limits):
        mask[int(top.floor()) : int(bottom.ceil()), int(left.floor()) : int(right.ceil())] = 1
    return mask


def hold(mask: Tensor, frames: int) -> Tensor:
    """The union of each frame's region with those of `frames` frames before and after; (B, T, 1, H, W) to the same.

    It knows only the frames it is given: whoever cuts a video into clips gives it the neighbouring ones as well.

    >>> hold(mask, frames=5)
    """
    pooled = functional.max_pool3d(
        mask.transpose(1, 2), kernel_size=(2 * frames + 1, 1, 1), stride=1, padding=(frames, 0, 0)
    )
    return pooled.transpose(1, 2)


class PeopleFinder:
    """Finds people with a DETR or YOLOS checkpoint: frames (N, 3, H, W) to one (K, 4) tensor of boxes each.

    >>> PeopleFinder("models/yolos-tiny", threshold=0.3)(frames)
    """

    def __init__(self, checkpoint: str, threshold: float) -> None:
        self.model = _load_model(checkpoint)
        self.person = _person_class(self.model.config, checkpoint)
        self.threshold = threshold

    def __call__(self, frames: Tensor) -> list[Tensor]:
        self.model.to(frames.device)
        output = self.model(pixel_values=_prepare(frames.float()))
        scores = output.logits.softmax(dim=-1)[..., self.person]
        height, width = frames.shape[-2:]
        boxes = corners(output.pred_boxes) * output.pred_boxes.new_tensor([width, height, width, height])
        # Written so that a NaN counts as found: it must not pass for a frame without people.
        return [found[~(score <= self.threshold)] for found, score in zip(boxes, scores, strict=True)]


def corners(boxes: Tensor) -> Tensor:
    """Boxes (..., 4) as centre x, centre y, width, height to x1, y1, x2, y2.

    >>> corners(torch.tensor([[5.0, 5.0, 4.0, 2.0]]))
    tensor([[3., 4., 7., 6.]])
    """
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([centre - half, centre + half], dim=-1)


def _prepare(frames: Tensor) -> Tensor:
    """Frames resized so that the short side is 512 (the long one at most 1333), with ImageNet's mean and deviation."""
    short, long = sorted(frames.shape[-2:])
    scale = min(SHORT_SIDE / short, LONG_SIDE / long)
    size = [max(1, round(side * scale / PATCH)) * PATCH for side in frames.shape[-2:]]
    frames = functional.interpolate(frames, size=size, mode="bilinear", align_corners=False, antialias=True)
    return (frames - frames.new_tensor(MEAN).view(3, 1, 1)) / frames.new_tensor(STD).view(3, 1, 1)


def _load_model(checkpoint: str) -> Any:
    """The model in eval mode, from safetensors only and without any code of the checkpoint's own."""
    from transformers import AutoModelForObjectDetection

    try:
        model = AutoModelForObjectDetection.from_pretrained(checkpoint, use_safetensors=True, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        raise SfumatoError(
            f"no person detector could be loaded from '{checkpoint}' ({type(error).__name__})",
            f"download an object-detection checkpoint such as {DEFAULT_CHECKPOINT} with its model.safetensors, "
            "and name its folder with --checkpoint",
        ) from error
    if model.config.model_type not in SOFTMAX_MODELS:
        raise SfumatoError(
            f"'{checkpoint}' is of the kind {model.config.model_type}, whose scores mean something else",
            f"use a checkpoint of the kind {' or '.join(SOFTMAX_MODELS)}",
        )
    return model.float().eval()


def _person_class(config: Any, checkpoint: str) -> int:
    labels = {index: str(name) for index, name in config.id2label.items()}
    for index, name in labels.items():
        if name.lower() == "person":
            return int(index)
    raise SfumatoError(f"'{checkpoint}' knows no class 'person'", f"it knows: {', '.join(labels.values())}")
