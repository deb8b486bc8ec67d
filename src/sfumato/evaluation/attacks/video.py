"""The video-level attacker: reads the private attributes from the clip as a whole, movement included."""

from sfumato.evaluation.exam import Exam

VIDEO = Exam("video", "private attributes from the whole clip, movement included", "attributes", "video", "clip")
