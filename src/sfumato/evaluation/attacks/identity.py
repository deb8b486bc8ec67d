"""Who is it? Closed-set identification: the same people in training and test, other recordings of them.

An attacker who wants a name usually has other footage of the people in question, so this split is the realistic one.
"""

from sfumato.evaluation.exam import Exam

IDENTITY = Exam("identity", "which person it is, from the whole clip", "identity", "video", "clip")
IDENTITY_PLACED = Exam(
    "identity-placed", "which person it is, from the whole clip, by where things are too", "identity", "video", "clip",
    placed=True,
)  # fmt: skip
IDENTITY_FRAMES = Exam("identity-frames", "which person it is, from single frames", "identity", "frame", "clip")
