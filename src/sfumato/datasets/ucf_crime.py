"""`ucf-crime:PATH`: UCF-Crime, surveillance videos, ordinary ones and such with one of 13 crimes or accidents in them.

Under PATH: videos in any folders, and Anomaly_Train.txt (`Abuse/Abuse001_x264.mp4`: what happens, not when) and
Temporal_Anomaly_Annotation.txt of the test videos (`Abuse028_x264.mp4  Abuse  165  240  -1  -1`: the first and last frame of
one or two anomalies, counted from 1). The action is what happens, or Normal; a test video's Sample has the anomalies.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.datasets.base import Course
from sfumato.datasets.files import Row
from sfumato.datasets.listed import Annotations, ListedDataset, Place, both, hold_out, within
from sfumato.datasets.sample import Segment
from sfumato.errors import SfumatoError

NORMAL = "Normal"
ACTIONS = (
    "Abuse", "Arrest", "Arson", "Assault", "Burglary", "Explosion", "Fighting", NORMAL, "RoadAccidents", "Robbery",
    "Shooting", "Shoplifting", "Stealing", "Vandalism",
)  # fmt: skip
_NORMAL_FOLDER = "Training_Normal_Videos_Anomaly"
PUBLISHED = {"videos": 1900, "train + val": 1610, "test": 290, "actions": 14}


class UCFCrimeDataset(ListedDataset):
    """UCF-Crime.

    >>> UCFCrimeDataset("data/ucf-crime").sample(1610).anomalies  # doctest: +SKIP
    (Segment(start=164, end=240, label='Abuse'),)
    """

    kind = "ucf-crime"
    described = "1,900 surveillance videos, half of them with an anomaly (Sultani et al. 2018)"
    get_from = "crcv.ucf.edu/projects/real-world"

    def __init__(self, source: str, *, strict: bool = False) -> None:
        super().__init__(source, strict=strict)
        for row in self.rows:
            row.anomalies = within(row.anomalies, row.frames)

    def course(self, index: int) -> Course:
        return course_of(self.rows[index], self.rows[index].anomalies)

    @classmethod
    def annotations(cls, place: Place) -> Annotations:
        rows = []
        path, text = place.read("Anomaly_Train.txt")
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                rows.append(_training_row(line.strip(), f"{path.name} line {number}"))
        path, text = place.read("Temporal_Anomaly_Annotation.txt")
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                rows.append(_test_row(line.split(), f"{path.name} line {number}"))
        hold_out(rows)
        return Annotations(rows, ACTIONS, published=PUBLISHED)


def course_of(row: Row, anomalies: tuple[Segment, ...]) -> Course:
    """What is known about a video with these anomalies in it; of a training video nobody told where they are.

    >>> course_of(Row(Path("Abuse001_x264.mp4"), "line 1", "Abuse"), ())
    Course(segments=None, anomalous=True)
    """
    return Course(anomalies if anomalies or row.action == NORMAL else None, row.action != NORMAL)


def _training_row(line: str, where: str) -> Row:
    video = Path(line)
    action = NORMAL if video.parent.name == _NORMAL_FOLDER else video.parent.name
    if action not in ACTIONS:
        raise SfumatoError(f"{where}: '{line}' is in no folder of UCF-Crime", "get the list again")
    return Row(video, where, action, split=both("train"))


def _test_row(words: list[str], where: str) -> Row:
    try:
        video, action, *times = words
        one, two, three, four = map(int, times)
        spans = [(first, last) for first, last in ((one, two), (three, four)) if (first, last) != (-1, -1)]
        if action not in ACTIONS or any(not 1 <= first <= last for first, last in spans):
            raise ValueError
    except ValueError:
        raise SfumatoError(
            f"{where}: '{' '.join(words)}' is not 'video.mp4 Class first last first last'", "get the list again"
        ) from None
    anomalies = tuple(Segment(first - 1, last, action) for first, last in spans)
    return Row(Path(video), where, action, split=both("test"), anomalies=anomalies)
