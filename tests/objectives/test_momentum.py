"""MoCo's queue and its slow encoder."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.objectives.momentum import KeyQueue, follow

UP, RIGHT, DOWN, LEFT = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]]).split(1)


class Queue(KeyQueue):
    """Whose keys and queries are all of different videos, unless it is said otherwise."""

    def push(self, keys: Tensor, videos: Tensor | None = None) -> None:
        super().push(keys, -1 - torch.arange(len(keys)) if videos is None else videos)

    def contrast(self, query: Tensor, key: Tensor, temperature: float) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return super().contrast(query, key, torch.arange(len(query)), temperature)


def queue_of(*keys: Tensor, size: int = 4) -> Queue:
    queue = Queue(size, 2)
    queue.push(torch.cat(keys))
    return queue


def test_info_nce_worked_by_hand() -> None:
    queue = queue_of(5 * RIGHT, DOWN)
    query = torch.tensor([[3.0, 4.0], [2.0, 0.0]])
    key = torch.tensor([[0.0, 9.0], [0.0, 1.0]])
    # Query 0 is (.6, .8): its key at cosine .8, the queue at .6 and −.8. Query 1 is (1, 0): key 0, queue 1 and 0.
    cosines = [(0.8, 0.6, -0.8), (0.0, 1.0, 0.0)]
    h = [[math.exp(c / 0.5) for c in row] for row in cosines]
    loss, accuracy = queue.contrast(query, key, 0.5)
    assert loss.item() == pytest.approx(sum(-math.log(row[0] / sum(row)) for row in h) / 2)
    assert accuracy.item() == 0.5


def test_an_older_key_of_the_same_video_is_no_negative() -> None:
    queue, query = KeyQueue(4, 2), torch.cat([RIGHT, RIGHT])
    queue.push(torch.cat([RIGHT, LEFT]), torch.tensor([7, 8]))
    loss, accuracy = queue.contrast(query, query, torch.tensor([7, 9]), 0.5)
    # The first query meets LEFT alone; the second also RIGHT, which is as near as its own key.
    first, second = (
        -math.log(math.exp(2) / total) for total in (math.exp(2) + math.exp(-2), 2 * math.exp(2) + math.exp(-2))
    )
    assert loss.item() == pytest.approx((first + second) / 2)
    assert accuracy.item() == pytest.approx((1 + 0.5) / 2)


def test_places_not_yet_filled_are_no_negatives() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(3, 2), torch.randn(3, 2)
    loose, tight = queue_of(UP, LEFT, size=64), queue_of(UP, LEFT, size=2)
    assert loose.contrast(query, key, 0.1)[0].item() == tight.contrast(query, key, 0.1)[0].item()


def test_all_alike_is_chance() -> None:
    torch.manual_seed(0)
    same = torch.randn(1, 2).expand(3, -1)
    loss, accuracy = queue_of(same).contrast(same, same, 0.1)
    assert loss.item() == pytest.approx(math.log(4), rel=1e-5)
    assert accuracy.item() == pytest.approx(1 / 4)  # and not 1, which the key's place before the queue would make it


def test_only_the_query_learns_and_towards_its_key() -> None:
    query, key = torch.tensor([[1.0, 1.0]], requires_grad=True), UP.clone().requires_grad_()
    queue = queue_of(RIGHT)
    loss, accuracy = queue.contrast(query, key, 0.5)
    queue.push(key)  # before the step backward, as a training loop may
    loss.backward()
    assert key.grad is None and not accuracy.requires_grad and not queue.keys.requires_grad
    assert query.grad is not None and query.grad[0, 0] > 0 > query.grad[0, 1]  # downhill: less right, more up


def test_an_empty_queue_says_so() -> None:
    with pytest.raises(SfumatoError, match="no negatives: push a batch of keys first"):
        Queue(4, 2).contrast(UP, UP, 0.1)


def test_batches_that_do_not_divide_the_size_wrap_round() -> None:
    queue = Queue(3, 2)
    queue.push(torch.cat([UP, RIGHT]))
    assert (int(queue.filled), int(queue.next)) == (2, 2)
    queue.push(torch.cat([DOWN, 4 * LEFT]))  # the second one takes the place of the oldest, and is stored with length 1
    assert torch.equal(queue.keys, torch.cat([LEFT, RIGHT, DOWN]))
    assert (int(queue.filled), int(queue.next)) == (3, 1)


def test_of_more_keys_than_there_is_room_for_the_newest_stay() -> None:
    queue = queue_of(UP, RIGHT, DOWN, LEFT, size=2)
    assert torch.equal(queue.keys, torch.cat([DOWN, LEFT]))
    assert (int(queue.filled), int(queue.next)) == (2, 0)
    queue.push(UP)
    assert torch.equal(queue.keys, torch.cat([UP, LEFT]))  # the older of the two went


def test_a_queue_is_resumed_from_its_state() -> None:
    queue, resumed = queue_of(UP, RIGHT, DOWN), Queue(4, 2)
    assert set(queue.state_dict()) == {"keys", "videos", "filled", "next"}
    resumed.load_state_dict({name: value.clone() for name, value in queue.state_dict().items()})
    for each in (queue, resumed):
        each.push(torch.cat([LEFT, DOWN]))
    assert torch.equal(queue.keys, resumed.keys) and int(resumed.filled) == 4 and int(resumed.next) == 1
    assert queue.contrast(UP, UP, 0.1)[0] == resumed.contrast(UP, UP, 0.1)[0]


def pair() -> tuple[nn.BatchNorm1d, nn.BatchNorm1d]:
    slow, fast = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    nn.init.constant_(slow.weight, 8.0)
    nn.init.constant_(fast.weight, 4.0)
    fast(torch.randn(8, 3))  # moves its running statistics
    return slow, fast


def test_parameters_follow_slowly_and_buffers_at_once() -> None:
    slow, fast = pair()
    follow(slow, fast, 0.75)
    assert slow.weight.tolist() == [7, 7, 7]  # .75 · 8 + .25 · 4
    assert fast.weight.tolist() == [4, 4, 4]  # who is followed does not move
    assert all(torch.equal(a, b) for a, b in zip(slow.buffers(), fast.buffers(), strict=True))
    assert slow.num_batches_tracked is not None and int(slow.num_batches_tracked) == 1


def test_momentum_one_stays_and_zero_copies() -> None:
    slow, fast = pair()
    follow(slow, fast, 1.0)
    assert slow.weight.tolist() == [8, 8, 8]
    follow(slow, fast, 0.0)
    assert slow.weight.tolist() == [4, 4, 4]
    assert slow.weight.requires_grad and slow.weight.is_leaf


def test_only_the_like_can_be_followed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        follow(nn.Linear(2, 2), nn.Linear(2, 2, bias=False), 0.9)
