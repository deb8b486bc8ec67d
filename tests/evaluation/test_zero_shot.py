from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers import load
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.protocols import PROTOCOLS, zero_shot
from sfumato.evaluation.protocols.known import UTILITY, JudgeConfig, KnownProtocol
from sfumato.recognizers.base import Pixels
from sfumato.recognizers.vlm import (
    SmallVLM,
    SmallVLMConfig,
    VideoEmbeddings,
    VideoLanguageModel,
    load_vlm,
    save_vlm,
    words_of,
)

CPU = torch.device("cpu")
RAW, COARSE = load("identity"), load("downsample:factor=16")
PROMPTS = ("a person {}", "somebody {}")
WORDS = words_of([*PROMPTS, "raises a hand", "does jumping jacks"])
SMALL = SmallVLMConfig(
    (4, 16, 16), WORDS, width=16, depth=1, temporal_depth=1, text_width=16, text_depth=1, embedding=8
)


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SAMPLES", 60)


def write_vlm(folder: Path, seed: int = 0, **changes: Any) -> str:
    torch.manual_seed(seed)
    return str(save_vlm(SmallVLM(replace(SMALL, **changes)), folder))


def judging(data: TheatreDataset, folder: Path, vlm: str, **changes: Any) -> KnownProtocol:
    config = JudgeConfig(models="tiny", epochs=1, batch=12, attacks=("frame",), vlm=vlm, prompts=PROMPTS)
    return PROTOCOLS.make("zero-shot", dataset=data, config=replace(config, **changes), device=CPU, folder=folder)


def test_the_action_is_read_without_training_and_attackers_are_fresh(
    minute: TheatreDataset, tmp_path: Path, trained: list[str]
) -> None:
    vlm = write_vlm(tmp_path / "vlm")
    result = judging(minute, tmp_path / "kept", vlm, seeds=2).judge([COARSE], RAW)
    assert trained == ["frame"] * 4  # two anonymizers, two seeds; nobody learned the action
    assert result.protocol == "zero-shot"
    assert result.models["frame"] == "tiny-frame" and result.models["action"].startswith("small X-CLIP-shaped model")
    assert any("asked: 'a person {}', 'somebody {}'" in note for note in result.notes)

    # The same by hand: pixels as they are in the file, brought from 32 to 16 a side; the mean of two templates' logits.
    model, clips = load_vlm(vlm), minute.split("test", "person")
    truth = minute.labels(clips).action
    for line, anonymizer in zip(result.lines, (RAW, COARSE), strict=True):
        with torch.no_grad():
            seen = anonymizer(minute.clips(clips).pixels[:, 0].float() / 255)
            seen = (seen * 255).round() / 255
            small = torch.nn.functional.interpolate(seen.flatten(0, 1), (16, 16), mode="bilinear", antialias=True)
            logits = sum(
                model.zero_shot(small.unflatten(0, (-1, 4)), [template.replace("{}", p) for p in minute.phrases()])
                for template in PROMPTS
            )
        right = (torch.as_tensor(logits).argmax(1) == truth).float().mean().item()
        assert line.utility.value == pytest.approx(right)
        assert line.utility_per_seed == pytest.approx([right] * 2)
        assert line.utility.chance == 0.5 and line.utility.raw == result.lines[0].utility.value
        assert line.utility.low <= line.utility.value <= line.utility.high
        assert [a.name for a in line.attacks[0].attributes] == [a.name for a in minute.attributes]
        for attribute in line.attacks[0].attributes:
            assert attribute.ap_gain == pytest.approx(attribute.ap.value - attribute.ap.chance)
            assert attribute.f1_gain == pytest.approx(attribute.f1 - attribute.coin_f1)
    # Read once for both seeds: one file for the action, two for the attacker, of each anonymizer.
    assert len(list((tmp_path / "kept").iterdir())) == 6


class Colours(VideoLanguageModel):
    """Embeds a clip as its mean (red, green) and every prompt as a vector it is told; notes the size it was given."""

    summary = "reader of colours"

    def __init__(self, frames: int = 2) -> None:
        super().__init__((frames, 4, 4), 4, Pixels((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
        self.given: set[tuple[int, ...]] = set()

    @property
    def scale(self) -> Tensor:
        return torch.tensor(2.0)

    def encode_video(self, pixels: Tensor) -> VideoEmbeddings:
        self.given.add(tuple(pixels.shape[1:]))
        frame = pixels.mean((3, 4))[:, :, :2]
        return VideoEmbeddings(frame[:, :, None], frame, frame.mean(1))

    def encode_text(self, prompts: Sequence[str]) -> Tensor:
        raise AssertionError("the test gives the embeddings itself")


def clip(red: int, green: int, side: int = 4) -> Tensor:
    return torch.tensor([red, green, 7], dtype=torch.uint8)[None, :, None, None].expand(2, 3, side, side)


def test_logits_are_averaged_over_templates_and_shares_over_views() -> None:
    # Cosines of the first view (red) with both templates: (1, 0) and (.6, .8); of the second (green): (0, 1) and (.8, .6).
    pixels = torch.stack([clip(200, 0), clip(0, 100)])[None]
    text = torch.tensor([[[1.0, 0.0], [0.0, 3.0]], [[0.6, 0.8], [0.8, 0.6]]])

    def share(margin: float) -> float:
        return 1 / (1 + math.exp(-margin))

    # Scaled by 2: logit margins red 2·(1 − 0) and 2·(.6 − .8), mean .8; green −2 and 2·(.8 − .6), mean −.8.
    expected = (share(0.8) + share(-0.8)) / 2
    assert expected == pytest.approx(0.5)
    found = zero_shot.zero_shot(Colours(), pixels, text, CPU)
    assert found.shape == (1, 2) and found[0, 0].item() == pytest.approx(expected, abs=1e-5)
    alone = zero_shot.zero_shot(Colours(), pixels[:, :1], text, CPU)
    assert alone[0].tolist() == pytest.approx([share(0.8), share(-0.8)], abs=1e-5)


def test_frames_of_another_size_are_resized_and_many_clips_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero_shot, "BATCH", 2)
    model = Colours()
    pixels = torch.stack([clip(200, 0, 10), clip(0, 200, 10), clip(200, 0, 10)])[:, None]
    found = zero_shot.zero_shot(model, pixels, torch.eye(2)[None], CPU)
    assert found.argmax(1).tolist() == [0, 1, 0]
    assert model.given == {(2, 3, 4, 4)}


def test_clips_of_another_length_are_refused_with_both_shapes(minute: TheatreDataset, tmp_path: Path) -> None:
    vlm = write_vlm(tmp_path / "vlm", clip=(8, 16, 32))
    with pytest.raises(SfumatoError) as error:
        judging(minute, tmp_path / "kept", vlm)
    assert "(8, 3, 16, 32), and those of theatre:small are (4, 3, 32, 32)" in error.value.what
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"vlm": ""}, "zero-shot needs a vision-language model: name one by --vlm: vlm (ships,"),
        ({"vlm": "no/such/folder"}, "there is no folder 'no/such/folder'"),
        ({"prompts": ("a person",)}, "the template 'a person' has no place for the label"),
        ({"prompts": ("a {}", "b {}", "A  {}")}, "the templates 'a {}' and 'A  {}' are the same"),
    ],
)
def test_a_wrong_question_is_refused(
    minute: TheatreDataset, tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SfumatoError) as error:
        judging(minute, tmp_path / "kept", **{"vlm": write_vlm(tmp_path / "vlm"), **changes})
    assert complaint in str(error.value) and error.value.next_step
    assert not (tmp_path / "kept").exists()


