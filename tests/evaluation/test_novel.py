from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sfumato.anonymizers import load
from sfumato.datasets import theatre
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.protocols import PROTOCOLS, known
from sfumato.evaluation.protocols.known import ATTRIBUTE_ATTACKS, JudgeConfig
from sfumato.evaluation.protocols.novel import NovelActionsProtocol, NovelAttributesProtocol, NovelProtocol, companion

from .test_known import pretend

CPU = torch.device("cpu")
TINY = JudgeConfig(models="tiny", epochs=1, batch=12)
RAW, BLUR = load("identity"), load("blur")


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 20)


@pytest.fixture
def other(minute: TheatreDataset, monkeypatch: pytest.MonkeyPatch) -> TheatreDataset:
    """What is new to who knows `minute`, as small as that: two other actions, other attributes."""
    novel = theatre.PRESETS["small-novel"]
    assert novel.action_names
    frequent = tuple(spec for spec in novel.attributes if spec.name in ("hair_colour", "age_group", "build"))
    small = replace(minute.preset, action_names=novel.action_names[:2], attributes=frequent)
    monkeypatch.setitem(theatre.PRESETS, "small-novel", small)
    return TheatreDataset("small-novel")


def names(data: TheatreDataset) -> list[str]:
    return [spec.name for spec in data.attributes]


@pytest.mark.parametrize(
    ("kind", "actions_of", "attributes_of"),
    [
        (NovelProtocol, "other", "other"),
        (NovelActionsProtocol, "other", "minute"),
        (NovelAttributesProtocol, "minute", "other"),
    ],
)
def test_what_is_new_comes_from_the_other_data_set(
    kind: type[NovelProtocol], actions_of: str, attributes_of: str, minute: TheatreDataset, other: TheatreDataset,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(known, "sit", pretend(lambda exam, clips: 1.0))
    sets = {"minute": minute, "other": other}
    judge = kind(minute, TINY, device=CPU, folder=tmp_path)
    assert judge.dataset.actions == sets[actions_of].actions
    assert names(judge.dataset) == names(sets[attributes_of])  # type: ignore[arg-type]
    assert judge.dataset.name == sets[actions_of].name
    result = judge.judge([BLUR], RAW)
    assert result.protocol == kind.name and result.data == sets[actions_of].name
    assert [attack.attacker for attack in result.lines[1].attacks] == [*ATTRIBUTE_ATTACKS, "patient-frame"]
    assert [a.name for a in result.lines[1].attacks[0].attributes] == names(sets[attributes_of])
    (said,) = [note for note in result.notes if note.startswith("new to an anonymizer made on theatre:small:")]
    assert ("actions" in said) == (actions_of == "other") and ("attributes" in said) == (attributes_of == "other")


def test_labels_of_the_theatre_s_novel_set_are_all_new() -> None:
    """SPAct section 4.3: the two sets of labels have nothing in common."""
    small = TheatreDataset("small")
    new = companion(small)
    assert not set(small.actions) & set(new.actions) and len(new.actions) == 10
    assert not set(names(small)) & {spec.name for spec in new.attributes} and len(new.attributes) == 7


def test_what_is_not_new_is_refused(minute: TheatreDataset, other: TheatreDataset, tmp_path: Path) -> None:
    def fails(kind: type[NovelProtocol], data: TheatreDataset, novel: TheatreDataset | None = None) -> str:
        with pytest.raises(SfumatoError) as error:
            kind(data, TINY, device=CPU, folder=tmp_path, novel=novel)
        return str(error.value)

    assert "actions of theatre:small are not new to who knows theatre:small: raise hand, jumping jack" in fails(
        NovelProtocol, minute, minute
    )
    assert "attributes of theatre:small are not new" in fails(NovelAttributesProtocol, minute, minute)
    # All actions of the large theatre are in its novel preset too: there only attributes are new.
    said = fails(NovelActionsProtocol, TheatreDataset())
    assert "actions of theatre:novel are not new to who knows theatre" in said and " more: name data without" in said
    assert "nobody knows what is new to an anonymizer made on theatre:small-novel" in fails(NovelProtocol, other)
    assert NovelProtocol(other, TINY, device=CPU, folder=tmp_path, novel=minute).dataset is minute


def test_they_are_on_the_list() -> None:
    for name in ("novel", "novel-actions", "novel-attributes"):
        assert "SPAct section 4.3" in PROTOCOLS.find(name).summary and PROTOCOLS.find(name).make.name == name  # type: ignore
