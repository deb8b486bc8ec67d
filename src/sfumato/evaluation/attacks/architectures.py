"""Other networks than the usual two: what one architecture cannot read, another may.

Each sits the plain exams of its level. Where the judge's networks are tiny, so are these: the same architectures, narrow
enough for a CPU.
"""

from __future__ import annotations

from dataclasses import replace

from sfumato.evaluation.attacks.frame import FRAME
from sfumato.evaluation.attacks.identity import IDENTITY, IDENTITY_FRAMES
from sfumato.evaluation.attacks.video import VIDEO
from sfumato.evaluation.exam import Exam, Level

STAND_IN = 0.125  # of the width, where networks are tiny
OTHERS: dict[Level, tuple[str, ...]] = {
    "video": ("r2plus1d-18", "i3d-r50", "mvit-v2-s", "vit-s"),
    "frame": ("resnet-50", "mobilenet-v1"),
}

ARCHITECTURES: tuple[Exam, ...] = tuple(
    replace(exam, name=f"{exam.name}-{other}", summary=f"like {exam.name}, but by a {other}", recognizer=other)
    for exam in (FRAME, VIDEO, IDENTITY, IDENTITY_FRAMES)
    for other in OTHERS[exam.level]
)
