"""Which exams a data set can be asked: labels, people, clips enough, and what its splits do not keep apart."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import compress

import torch
from torch import Tensor

from sfumato.datasets.base import ClipShape, Labels, Part, SplitBy, VideoDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.exam import Exam, truth
from sfumato.evaluation.metrics import MIN_GROUPS
from sfumato.recognizers import make_recognizer

_CHUNK = 4096  # clips whose labels are looked at together: of thousands of tags all would fill the memory


def missing(exam: Exam, dataset: VideoDataset) -> str:
    """What the data set would need for that exam, in words that follow its name; "" if nothing.

    >>> missing(IDENTITY, open_dataset("theatre:small"))
    ''
    """
    if exam.recognizer and not _takes(exam.recognizer, dataset.shape):
        shape = dataset.shape
        return f"has clips of {shape.frames}×{shape.height}×{shape.width}, which {exam.recognizer} does not take"
    if exam.target == "action":
        return ""
    if exam.target == "attributes":
        return "" if dataset.attributes else "has no attributes labels"
    return exam.approach.lacks(exam, dataset) if len(dataset.persons) > 1 else "has no identity labels"


def without_rare(dataset: VideoDataset) -> tuple[VideoDataset, list[str]]:
    """Where clips have tags, of thousands, only those that can be scored: some clips of every part have them. With notes.

    >>> without_rare(open_dataset("theatre:small"))[1]
    []
    """
    if not dataset.several_actions:
        return dataset, []
    actions = [*compress(dataset.actions, _often(dataset, "person", lambda labels: labels.actions))]
    private = [*compress(dataset.attributes, _often(dataset, "clip", lambda labels: labels.attributes))]
    notes = ["a clip may show several actions: the action is scored by cMAP"]
    for what, before, after in (("actions", dataset.actions, actions), ("private tags", dataset.attributes, private)):
        if len(after) < len(before):
            few = len(before) - len(after)
            notes.append(
                f"{few} of {len(before)} {what} left out: fewer than {MIN_GROUPS} clips of some part have them"
            )
    view = copy.copy(dataset)
    view.actions, view.attributes = tuple(actions), tuple(private)
    return view, notes


def _often(dataset: VideoDataset, by: SplitBy, answers: Callable[[Labels], Tensor | None]) -> list[bool]:
    """Of each question, whether MIN_GROUPS clips of every part say yes."""
    parts: tuple[Part, ...] = ("train", "val", "test")
    said = []
    for part in parts:
        found = [answers(dataset.labels(some)) for some in dataset.split(part, by).split(_CHUNK)]
        said.append(torch.stack([(each == 1).sum(0) for each in found if each is not None]).sum(0))
    return [bool(each) for each in torch.stack(said).amin(0) >= MIN_GROUPS]


def split_notes(dataset: VideoDataset, exams: Sequence[Exam]) -> list[str]:
    """What the splits do not keep apart, or not together, although the exams' meaning depends on it.

    >>> split_notes(open_dataset("theatre:small"), [IDENTITY])
    []
    """

    def people(part: Part, by: SplitBy) -> set[int]:
        return set(dataset.labels(dataset.split(part, by)).person.tolist()) - {-1}

    notes = []
    if shared := people("train", "person") & people("test", "person"):
        notes.append(
            f"{len(shared)} test persons were seen in training: give a column split_person to judge new people"
        )
    train, test = (dataset.recordings(dataset.split(part, "clip")).unique() for part in ("train", "test"))
    if both := int(torch.isin(test, train).sum()):
        notes.append(
            f"{both} recordings are in training and in test: attackers may know the place instead of the person"
        )
    strangers = people("test", "clip") - people("train", "clip")
    if strangers and any(exam.target == "identity" for exam in exams):
        notes.append(f"{len(strangers)} test persons are never seen in training: no attacker can name them")
    return notes


def require_actions(dataset: VideoDataset) -> None:
    """Refuse clips that all show the same, or nothing that has a name: no action can be told from another.

    >>> require_actions(open_dataset("theatre:small"))
    """
    if len(dataset.actions) < 2:
        raise SfumatoError(
            f"{dataset.name} has fewer than two actions",
            "give two actions or more; without any labels, `sfumato certify` attacks",
        )


def check_enough(exam: Exam, dataset: VideoDataset) -> None:
    """Stop before the first training where a score or its interval could not be computed after the last.

    >>> check_enough(IDENTITY, open_dataset("theatre:small"))
    """
    for part in ("train", "val", "test"):
        clips = exam.approach.items(exam, dataset, part)
        # One may learn from a single recording; but what is asked about is resampled by them.
        units = len(clips) if part == "train" else len(dataset.recordings(clips).unique())
        if units < MIN_GROUPS:
            what = "clips" if units == len(clips) else "recordings"
            raise SfumatoError(
                f"{dataset.name} has {units} {part} {what} for '{exam.name}', {MIN_GROUPS} are needed",
                "give more videos, or move some there",
            )
        if exam.target == "attributes":
            for spec, values in zip(dataset.attributes, truth(exam, dataset.labels(clips)).T, strict=True):
                # Those of one recording are drawn together: where all are in few, most resamples would have none.
                yes = clips[values == 1]
                found = len(yes) if part == "train" else len(dataset.recordings(yes).unique())
                if spec.binary and found < MIN_GROUPS:
                    what = "clips" if found == len(yes) else "recordings"
                    raise SfumatoError(
                        f"{dataset.name}: '{spec.name}' is '{spec.values[1]}' in {found} {part} {what}, {MIN_GROUPS} are needed",
                        "give more such videos, or judge other attributes",
                    )


@lru_cache
def _takes(recognizer: str, shape: ClipShape) -> bool:
    """Whether a recognizer can be made for clips of that shape; nothing is allocated to find out."""
    try:
        with torch.device("meta"):
            make_recognizer(recognizer, 1, clip=(shape.frames, shape.height, shape.width))
    except SfumatoError:
        return False
    return True
