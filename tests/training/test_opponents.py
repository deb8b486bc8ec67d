"""f_B: what each kind minimises, what f_A gets to maximise, what guessing would give, and that each can learn."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from sfumato.objectives.contrastive import nt_xent, retrieval_accuracy
from sfumato.objectives.labels import entropy, heads_loss
from sfumato.objectives.momentum import KeyQueue
from sfumato.objectives.rotation import rotate_all, rotation_loss
from sfumato.training.opponents import (
    Contrastive,
    Kind,
    Labelled,
    Lineup,
    MomentumContrastive,
    Opponent,
    Rotation,
    Views,
    answered,
    make_opponent,
)

KINDS: tuple[Kind, ...] = ("nt-xent", "moco", "rotation", "labels")
HEADS = (2, 3)


def lineup(kind: Kind, network: str = "tiny-frame", heads: tuple[int, ...] = HEADS, keys: int = 1024) -> Lineup:
    return Lineup(kind, network, "group", (2, 16, 16), heads, width=0.25, keys=keys)


def made(kind: Kind, network: str = "tiny-frame", keys: int = 1024) -> Opponent:
    torch.manual_seed(0)
    return make_opponent(lineup(kind, network, keys=keys))


def views(count: int = 6, frames: int = 1, seed: int = 0) -> Views:
    draw = torch.Generator().manual_seed(seed)
    first, second = (torch.rand(count, frames, 3, 16, 16, generator=draw) for _ in range(2))
    answers = torch.stack([torch.randint(n, (count,), generator=draw) for n in HEADS], 1)
    return Views(first, second, answers, 1000 * seed + torch.arange(count))


def weights(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(a.equal(b) for a, b in zip(one, other, strict=True))


# ---- what all of them share --------------------------------------------------------------------------------------


def test_kinds_are_made_by_name() -> None:
    classes = (Contrastive, MomentumContrastive, Rotation, Labelled)
    assert tuple(type(made(kind)) for kind in KINDS) == classes


@pytest.mark.parametrize("network", ["tiny-frame", "tiny-video"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_reads_and_confuses(kind: Kind, network: str) -> None:
    opponent = made(kind, network)
    assert opponent.level == ("frame" if network == "tiny-frame" else "video")
    seen = views(frames=1 if opponent.level == "frame" else 2)
    opponent.remember(seen)
    seen.first.requires_grad_()
    loss, accuracy = opponent.reading(seen)
    assert loss.shape == accuracy.shape == ()
    assert 0 <= accuracy <= 1 and not accuracy.requires_grad
    # f_A's gradient comes through the pictures, f_B's own through its weights.
    (gradient,) = torch.autograd.grad(opponent.confusion(seen), seen.first)
    assert gradient.abs().sum() > 0
    loss.backward()
    for name, parameter in opponent.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name


@pytest.mark.parametrize("kind", ["nt-xent", "rotation"])
def test_without_labels_confusion_is_the_loss_itself(kind: Kind) -> None:
    opponent, seen = made(kind), views()
    assert opponent.confusion(seen).item() == opponent.reading(seen)[0].item()


@pytest.mark.parametrize("network", ["vit-s", "tiny-video"])
def test_the_norm_is_asked_of_networks_that_have_a_choice(network: str) -> None:
    shape = Lineup("nt-xent", network, "batch", (2, 16, 16), width=0.02 if network == "vit-s" else 0.25)
    norms = [m for m in make_opponent(shape).modules() if isinstance(m, nn.BatchNorm3d)]
    assert len(norms) == (0 if network == "vit-s" else 4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_opponent_knows_is_in_its_state_dict(kind: Kind) -> None:
    opponent, seen = made(kind), views()
    opponent.remember(seen)
    torch.manual_seed(1)
    other = make_opponent(lineup(kind))
    other.load_state_dict(opponent.state_dict())
    assert other.reading(seen)[0].item() == opponent.reading(seen)[0].item()


# ---- NT-Xent -----------------------------------------------------------------------------------------------------


def test_contrastive_is_nt_xent_on_its_projections() -> None:
    opponent, seen = made("nt-xent"), views()
    assert isinstance(opponent, Contrastive)
    opponent.lineup = replace(opponent.lineup, temperature=0.3)
    with torch.no_grad():
        loss, accuracy = opponent.reading(seen)
        first, second = opponent.project(seen.first), opponent.project(seen.second)
    assert first.shape == (6, 128)
    assert loss.item() == pytest.approx(nt_xent(first, second, 0.3).item(), rel=1e-4)
    assert accuracy.item() == retrieval_accuracy(first, second).item()


def test_contrastive_tells_videos_apart_by_features_not_by_its_head() -> None:
    opponent = made("nt-xent")
    idle = [name for name, parameter in opponent.named_parameters() if not parameter.requires_grad]
    assert idle == ["network.fc.weight", "network.fc.bias"]


def test_contrastive_chance_is_one_of_all_other_views() -> None:
    assert made("nt-xent").chance(torch.zeros(16, 0)) == 1 / 31
    # All projections alike: the tie is shared, and the reading is just that.
    opponent, seen = made("nt-xent"), views(count=16)
    opponent.requires_grad_(False)
    opponent.get_submodule("projection.2").weight.zero_()  # type: ignore[operator]
    opponent.get_submodule("projection.2").bias.fill_(1)  # type: ignore[operator]
    loss, accuracy = opponent.reading(seen)
    assert accuracy.item() == pytest.approx(1 / 31)
    assert loss.item() == pytest.approx(math.log(31))


# ---- MoCo --------------------------------------------------------------------------------------------------------


def momentum(keys: int = 1024) -> MomentumContrastive:
    opponent = made("moco", keys=keys)
    assert isinstance(opponent, MomentumContrastive)
    return opponent


def learn_a_step(opponent: Opponent, seen: Views) -> None:
    optimizer = torch.optim.SGD([p for p in opponent.parameters() if p.requires_grad], lr=0.1)
    opponent.reading(seen)[0].backward()
    optimizer.step()


def test_moco_is_info_nce_against_the_followers_keys() -> None:
    opponent, seen, earlier = momentum(), views(), views(seed=1)
    opponent.remember(earlier)
    with torch.no_grad():
        for parameter in opponent.follower.parameters():  # a follower that has fallen behind
            parameter.mul_(0.5)
        network, projection = opponent.follower
        key = projection(network.features(seen.second))  # type: ignore[operator]
        loss, accuracy = opponent.reading(seen)
        queue = KeyQueue(6, 128)
        queue.push(opponent.queue.keys[:6], earlier.videos)
        expected, share = queue.contrast(opponent.project(seen.first), key, seen.videos, 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert accuracy.item() == share.item()


def test_mocos_follower_starts_as_a_copy_and_gets_no_gradient() -> None:
    opponent = momentum()
    opponent.remember(views(seed=1))
    followed = weights(nn.ModuleList([opponent.network, opponent.projection]))
    assert same(weights(opponent.follower), followed)
    assert not any(parameter.requires_grad for parameter in opponent.follower.parameters())
    learn_a_step(opponent, views())
    assert all(parameter.grad is None for parameter in opponent.follower.parameters())
    assert same(weights(opponent.follower), followed)
    assert not same(weights(opponent.network), followed[: len(list(opponent.network.parameters()))])


def test_mocos_follower_moves_in_remember_alone() -> None:
    opponent = momentum()
    opponent.remember(views(seed=1))
    learn_a_step(opponent, views())
    before = weights(opponent.follower)
    with torch.no_grad():
        opponent.reading(views())
        opponent.confusion(views())
    assert same(weights(opponent.follower), before)
    opponent.remember(views())
    source = weights(nn.ModuleList([opponent.network, opponent.projection]))
    moved = False
    for old, goal, new in zip(before, source, weights(opponent.follower), strict=True):
        torch.testing.assert_close(new, 0.99 * old + 0.01 * goal)
        moved |= not new.equal(old)
    assert moved


def test_mocos_queue_grows_by_a_batch_up_to_its_size() -> None:
    opponent, filled = momentum(keys=16), []
    for step in range(4):
        opponent.remember(views(seed=step))
        filled.append(int(opponent.queue.filled))
        opponent.reading(views(seed=9))  # reading alone leaves it as it is
        assert int(opponent.queue.filled) == filled[-1]
    assert filled == [6, 12, 16, 16]


def test_moco_reads_nothing_before_there_are_negatives() -> None:
    opponent = momentum()
    loss, accuracy = opponent.reading(views())
    assert loss == 0 and accuracy == 0 and int(opponent.queue.filled) == 0  # reading alone leaves it as it is
    opponent.remember(views())
    assert opponent.reading(views(seed=1))[0] > 0


def test_moco_is_watched_among_keys_made_at_the_same_time() -> None:
    opponent, seen = momentum(), views(count=16)
    opponent.eval()
    with torch.no_grad():
        query, key = opponent.project(seen.first), opponent._key(seen.second)
        opponent.queue.push(-key, 100 + seen.videos)  # keys of a network that has changed since
        # Two views of one video are noise of their own here, and still each query is nearest to its own key.
        assert opponent.reading(seen)[1] == 1
        loss, accuracy = opponent.watched(seen)
    nearest = torch.cdist(nn.functional.normalize(query), nn.functional.normalize(key)).argmin(1)
    assert accuracy == (nearest == torch.arange(16)).float().mean() < 0.3
    assert loss > 0.8 * math.log(16)
    assert opponent.chance(seen.answers) == 1 / 16


# ---- RotNet ------------------------------------------------------------------------------------------------------


def test_rotation_is_told_by_the_first_view_turned_four_ways() -> None:
    opponent, seen = made("rotation"), views()
    with torch.no_grad():
        loss, accuracy = opponent.reading(seen)
        turned, labels = rotate_all(seen.first)
        logits = opponent.network(turned)
    assert logits.shape == (24, 4)
    assert loss.item() == pytest.approx(rotation_loss(logits, labels).item())
    assert accuracy.item() == (logits.argmax(1) == labels).float().mean().item()
    assert opponent.chance(seen.answers) == 0.25


def test_rotation_labels_count_quarter_turns() -> None:
    class Compass(nn.Module):
        """Knows which of the four edges is bright: the top one, turned anticlockwise, is left, bottom, right."""

        def forward(self, video: Tensor) -> Tensor:
            frame = video[:, 0, 0]
            edges = [frame[:, 0].sum(1), frame[..., 0].sum(1), frame[:, -1].sum(1), frame[..., -1].sum(1)]
            return torch.stack(edges, 1)

    opponent = made("rotation")
    del opponent.network
    opponent.network = Compass()  # type: ignore[assignment]
    top = torch.zeros(3, 1, 3, 16, 16)
    top[..., 0, :] = 1
    loss, accuracy = opponent.reading(Views(top, top, torch.zeros(3, 0), torch.arange(3)))
    assert accuracy.item() == 1 and loss.item() < 1e-3


# ---- labels ------------------------------------------------------------------------------------------------------


def labelled(network: str = "tiny-frame", confusion: str = "loss") -> Labelled:
    opponent = made("labels", network)
    assert isinstance(opponent, Labelled)
    opponent.lineup = replace(opponent.lineup, confusion=confusion)  # type: ignore[arg-type]
    with torch.no_grad():  # a fresh head knows so little that everything would be near equal
        opponent.network.head.weight.mul_(200)  # type: ignore[operator]
    return opponent


def test_a_labelled_reader_minimises_the_loss_on_its_questions() -> None:
    opponent, seen = labelled(), views()
    with torch.no_grad():
        loss, accuracy = opponent.reading(seen)
        logits = opponent.network(torch.cat([seen.first, seen.second], 1))
    assert logits.shape == (6, 5)
    assert loss.item() == pytest.approx(heads_loss(logits, seen.answers, HEADS).item())
    shares = [(part.argmax(1) == seen.answers[:, i]).float().mean() for i, part in enumerate(logits.split([2, 3], 1))]
    assert accuracy.item() == pytest.approx(float(sum(shares)) / 2)


def test_f_a_maximises_the_entropy_or_the_loss_as_asked() -> None:
    seen = views()
    with torch.no_grad():
        by_loss, by_entropy = labelled(confusion="loss"), labelled(confusion="entropy")
        assert by_loss.confusion(seen).item() == by_loss.reading(seen)[0].item()
        logits = by_entropy.network(torch.cat([seen.first, seen.second], 1))
        assert by_entropy.confusion(seen).item() == pytest.approx(entropy(logits, HEADS).item())
        assert by_entropy.confusion(seen).item() != pytest.approx(by_entropy.reading(seen)[0].item(), rel=1e-3)
        # Entropy does not ask what is true.
        unknown = replace(seen, answers=torch.full_like(seen.answers, -1))
        assert by_entropy.confusion(unknown).item() == by_entropy.confusion(seen).item()


def test_unknown_answers_count_for_nothing() -> None:
    opponent, seen = labelled(), views()
    seen.answers[2:, 0] = -1
    seen.answers[:, 1] = -1
    with torch.no_grad():
        loss, accuracy = opponent.reading(seen)
        known = Views(seen.first[:2], seen.second[:2], seen.answers[:2], seen.videos[:2])
        logits = opponent.network(torch.cat([known.first, known.second], 1))[:, :2]
    assert loss.item() == pytest.approx(heads_loss(logits, known.answers[:, :1], (2,)).item(), rel=1e-4)
    assert accuracy.item() == (logits.argmax(1) == known.answers[:, 0]).float().mean().item()
    nobody = replace(seen, answers=torch.full_like(seen.answers, -1))
    loss, accuracy = opponent.reading(nobody)
    loss.backward()
    assert loss.item() == accuracy.item() == 0


@pytest.mark.parametrize(("network", "frames", "together"), [("tiny-frame", 1, True), ("tiny-video", 2, False)])
def test_both_views_are_read_as_one_video_or_one_by_one(network: str, frames: int, together: bool) -> None:
    opponent, seen = labelled(network).eval(), views(frames=frames)
    seen.first.requires_grad_()
    seen.second.requires_grad_()
    logits = opponent._logits(seen)
    for gradient in torch.autograd.grad(logits.square().sum(), (seen.first, seen.second), retain_graph=True):
        assert gradient.abs().sum() > 0
    each = [opponent.network(video) for video in (seen.first, seen.second)]
    torch.testing.assert_close(logits, (each[0] + each[1]) / 2 if together else torch.cat(each), rtol=1e-4, atol=1e-5)
    answers = seen.answers if together else torch.cat([seen.answers, seen.answers])
    expected = heads_loss(logits, answers, opponent.lineup.heads)
    assert opponent.reading(seen)[0].item() == pytest.approx(expected.item(), rel=1e-5)


def test_chance_is_always_the_most_frequent_answer() -> None:
    # Question 0: three of four say 1. Question 1: of the two known, one each. Question 2: nobody knows.
    answers = torch.tensor([[1, -1, -1], [1, 0, -1], [0, 2, -1], [1, -1, -1]])
    assert made("labels").chance(answers) == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert made("labels").chance(torch.full((3, 2), -1)) == 0.0


@pytest.mark.parametrize("kind", ["rotation", "labels"])
def test_guessing_is_the_loss_where_every_answer_is_as_likely(kind: Kind) -> None:
    opponent = made(kind).requires_grad_(False)
    for parameter in opponent.parameters():
        parameter.zero_()
    assert opponent.reading(views())[0].item() == pytest.approx(opponent.guessing, rel=1e-6)


def test_answered_worked_by_hand() -> None:
    logits = torch.tensor([[2.0, 1, 0, 5, 0], [0, 1, 3, 0, 0], [1, 0, 0, 0, 9]])
    # Question 0 answers 0, 1, 0; question 1 answers 1, 0, 2.
    assert answered(logits, torch.tensor([[0, 1], [0, -1], [0, 0]]), HEADS).item() == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert answered(logits, torch.full((3, 2), -1), HEADS).item() == 0


# ---- each can learn ----------------------------------------------------------------------------------------------


def coloured(count: int, draw: torch.Generator) -> Views:
    """Red or blue noise; the answer is the colour."""
    answer = torch.randint(2, (count,), generator=draw)
    both = 0.4 * torch.rand(2, count, 1, 3, 16, 16, generator=draw)
    both[:, torch.arange(count), :, 2 * answer] += 0.5
    return Views(both[0], both[1], answer[:, None], torch.arange(count))


def bright_above(count: int, draw: torch.Generator) -> Views:
    """Noise with the light from above."""
    video = 0.5 * torch.rand(count, 1, 3, 16, 16, generator=draw)
    video[..., :8, :] += 0.5
    return Views(video, video, torch.zeros(count, 0), torch.arange(count))


def patterned(count: int, draw: torch.Generator) -> Views:
    """Each video has a pattern of four by four fields; colour and noise, which are stronger, differ between its views."""
    pattern = torch.rand(count, 1, 1, 4, 4, generator=draw).round().repeat_interleave(4, -1).repeat_interleave(4, -2)
    colour = torch.rand(2, count, 1, 3, 1, 1, generator=draw)
    both = 0.3 * pattern + 0.7 * colour * torch.rand(2, count, 1, 3, 16, 16, generator=draw) ** 0.3
    return Views(both[0], both[1], torch.zeros(count, 0), torch.arange(count))


@pytest.mark.parametrize(
    ("kind", "data", "steps", "before", "after"),
    [
        ("labels", coloured, 20, 0.7, 0.95),
        ("rotation", bright_above, 20, 0.35, 0.95),
        ("nt-xent", patterned, 50, 0.25, 0.6),
        ("moco", patterned, 60, 0.25, 0.4),
    ],
)
def test_a_fresh_opponent_knows_little_and_learns(
    kind: Kind, data: Callable[[int, torch.Generator], Views], steps: int, before: float, after: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(MomentumContrastive, "MOMENTUM", 0.8)  # the training is short
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(0)
    opponent = make_opponent(lineup(kind, heads=(2,), keys=48))
    for _ in range(3):
        opponent.remember(data(16, draw))
    optimizer = torch.optim.AdamW([p for p in opponent.parameters() if p.requires_grad], lr=3e-3)
    fresh = [data(16, draw) for _ in range(8)]

    def reads() -> float:
        with torch.no_grad():
            judge = copy.deepcopy(opponent).eval()
            return sum(float(judge.watched(seen)[1]) for seen in fresh) / len(fresh)

    assert reads() < before
    for _ in range(steps):
        seen = data(16, draw)
        optimizer.zero_grad()
        opponent.reading(seen)[0].backward()
        optimizer.step()
        opponent.remember(seen)
    assert reads() > after
