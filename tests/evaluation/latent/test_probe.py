from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.errors import SfumatoError
from sfumato.evaluation.exam import Exam
from sfumato.evaluation.latent.material import whole_rows
from sfumato.evaluation.latent.probe import answer, inquire_attributes, inquire_persons, videos_of

from .toys import CONSTANT, HAT, PEOPLE, Planted, attack, judged, keep, short

SIGHTS = ("static-linear", "static-mlp", "whole-linear", "whole-mlp")


def test_nothing_done_leaks_all_and_a_constant_nothing() -> None:
    result = judged(short(size=2), "probe", epochs=22, same=Planted(lambda features: features), constant=CONSTANT)
    for sight in SIGHTS:
        for target in ("attributes", "identity"):
            same = attack(result, "same", f"{target}-{sight}")
            assert same.leakage.verdict == "measured" and same.leakage.value == 1
            assert same.score.value > 0.75
            nothing = attack(result, "constant", f"{target}-{sight}")
            assert nothing.leakage.low <= 0 <= nothing.leakage.high
            assert nothing.score.value <= nothing.score.chance + 1e-9
    assert [s.target for s in result.lines[0].strongest] == ["attributes", "identity"]
    assert result.lines[1].headline.value == pytest.approx(1)
    hidden = result.lines[2].headline
    assert abs(hidden.value) < 0.05 and hidden.intervals["videos"][1] < 0.3


def test_the_headline_is_about_other_people_too_and_holds_the_choice_of_the_worst_target() -> None:
    result = judged(short(size=2), "probe", epochs=4, constant=CONSTANT)
    line = result.lines[1]
    over = line.headline.intervals
    assert set(over) == {"videos", "persons"} and line.headline.high == max(high for _, high in over.values())
    assert [over["videos"][1] >= s.leakage.intervals["videos"][1] for s in line.strongest] == [True, True]
    # Six people are few: who always gets the same name is right about half of them when that one is drawn three times.
    assert over["persons"][1] > 0.3 > over["videos"][1]
    assert any("or over persons where that is wider" in note for note in result.notes)


def test_a_planted_bit_is_caught_however_small_it_is_made() -> None:
    # Beside it there is noise, a hundred thousand times as large.
    tiny = Planted(lambda features: keep(HAT)(features) * 1e-4 + 10 * keep(slice(12, 16))(features) + 5)
    result = judged(short(), "probe", epochs=30, tiny=tiny)
    found = attack(result, "tiny", "attributes-static-linear")
    assert found.leakage.value > 0.95
    assert [a.name for a in found.attributes] == ["hat"]
    nobody = attack(result, "tiny", "identity-whole-mlp")
    assert nobody.leakage.value < 0.3
    assert result.lines[1].headline.value > 0.9


def test_static_clips_are_read_by_themselves() -> None:
    data = short()
    data.vectors[:, 0, HAT] = 0  # a moving clip does not show it
    result = judged(data, "probe", epochs=20)
    static, whole = (attack(result, "identity", f"attributes-{sight}") for sight in ("static-linear", "whole-linear"))
    assert static.score.value > 0.95 and static.level == "frame"
    assert whole.score.value < 0.75 and whole.level == "video" and whole.leakage.verdict == "inconclusive"
    # The headline takes who reads best, on raw and on anonymised features alike.
    assert result.lines[0].strongest[0].score.value > 0.95


def test_several_clips_of_a_video_are_averaged() -> None:
    exam = Exam("who", "", "identity", "video", "clip")
    right = []
    for clips in (1, 5):
        data = short(clips, noise=3.0)
        inquiry = inquire_persons(data)
        rows = {part: whole_rows(data, videos) for part, videos in videos_of(inquiry.parts).items()}
        found = answer(exam, inquiry, rows, "linear", seed=0, epochs=30)
        assert found.test.shape == (30, PEOPLE) and np.allclose(found.test.sum(1), 1)
        right.append(float((found.test.argmax(1) == found.test_labels[:, 0]).mean()))
    assert right[1] > right[0] + 0.1


def test_what_is_hardly_ever_so_or_always_is_not_asked() -> None:
    data = short(rare=lambda person, n: "yes" if n == 0 else "no", always=lambda person, n: "yes")
    inquiry = inquire_attributes(data)
    assert [spec.name for spec in inquiry.question.specs] == ["hat"]
    assert inquiry.notes == ("'rare' left out: 'yes' of 1 val videos, 5 are needed",)


def test_without_labels_there_is_nothing_to_probe() -> None:
    data = short()
    data.annotations = [replace(a, attributes={}, person="") for a in data.annotations]
    with pytest.raises(SfumatoError, match="latent-probe left out: features:toy tells no private attribute"):
        judged(data, "probe")
