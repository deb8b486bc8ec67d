"""What is known about stored videos: written, read, and refused by line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.annotations import FILE, Annotation, add_annotations, annotate_items, read_annotations
from sfumato.datasets.files import automatic_split
from sfumato.datasets.sample import Segment
from sfumato.errors import SfumatoError

KNOWN = Annotation(
    "a.mp4", "wave", "7", {"hat": "yes"}, (Segment(0, 48, "wave"), Segment(80, 130, "bow")), False,
    {"person": "val", "clip": "train"},
)  # fmt: skip


def test_what_is_written_comes_back_and_what_was_there_stays(tmp_path: Path) -> None:
    assert read_annotations(tmp_path) == {}
    add_annotations(tmp_path, {"a.mp4": KNOWN, "b.mp4": Annotation("b.mp4")})
    add_annotations(tmp_path, {"a.mp4": Annotation("a.mp4", "bow"), "c.mp4": Annotation("c.mp4", segments=())})
    found = read_annotations(tmp_path)
    assert found["a.mp4"] == KNOWN and found["b.mp4"] == Annotation("b.mp4") and found["c.mp4"].segments == ()
    assert found["b.mp4"].segments is None and found["b.mp4"].anomalous is None


def test_one_split_does_for_both_and_none_is_by_hash(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"name": "a", "split": "test"}\n{"name": "b", "person": "7"}\n')
    found = read_annotations(tmp_path)
    assert found["a"].part("person") == found["a"].part("clip") == "test"
    assert found["b"].part("person") == automatic_split("7") and found["b"].part("clip") == automatic_split("b")
    assert KNOWN.part("person") == "val" and KNOWN.part("clip") == "train"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("no json", "is no annotation"),
        ("[]", "is no annotation"),
        ('{"action": "wave"}', "'name'"),
        ('{"name": "a", "acton": "wave"}', "there is no field 'acton'"),
        ('{"name": "a", "split": "training"}', "split 'training' is none of train, val, test"),
        ('{"name": "a", "segments": [[5, 5, "wave"]]}', "a segment from 5 to 5"),
        ('{"name": "a", "segments": [[5, 9]]}', "is no annotation"),
        ('{"name": "a", "anomalous": "no"}', "anomalous is neither true nor false"),
    ],
)
def test_a_wrong_line_is_told_by_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    (tmp_path / FILE).write_text(f'{{"name": "first"}}\n{line}\n')
    with pytest.raises(SfumatoError, match="line 2 of ") as error:
        read_annotations(tmp_path)
    assert complaint in str(error.value) and "\n" not in str(error.value)


def test_a_data_set_says_what_its_labels_say() -> None:
    data = open_dataset("theatre:small")
    index = int(data.split("val", "person")[0])
    found = annotate_items(data, torch.tensor([0, index]), {0: "first", index: "other"})
    labels = data.labels(torch.tensor([0, index]))
    assert [a.action for a in found.values()] == [data.actions[i] for i in labels.action.tolist()]
    assert [a.person for a in found.values()] == [data.persons[i] for i in labels.person.tolist()]
    told = [
        [spec.values[v] for spec, v in zip(data.attributes, row, strict=True)] for row in labels.attributes.tolist()
    ]
    assert [list(a.attributes.values()) for a in found.values()] == told
    assert found["first"].part("person") == "train" and found["other"].part("person") == "val"
    assert found["first"].part("clip") == "train" and found["other"].part("clip") is None  # of people never trained on