def test_actions_that_the_model_reads_alike_are_refused(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minute, "phrases", lambda: ("kick", "pull"))
    with pytest.raises(SfumatoError) as error:
        judging(minute, tmp_path / "kept", write_vlm(tmp_path / "vlm"), prompts=("a person {}",))
    assert "cannot tell 'a person kick' from 'a person pull'" in str(error.value)
    assert "does not know the words kick, pull: describe the actions" in str(error.value)
    assert not (tmp_path / "kept").exists()


def test_clips_without_actions_are_refused(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minute, "actions", ())  # as those of a folder of recordings
    monkeypatch.setattr(minute, "phrases", lambda: ())
    with pytest.raises(SfumatoError, match="theatre:small has fewer than two actions: give two actions or more"):
        judging(minute, tmp_path / "kept", write_vlm(tmp_path / "vlm"))
    assert not (tmp_path / "kept").exists()


def test_unknown_words_are_told_once_among_the_notes(
    minute: TheatreDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vlm = write_vlm(tmp_path / "vlm")
    assert not any("never read" in note for note in judging(minute, tmp_path / "kept", vlm).notes)
    monkeypatch.setattr(minute, "phrases", lambda: ("raises a leg", "does jumping jacks and hops"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = judging(minute, tmp_path / "kept", vlm, prompts=("a person {}", "somebody now {}"))
    told = [note for note in made.notes if "never read" in note]
    assert told == ["words that this model has never read count as <unk>: and, hops, leg, now"]


def test_what_is_kept_belongs_to_one_model_and_its_prompts(minute: TheatreDataset, tmp_path: Path) -> None:
    one, copy, other = (write_vlm(tmp_path / name, seed) for name, seed in (("one", 0), ("copy", 0), ("other", 1)))

    changed = SmallVLM(SMALL)
    changed.load_state_dict(load_vlm(one).state_dict())
    torch.nn.init.ones_(changed.project_video.weight)  # sees otherwise, reads the same
    save_vlm(changed, tmp_path / "changed")

    def key(vlm: str = one, seed: int = 0, exam: int = 0, **changes: Any) -> Path:
        made = judging(minute, tmp_path, vlm, **changes)
        return made._key(made.exams[exam], COARSE, seed)

    seen = {key(), key(other), key(str(tmp_path / "changed")), key(prompts=PROMPTS[:1]), key(prompts=PROMPTS[::-1])}
    assert len(seen) == 5
    assert key() == key(copy) == key(seed=1) == key(epochs=9)  # where it lies and how others train do not matter
    # The attackers are those of the known protocol: what they found there is reused, whoever reads the action.
    there = KnownProtocol(minute, JudgeConfig(models="tiny", epochs=1, batch=12), device=CPU, folder=tmp_path)
    assert key(exam=1) == key(other, exam=1) == there._key(there.exams[1], COARSE, 0) != key(seed=1, exam=1)


def test_all_attackers_of_the_known_protocol_attack(minute: TheatreDataset, tmp_path: Path) -> None:
    made = judging(minute, tmp_path, write_vlm(tmp_path / "vlm"), attacks=())
    assert made.exams == KnownProtocol(minute, JudgeConfig(models="tiny"), device=CPU, folder=tmp_path).exams
    assert made.exams[0] == UTILITY


def test_drawn_actions_are_described_and_others_named(minute: TheatreDataset) -> None:
    assert minute.phrases() == ("raises a hand", "does jumping jacks")
    assert len(minute.phrases()) == len(minute.actions)


def test_without_prompts_a_person_does_it(minute: TheatreDataset, tmp_path: Path) -> None:
    made = judging(minute, tmp_path, write_vlm(tmp_path / "vlm"), prompts=())
    asked, resized = made.notes[-2:]
    assert asked.endswith("asked: 'a person {}'") and "(32×32 and 16×16): they are resized for it" in resized
