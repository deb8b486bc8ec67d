"""Recognizers by name: f_T, f_B and the attackers' networks, all from (B, T, 3, H, W) to logits."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.recognizers.base import Clip, FrameRecognizer, Level, Recognizer, VideoRecognizer
from sfumato.recognizers.c3d import C3D
from sfumato.recognizers.i3d import I3DResNet50
from sfumato.recognizers.image import RESNETS, ImageResNet, MobileNetV1
from sfumato.recognizers.mvit import MViT
from sfumato.recognizers.resnet3d import r2plus1d_18, r3d_18
from sfumato.recognizers.tiny import TinyFrame, TinyVideo
from sfumato.recognizers.vit import vit_b, vit_s
from sfumato.recognizers.weights import load_weights
from sfumato.registry import Registry

__all__ = [
    "RECOGNIZERS",
    "FrameRecognizer",
    "Recognizer",
    "VideoRecognizer",
    "level_of",
    "load_weights",
    "make_recognizer",
]

RECOGNIZERS: Registry[Recognizer] = Registry("recognizer")
RECOGNIZERS.add("r3d-18", "video: 3-D ResNet-18, 33 M parameters; SPAct's f_T with dilated_last_stage", r3d_18)
RECOGNIZERS.add("r2plus1d-18", "video: ResNet-18 with space and time convolved in turn, 31 M parameters", r2plus1d_18)
RECOGNIZERS.add("c3d", "video: eight 3-D convolutions and three dense layers, 78 M parameters", C3D)
RECOGNIZERS.add("i3d-r50", "video: ResNet-50 inflated in time, 28 M parameters", I3DResNet50)
for _layers, _millions in zip(RESNETS, (12, 22, 26, 45, 60), strict=True):
    RECOGNIZERS.add(
        f"resnet-{_layers}", f"frame: ResNet-{_layers}, {_millions} M parameters", partial(ImageResNet, _layers)
    )
RECOGNIZERS.add("mobilenet-v1", "frame: MobileNetV1, 4 M parameters", MobileNetV1)
RECOGNIZERS.add("vit-s", "video: ViT-S on tubelets of 2×16×16, 22 M parameters", vit_s)
RECOGNIZERS.add("vit-b", "video: ViT-B on tubelets of 2×16×16, 86 M parameters", vit_b)
RECOGNIZERS.add("mvit-v2-s", "video: MViTv2-S, 35 M parameters", MViT)
RECOGNIZERS.add("tiny-video", "video: four 3-D convolutions for a laptop's CPU, 0.2 M parameters", TinyVideo)
RECOGNIZERS.add("tiny-frame", "frame: six convolutions for a laptop's CPU, 0.2 M parameters", TinyFrame)


def make_recognizer(name: str, outputs: int, *, clip: Clip, **options: Any) -> Recognizer:
    """The recognizer of that name with `outputs` logits for clips of (T, H, W), weights at random.

    Options: `width` multiplies the channels (all); `norm` is "batch" or "group" (all but the ViTs); `depth` is the
    number of layers (ViTs); `dilated_last_stage` (r3d-18).

    >>> make_recognizer("tiny-video", 10, clip=(8, 64, 64), width=0.5).level
    'video'
    """
    make = RECOGNIZERS.find(name).make
    known = [p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise SfumatoError(f"recognizer '{name}' has no option '{option}'", f"it takes {', '.join(known)}")
    return make(outputs, clip, **options)


def level_of(name: str) -> Level:
    """Whether the recognizer of that name looks at frames or at whole clips: the first word about it. None is made.

    >>> level_of("resnet-50")
    'frame'
    """
    return "frame" if RECOGNIZERS.find(name).summary.startswith("frame: ") else "video"
