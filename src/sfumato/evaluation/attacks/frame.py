"""The frame-level attacker: reads the private attributes from single frames and averages over the video."""

from sfumato.evaluation.exam import Exam

FRAME = Exam("frame", "private attributes from single frames, averaged over the video", "attributes", "frame", "clip")
