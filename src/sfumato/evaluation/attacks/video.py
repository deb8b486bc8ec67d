"""The video-level attacker: reads the private attributes from the clip as a whole, movement included."""

from sfumato.evaluation.exam import Exam

VIDEO_PLACED = Exam(
    "video-placed", "private attributes from the whole clip, by where things are too", "attributes", "video", "clip",
    placed=True,
)  # fmt: skip
VIDEO = Exam("video", "private attributes from the whole clip, movement included", "attributes", "video", "clip")
