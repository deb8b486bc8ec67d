"""SPLAVU's adapter: identity at first, blind to batch-mates and padding, as many parameters as the paper says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.errors import SfumatoError
from sfumato.methods.splavu.config import SPLAVUConfig


def features(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def shaken(**settings: Any) -> LatentAdapter:
    """An adapter that is no identity any more, in eval mode."""
    torch.manual_seed(0)
    adapter = LatentAdapter(**{"width": 32, "heads": 4, "tokens": 4, **settings})
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return adapter.eval()


HONEST = pytest.mark.parametrize("attend", ["feature", "video", "none"])
ATTENTION = pytest.mark.parametrize("attend", ["feature", "video", "batch"])


@ATTENTION
@pytest.mark.parametrize("feed_forward", [True, False])
def test_it_begins_as_the_identity(attend: str, feed_forward: bool) -> None:
    adapter = LatentAdapter(32, heads=4, tokens=4, attend=attend, feed_forward=feed_forward)
    given = features(3, 5, 32)
    assert torch.equal(adapter(given), given)


@ATTENTION
def test_and_can_leave_it(attend: str) -> None:
    adapter, given = LatentAdapter(32, heads=4, tokens=4, attend=attend), features(2, 3, 32)
    optimizer = torch.optim.SGD(adapter.parameters(), lr=0.1)
    for _ in range(3):  # what begins at 0 moves first, and what feeds it after that
        loss = adapter(given).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert adapter(given).square().mean() < given.square().mean()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for n, p in adapter.named_parameters() if "bias" not in n)


@HONEST
def test_batch_mates_do_not_matter(attend: str) -> None:
    adapter, given = shaken(attend=attend), features(4, 5, 32)
    together = adapter(given)
    alone = torch.cat([adapter(video[None]) for video in given])
    assert torch.allclose(together, alone, atol=1e-5) and not torch.allclose(together, given, atol=1e-2)


def test_in_the_public_codes_way_they_do() -> None:
    adapter, given = shaken(attend="batch"), features(4, 1, 32)
    assert not torch.allclose(adapter(given)[:1], adapter(given[:1]), atol=1e-3)


@HONEST
@pytest.mark.parametrize("rubbish", [5.0, float("nan")])
def test_padding_does_not_matter_and_comes_back_as_it_was(attend: str, rubbish: float) -> None:
    adapter, given = shaken(attend=attend), features(2, 5, 32)
    mask = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    padded = given.clone()
    padded[0, 3:] = rubbish
    out = adapter(padded, mask)
    assert torch.allclose(out[0, :3], adapter(given[:1, :3])[0], atol=1e-5)
    assert torch.allclose(out[1], adapter(given[1:])[0], atol=1e-5)
    assert torch.equal(out[0, 3:].nan_to_num(7.0), padded[0, 3:].nan_to_num(7.0))


def test_only_with_video_does_a_clip_see_its_neighbours() -> None:
    given, other = features(1, 3, 32), features(1, 3, 32)
    other[0, 2] = other[0, 2].flip(0)
    for attend, sees in (("feature", False), ("none", False), ("video", True)):
        adapter = shaken(attend=attend)
        assert torch.allclose(adapter(given)[0, 0], adapter(other)[0, 0], atol=1e-5) is not sees


def test_features_are_looked_at_in_their_places() -> None:
    adapter, given = shaken(attend="feature"), features(1, 1, 32)
    turned = given.roll(8, dims=-1)  # the four pieces of eight, one place further
    assert not torch.allclose(adapter(turned), adapter(given).roll(8, dims=-1), atol=1e-3)


def test_a_video_without_any_clip_is_left_alone() -> None:
    given = features(1, 2, 32)
    out = shaken(attend="video")(given, torch.zeros(1, 2, dtype=torch.bool))
    assert torch.equal(out, given)


@pytest.mark.parametrize(("width", "millions"), [(1024, 25.6), (768, 14.6), (1280, 39.8), (1408, 48.0)])
def test_it_has_as_many_parameters_as_the_paper_counts(width: int, millions: float) -> None:
    with torch.device("meta"):
        trained = [LatentAdapter(width, attend="video"), nn.Linear(width, 400)]  # the adapter and the K400 head
    count = sum(p.numel() for module in trained for p in module.parameters())
    assert count == pytest.approx(24 * width**2 + 400 * width, rel=0.01)
    assert count / 1e6 == pytest.approx(millions, rel=0.01)


@pytest.mark.parametrize(("width", "millions"), [(768, 3.9), (1024, 6.8), (1280, 10.5), (1408, 12.6)])
def test_the_default_has_far_fewer(width: int, millions: float) -> None:
    with torch.device("meta"):
        trained = [LatentAdapter(width, tokens=SPLAVUConfig().pieces(width)), nn.Linear(width, 400)]
    assert sum(p.numel() for module in trained for p in module.parameters()) / 1e6 == pytest.approx(millions, abs=0.05)


def test_the_mlp_is_the_papers() -> None:
    kinds = [type(part).__name__ for part in LatentAdapter(8, layers=1, attend="none").layers[0].children()]
    assert kinds == ["Linear", "ReLU", "BatchNorm1d", "Dropout"]


def test_settings_make_it_again() -> None:
    adapter = shaken(layers=1, feed_forward=False)
    again = LatentAdapter(**adapter.settings())  # type: ignore[arg-type]
    again.load_state_dict(adapter.state_dict())
    assert torch.equal(again.eval()(features(1, 2, 32)), adapter(features(1, 2, 32)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attend": "people"}, "no attend = 'people'"),
        ({"heads": 5}, "5 heads do not divide a width of"),
        ({"tokens": 5}, "32 features cannot be cut into 5 equal pieces"),
        ({"layers": 0}, "layers = 0"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SfumatoError, match=message):
        LatentAdapter(
            **{
                "width": 32,
                "heads": 4,
                "tokens": 4,
                "attend": "video" if "heads" in settings else "feature",
                **settings,
            }
        )


@pytest.mark.parametrize("shape", [(2, 32), (2, 3, 16)])
def test_features_of_another_width_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SfumatoError, match="do not fit an adapter of width 32"):
        shaken()(features(*shape))
