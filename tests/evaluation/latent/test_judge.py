from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.errors import SfumatoError
from sfumato.evaluation.latent.material import (
    Moved,
    Subject,
    make_subject,
    moved,
    moved_between,
    moved_notes,
    parts_of,
    static_rows,
    stretches,
    whole_rows,
)
from sfumato.evaluation.result import Result
from sfumato.report import render_table, write_report

from .toys import ACTION, CONSTANT, WIDTH, Planted, feature_set, judged, keep, long, short


def both() -> object:
    """Short and long videos in one store."""
    one, other = short(gender_value=lambda person, n: ("man", "woman")[person % 2]), long(30)
    videos = [
        (a, data.vectors[int(f) : int(f + c)])
        for data in (one, other)
        for a, f, c in zip(data.annotations, data.first, data.count, strict=True)
    ]
    return feature_set(videos)


def test_all_that_the_data_allows_in_one_result(tmp_path: Path) -> None:
    result = judged(both(), epochs=1, kept=keep(ACTION))
    assert result.protocol == "latent"
    assert list(result.models) == [
        "action",
        "probe",
        "detection",
        "anomaly",
        "retrieval",
        "gait",
        "bias",
        "gap",
        "inversion",
    ]
    assert (
        "latent-reconstruction left out: features:toy holds no clips of a data set that can be opened" in result.notes
    )
    kept = result.lines[1]
    assert [s.target for s in kept.strongest] == ["attributes", "identity"]
    names = {measure.name for measure in kept.scores}
    assert {"TAD mAP", "AD AUC", "retrieval R@1", "bias-man subclass gap", "inversion-white-box-action top-1"} <= names
    assert any(note.startswith("kept: TAD mAP 0.") for note in result.notes)
    result.save(tmp_path / "result.json")
    written = json.loads((tmp_path / "result.json").read_text())
    assert {"value", "low", "high", "chance", "raw", "intervals"} == set(written["lines"][1]["scores"][0]["score"])
    assert Result.load(tmp_path / "result.json").lines[1].utility.value == kept.utility.value
    assert render_table(result).row_count == 3
    write_report(result, tmp_path / "report.html")
    assert "TAD mAP" in (tmp_path / "report.html").read_text()


def test_two_anonymizers_are_compared_on_the_same_resamples() -> None:
    same, again = (Planted(lambda features: features) for _ in range(2))
    result = judged(short(), "action", "probe", epochs=20, same=same, again=again, blind=CONSTANT)
    found = {(d.first, d.second, d.what): d for d in result.differences}
    assert {what for _, _, what in found} == {"action", "attributes", "identity"} and len(found) == 9
    alike, apart = found["same", "again", "attributes"], found["same", "blind", "attributes"]
    assert (alike.value, alike.low, alike.high, alike.distinct) == (0, 0, 0, False)
    assert apart.distinct and apart.low > 0.5
    assert any("not distinguishable" in note for note in result.notes)
    assert any(note.startswith("each network was trained once") for note in result.notes)
    assert set(result.pareto) < {"same", "again", "blind"}
    assert any("reference point (0, 0)" in note for note in result.notes)


def test_one_protocol_alone_has_no_column_but_its_notes(tmp_path: Path) -> None:
    result = judged(short(), "retrieval", kept=keep(ACTION))
    assert result.protocol == "latent-retrieval" and list(result.models) == ["retrieval"]
    assert render_table(result).row_count == 3
    write_report(result, tmp_path / "report.html")
    with pytest.raises(SfumatoError, match="latent-anomaly left out: features:toy has 0 train videos"):
        judged(short(), "anomaly")


def test_videos_go_through_whole_and_static_clips_alone() -> None:
    data = long(6)
    data.count[0], data.count[1] = 12, 28  # of different lengths
    data.__post_init__()
    together = Planted(lambda features: features + features.shape[1])
    subject = make_subject("counted", together, data)
    # Padding makes a batch as long as its longest; of lone clips there is nothing to fill up.
    assert torch.allclose(subject.features.vectors[:, 1:], data.vectors[:, 1:] + 1)
    assert torch.allclose(subject.features.vectors[12:40, 0], data.vectors[12:40, 0] + 28)
    rows = torch.cat([each.rows for each in stretches(data, torch.tensor([1, 0, 3]))])
    assert sorted(rows.tolist()) == [*range(40), *range(60, 80)]


def test_an_adapter_on_videos_sees_no_neighbour() -> None:
    data = long(6)
    torch.manual_seed(0)
    adapter = LatentAdapter(WIDTH, layers=1, heads=2, attend="video").eval()
    for parameter in adapter.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    subject = make_subject("video", adapter, data)
    alone = adapter(data.clips(2)[None])[0]
    assert torch.allclose(subject.features.clips(2), alone, atol=1e-5)


def test_how_far_whole_and_static_clips_are_moved() -> None:
    data = long(2)
    data.vectors[:] = 0
    data.vectors[::2, :, 0], data.vectors[1::2, :, 0] = 2.0, -2.0  # all are 2 from their mean
    after = data.vectors.clone()
    after[:, 0, 1] += 0.01
    after[:, 1:, 1] += 6
    subject = Subject("f_A", Planted(lambda features: features), data, replace(data, vectors=after))
    assert moved(subject) == pytest.approx((0.005, 3.0))


def test_clips_without_static_ones_are_measured_too() -> None:
    before = torch.tensor([[[3.0, 0.0]], [[-3.0, 0.0]], [[0.0, 3.0]], [[0.0, -3.0]]])  # all are 3 from their mean
    found = moved_between(before, before + torch.tensor([0.0, 0.3]))
    assert found.whole == pytest.approx(0.1) and math.isnan(found.static)


def test_video_that_passes_as_it_is_is_told() -> None:
    (note,) = moved_notes("f_A", Moved(0.007, 107.8))
    assert note == (
        "f_A: whole clips pass nearly as they are, changed by 0.007 of their spread, static ones by 108: "
        "what those hide says nothing about video"
    )
    assert moved_notes("f_A", Moved(0.5, 107.8)) == []
    assert moved_notes("f_A", Moved(0.0, float("nan")))[0].endswith("changed by 0 of their spread")
    result = judged(short(), "retrieval", epochs=1, barely=Planted(lambda features: features * 1.001), far=keep(ACTION))
    (told,) = [note for note in result.notes if "pass nearly" in note]
    assert told.startswith("barely: whole clips pass nearly")


def test_features_that_are_not_finite_are_refused() -> None:
    with pytest.raises(SfumatoError, match="'broken' makes features of features:toy that are not finite"):
        make_subject("broken", Planted(lambda features: features / 0), long(4))


def test_five_clips_of_a_video_are_read_from_end_to_end() -> None:
    data = long(2)
    data.vectors[:, 0, 0] = torch.arange(40.0)
    rows = whole_rows(data, torch.tensor([1]))
    assert rows.features[:, 0].tolist() == [20, 25, 30, 34, 39] and rows.owner.tolist() == [0] * 5
    assert len(static_rows(data, torch.tensor([0, 1])).owner) == 20


def test_without_a_test_part_validation_videos_are_tested_on() -> None:
    data = long(20)
    told = [type(a)(a.name, split={"person": "train" if n < 15 else "val"}) for n, a in enumerate(data.annotations)]
    data.annotations = told
    parts = parts_of(data, [True] * 20, "person")
    assert parts.test.tolist() == [15, 16, 17, 18, 19] and parts.val.tolist() == [4, 9, 14]
    assert len(parts.train) == 12 and parts.note
    assert parts_of(data, [False] * 20, "person").lacks() == "has 0 train videos for it, 5 are needed"
