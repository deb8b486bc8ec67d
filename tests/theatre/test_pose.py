from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sfumato.theatre.cast import people
from sfumato.theatre.choreography import Tracks, actions, anomalies
from sfumato.theatre.compositions import compositions
from sfumato.theatre.pose import INDEX, REST, Pose, average_body, channels, joints, torso_frame

SOLE = 0.045 * 1.7  # an average adult's ankle above the floor


def stand(pose: Pose, mirror: float = 1.0) -> dict[str, Tensor]:
    """Joints (3,) of an average adult at rest but for `pose`."""
    found = joints(channels(pose, REST)[None].float(), average_body(1), torch.tensor([mirror]))
    return {name: point[0] for name, point in found.items()}


def direction(found: dict[str, Tensor], start: str, end: str) -> Tensor:
    line = found[end] - found[start]
    return line / line.norm()


def test_degrees_become_radians_and_metres_stay() -> None:
    pose = channels({"pitch": 90, "z": 0.4, "hold": 1, "L.arm": (180, 45)})
    assert pose[INDEX["pitch"]].item() == pytest.approx(math.pi / 2)
    assert pose[INDEX["L.arm.a"]].item() == pytest.approx(math.pi / 4)
    assert (pose[INDEX["z"]].item(), pose[INDEX["hold"]].item()) == (0.4, 1.0)


def test_at_rest_a_person_stands_upright_on_the_floor() -> None:
    found = stand({})
    assert found["L.ankle"][1].item() == pytest.approx(SOLE, abs=1e-5)
    assert found["R.ankle"][1].item() == pytest.approx(SOLE, abs=1e-5)
    heights = [found[name][1] for name in ("L.ankle", "L.knee", "pelvis", "neck", "head")]
    assert heights == sorted(heights)
    crown = found["head"][1] + average_body(1).head[0]
    assert crown.item() == pytest.approx(1.7, rel=0.05)
    assert found["L.wrist"][1] < found["L.elbow"][1] < found["L.shoulder"][1]


def test_left_is_left_and_the_face_looks_forward() -> None:
    found = stand({})
    assert found["L.shoulder"][0] > 0 > found["R.shoulder"][0]
    assert (found["face"] - found["head"]).tolist() == pytest.approx([0, 0, 1], abs=1e-5)
    assert found["L.toe"][2] > found["L.ankle"][2]


@pytest.mark.parametrize(
    ("angles", "expected"),
    [((90, 0), (0, 0, 1)), ((180, 0), (0, 1, 0)), ((0, 90), (1, 0, 0)), ((-90, 0), (0, 0, -1)), ((0, 0), (0, -1, 0))],
)
def test_an_arm_points_where_its_angles_say(angles: tuple[float, float], expected: tuple[float, ...]) -> None:
    found = stand({"L.arm": angles, "L.fore": angles})
    assert direction(found, "L.shoulder", "L.elbow").tolist() == pytest.approx(expected, abs=1e-5)
    assert direction(found, "L.shoulder", "L.wrist").tolist() == pytest.approx(expected, abs=1e-5)


def test_both_sides_move_alike_and_mirroring_swaps_them() -> None:
    found, mirrored = stand({"R.arm": (90, 30)}), stand({"R.arm": (90, 30)}, mirror=-1.0)
    flip = torch.tensor([-1.0, 1.0, 1.0])
    for name in found:
        assert mirrored[name].allclose(found[name] * flip)
    left, right = stand({"L.arm": (40, 60)})["L.wrist"], stand({"R.arm": (40, 60)})["R.wrist"]
    assert left.allclose(right * flip, atol=1e-6)


def test_leaning_rolling_and_twisting_turn_the_torso() -> None:
    zero, quarter = torch.zeros(1), torch.tensor([math.pi / 2])
    assert torso_frame(quarter, zero, zero).up[0].tolist() == pytest.approx([0, 0, 1], abs=1e-6)
    assert torso_frame(zero, quarter, zero).up[0].tolist() == pytest.approx([1, 0, 0], abs=1e-6)
    assert torso_frame(zero, zero, quarter).forward[0].tolist() == pytest.approx([1, 0, 0], abs=1e-6)
    oblique = torso_frame(torch.tensor([0.4]), torch.tensor([0.3]), torch.tensor([-0.7]))
    axes = torch.stack([oblique.left[0], oblique.up[0], oblique.forward[0]])
    assert (axes @ axes.T).allclose(torch.eye(3), atol=1e-5)
    assert torch.linalg.det(axes).item() == pytest.approx(1)


def test_lying_brings_head_and_feet_to_one_height() -> None:
    found = stand({"lie": 90})
    assert abs(found["head"][1] - found["L.ankle"][1]) < 0.25
    assert abs(found["head"][2] - found["L.ankle"][2]) > 1.2


def test_limbs_keep_their_length_in_every_pose() -> None:
    body = average_body(1)
    for pose in ({}, {"pitch": 60, "roll": 20, "twist": 40, "L.arm": (120, 50)}, {"lie": 70, "R.leg": (90, 10)}):
        found = stand(pose)
        assert (found["L.elbow"] - found["L.shoulder"]).norm().item() == pytest.approx(body.arm.item(), rel=1e-5)
        assert (found["R.ankle"] - found["R.knee"]).norm().item() == pytest.approx(body.leg.item(), rel=1e-5)


@pytest.mark.parametrize("partner", [False, True])
def test_nobody_ever_sinks_into_the_floor(partner: bool) -> None:
    motions = (*actions(), *anomalies(), *(c.motion for c in compositions()))
    tracks = Tracks(motions, partner=partner)
    phases = torch.linspace(0, 1, 21)
    motion = torch.arange(len(motions)).repeat_interleave(len(phases))
    phase = phases.repeat(len(motions))
    cast = people(0, torch.arange(len(motion)) % 40)
    for loop_phase in (phase, 1 - phase + 0.3):
        pose = tracks.pose(motion, phase, loop_phase, cast.amplitude)
        found = joints(pose, cast.body(), torch.ones(len(motion)))
        lowest = torch.stack([point[:, 1] for name, point in found.items() if name != "face"]).amin(0)
        assert (lowest >= 0.045 * cast.height - 1e-5).all()
        # Only jumping lifts the lowest point off the floor.
        raised = lowest > 0.045 * cast.height + 1e-4
        assert (pose[raised, INDEX["y"]] > 0).all()
