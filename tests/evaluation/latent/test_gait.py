from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sfumato.datasets.annotations import Annotation
from sfumato.evaluation.latent.base import LatentConfig
from sfumato.evaluation.latent.gait import GaitProtocol, other_clothes, repetitions

from .toys import CONSTANT, CPU, HAT, WHO, attack, judged, keep, short


def dressed() -> object:
    """Everybody in a coat in a third of the videos, and in the same other clothes else."""
    return short(clothes=lambda person, n: "coat" if n % 5 == 0 else "suit")


def test_two_thirds_of_each_clothes_are_enrolled() -> None:
    worn = ["suit"] * 6 + ["coat"] * 3 + ["bare"]
    told = [Annotation(str(n), person="7", attributes={"clothes": c}) for n, c in enumerate(worn)]
    gallery, probes = repetitions(told, torch.arange(10))
    assert gallery.tolist() == [0, 1, 2, 3, 6, 7, 9]
    assert probes.tolist() == [4, 5, 8]


def test_in_other_clothes_than_the_gallery() -> None:
    told = [Annotation(str(n), person="7", attributes={"clothes": c}) for n, c in enumerate(("coat", "suit", "suit"))]
    gallery, probes = other_clothes(told, torch.arange(3))
    assert gallery.tolist() == [1, 2] and probes.tolist() == [0]


def test_who_moves_like_that_is_found_by_it_and_not_by_a_constant() -> None:
    result = judged(dressed(), "gait", moves=keep(WHO), constant=CONSTANT, hat=keep(HAT))
    for exam in ("gait", "gait-clothes"):
        moves = attack(result, "moves", exam)
        assert moves.score.value > 0.8 and moves.metric == "rank-1"
        assert moves.score.chance == pytest.approx(1 / 6, abs=0.05)
        nothing = attack(result, "constant", exam)
        assert abs(nothing.score.value - nothing.score.chance) < 0.3
        assert attack(result, "hat", exam).score.value < 0.5
    (strongest,) = result.lines[1].strongest
    assert strongest.target == "re-identification" and strongest.attackers == ["gait-clothes"]
    assert any(note.startswith("moves: gait-clothes rank-1") for note in result.notes)


def test_clothes_give_nobody_away_where_they_differ() -> None:
    # A person's look is that of their clothes: who is found in the same ones is not found in others.
    data = dressed()
    draw = torch.Generator().manual_seed(1)
    looks: dict[tuple[str, str], torch.Tensor] = {}
    for video, told in enumerate(data.annotations):
        look = looks.setdefault((told.person, told.attributes["clothes"]), 3 * torch.randn(4, generator=draw))
        data.vectors[int(data.first[video]), :, WHO] = look
    result = judged(data, "gait", worn=keep(WHO))
    assert attack(result, "worn", "gait").score.value == 1
    assert attack(result, "worn", "gait-clothes").score.value < 0.6


def test_only_walking_counts_where_somebody_walks() -> None:
    data = short()
    data.annotations = [replace(a, action="walk on" if a.action != "bow" else "bow") for a in data.annotations]
    protocol = GaitProtocol(data, LatentConfig("tiny"), CPU)
    (gallery, probes) = protocol.sides["gait"]["test"]
    assert {data.annotations[v].action for v in torch.cat([gallery, probes]).tolist()} == {"walk on"}
    assert not any("nobody walks" in note for note in protocol.notes)
    assert any("nobody walks" in note for note in GaitProtocol(short(), LatentConfig("tiny"), CPU).notes)
