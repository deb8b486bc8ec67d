from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from sfumato.recognizers import make_recognizer
from sfumato.training.fit import ClipSet, Fit, FitConfig, fit, predict

CPU = torch.device("cpu")
QUICK = FitConfig(epochs=4, batch=8, learning_rate=1e-2)


def toy(count: int, seed: int = 0, frames: int = 4) -> ClipSet:
    """Red or blue clips: question 0 asks for the colour, question 1 (of three values) cannot be answered from it."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(2, (count,), generator=generator)
    pixels = torch.randint(0, 90, (count, 1, frames, 3, 16, 16), generator=generator, dtype=torch.uint8)
    pixels[torch.arange(count), :, :, 2 * label] += 120
    return ClipSet(pixels, torch.stack([label, torch.randint(3, (count,), generator=generator)], 1))


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    return float((probabilities[:, :2].argmax(1) == labels[:, 0]).float().mean())


def tiny(outputs: int = 5, kind: str = "tiny-video") -> nn.Module:
    torch.manual_seed(0)
    return make_recognizer(kind, outputs, clip=(4, 16, 16), width=0.25)


class Mean(nn.Module):
    """Logits (B, 2): a parameter, and the clip's mean brightness; notes what it is shown, and in which mode."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(2))
        self.seen: list[Tensor] = []
        self.modes: list[bool] = []

    def forward(self, clips: Tensor) -> Tensor:
        self.seen.append(clips.detach().clone())
        self.modes.append(self.training)
        bright = clips.mean((1, 2, 3, 4))
        return torch.stack([bright, torch.zeros_like(bright)], 1) + self.bias


def test_predict_averages_softmax_over_the_views() -> None:
    class Echo(nn.Module):
        def forward(self, clips: Tensor) -> Tensor:
            return torch.stack([clips[:, 0, 0, 0, 0] * 255, torch.zeros(len(clips))], 1)

    pixels = torch.zeros(1, 2, 1, 3, 2, 2, dtype=torch.uint8)
    pixels[:, 1] = 4  # logits (0, 0) in the one view, (4, 0) in the other
    found = predict(Echo(), pixels, (2,), FitConfig(), CPU)
    assert found[0, 0].item() == pytest.approx((0.5 + 1 / (1 + math.exp(-4))) / 2)
    assert found.sum().item() == pytest.approx(1)


def test_predict_gives_each_question_its_own_softmax_in_the_order_of_the_clips() -> None:
    pixels = toy(21).pixels
    model = tiny()
    found = predict(model, pixels, (2, 3), replace(QUICK, batch=4), CPU)
    assert found.shape == (21, 5)
    assert found[:, :2].sum(1).allclose(torch.ones(21)) and found[:, 2:].sum(1).allclose(torch.ones(21))
    assert found[13:14].allclose(predict(model, pixels[13:14], (2, 3), QUICK, CPU), atol=1e-5)


def test_predict_averages_softmax_over_crops_from_end_to_end() -> None:
    pixels = torch.zeros(1, 1, 2, 3, 8, 8, dtype=torch.uint8)
    pixels[..., 6:] = 255  # the right quarter is white
    model = Mean()
    found = predict(model, pixels, (2,), replace(QUICK, test_crop=0.5, test_crops=3), CPU)
    assert [clips.shape for clips in model.seen] == [(1, 2, 3, 8, 8)] * 3
    # Of the left half nothing is white, of the middle nothing, of the right half half of it.
    shares = [torch.tensor([mean, 0.0]).softmax(0) for mean in (0, 0, float(model.seen[2].mean()))]
    assert model.seen[2].mean() == pytest.approx(0.5) and not model.seen[0].any() and not model.seen[1].any()
    assert torch.allclose(found[0], torch.stack(shares).mean(0))
    centre = Mean()
    predict(centre, pixels, (2,), replace(QUICK, test_crop=0.75), CPU)  # columns 1 to 6, of which the last is white
    assert centre.seen[0].mean() == pytest.approx(1 / 6, abs=0.02)


def test_predict_puts_the_model_into_eval_mode() -> None:
    model = Mean().train()
    predict(model, toy(4).pixels, (2,), QUICK, CPU)
    assert model.modes == [False]


def test_predict_spreads_test_frames_evenly() -> None:
    pixels = torch.arange(9, dtype=torch.uint8).view(1, 1, 9, 1, 1, 1).expand(1, 1, 9, 3, 2, 2)
    model = Mean()
    predict(model, pixels, (2,), replace(QUICK, test_frames=3), CPU)
    assert (model.seen[0][0, :, 0, 0, 0] * 255).round().tolist() == [0, 4, 8]


@pytest.mark.parametrize(("kind", "frames"), [("tiny-video", None), ("tiny-frame", 2)])
def test_fit_learns_what_can_be_learned(kind: str, frames: int | None) -> None:
    config = replace(QUICK, frames=frames)
    found = fit(tiny(kind=kind), toy(48), toy(24, 1), (2, 3), config, score=accuracy, seed=0, device=CPU)
    fresh = toy(32, 2)
    assert accuracy(predict(found.model, fresh.pixels, (2, 3), config, CPU), fresh.labels) > 0.9
    assert found.validation == max(found.curve) and len(found.curve) == 4


def run(scores: list[float], config: FitConfig = QUICK) -> tuple[Fit, list[dict[str, Tensor]]]:
    """A training whose validation scores are given, and the model's weights as they were after each epoch."""
    model, after = Mean(), []
    told = iter(scores)

    def score(probabilities: Tensor, labels: Tensor) -> float:
        after.append({k: v.clone() for k, v in model.state_dict().items()})
        return next(told)

    labels = toy(16).labels[:, :1]
    data = ClipSet(toy(16).pixels, labels)
    return fit(model, data, data, (2,), config, score=score, seed=0, device=CPU), after


def test_the_best_epoch_on_validation_is_kept_not_the_last() -> None:
    found, after = run([0.2, 0.9, 0.4, 0.3])
    assert (found.validation, found.curve) == (0.9, [0.2, 0.9, 0.4, 0.3])
    kept = found.model.state_dict()
    assert kept["bias"].equal(after[1]["bias"])
    assert not kept["bias"].equal(after[3]["bias"])
    assert not found.model.training


def test_trap_6_best_epoch_is_picked_on_validation_never_on_test() -> None:
    """Train and validation disagree about the labels: the epoch kept is the one validation likes, and no other counts.

    What a model scores elsewhere (here: the mirror image of validation, as a test set might) must not matter.
    """
    train, validation = toy(48), toy(24, 1)
    flipped = ClipSet(validation.pixels, torch.stack([1 - validation.labels[:, 0], validation.labels[:, 1]], 1))
    shown: list[Tensor] = []

    def score(probabilities: Tensor, labels: Tensor) -> float:
        shown.append(labels)
        return accuracy(probabilities, labels)

    found = fit(tiny(), train, flipped, (2, 3), replace(QUICK, epochs=5), score=score, seed=0, device=CPU)
    assert all(labels.equal(flipped.labels) for labels in shown) and len(shown) == 5
    best = max(range(5), key=lambda epoch: (found.curve[epoch], epoch))
    assert found.validation == found.curve[best] == max(found.curve)
    # The wrong way round, the worse a model has learned the task the better: the first epochs win, not the last.
    kept = predict(found.model, flipped.pixels, (2, 3), QUICK, CPU)
    assert accuracy(kept, flipped.labels) == pytest.approx(found.validation)
    assert found.validation > found.curve[-1]


def test_training_is_in_train_mode_and_every_clip_is_seen_once_an_epoch() -> None:
    found, _ = run([0.0] * 4, replace(QUICK, batch=4, flip=False))
    assert isinstance(found.model, Mean)
    training = [clips for clips, mode in zip(found.model.seen, found.model.modes, strict=True) if mode]
    assert [len(clips) for clips in training] == [4] * 16  # 16 clips in batches of 4, 4 epochs


def test_fewer_clips_than_a_batch_are_one_batch() -> None:
    found, _ = run([0.0] * 4, replace(QUICK, batch=100))
    assert isinstance(found.model, Mean)
    assert [len(c) for c, mode in zip(found.model.seen, found.model.modes, strict=True) if mode] == [16] * 4


def test_what_is_shown_does_not_depend_on_the_labels() -> None:
    shown = []
    for labels in (torch.zeros(16, 1, dtype=torch.int64), torch.ones(16, 1, dtype=torch.int64)):
        model, data = Mean(), ClipSet(toy(16).pixels, labels)
        fit(model, data, data, (2,), QUICK, score=lambda p, t: 0.0, seed=3, device=CPU)
        shown.append(model.seen)
    assert all(a.equal(b) for a, b in zip(*shown, strict=True))


def test_the_seed_makes_the_training() -> None:
    def weights(seed: int) -> Tensor:
        found = fit(tiny(), toy(16), toy(8, 1), (2, 3), replace(QUICK, epochs=1), score=accuracy, seed=seed, device=CPU)
        return torch.cat([p.detach().flatten() for p in found.model.parameters()])

    first = weights(0)
    assert first.equal(weights(0))
    assert not first.equal(weights(1))


def test_random_frames_keep_their_order_and_random_views_are_all_seen() -> None:
    # Frame t of view v has the brightness 100·v + 10·t.
    values = 100 * torch.arange(2)[:, None] + 10 * torch.arange(8)
    pixels = values.to(torch.uint8).view(1, 2, 8, 1, 1, 1).expand(6, 2, 8, 3, 4, 4).contiguous()
    model, data = Mean(), ClipSet(pixels, torch.zeros(6, 1, dtype=torch.int64))
    fit(model, data, data, (2,), replace(QUICK, frames=3), score=lambda p, t: 0.0, seed=0, device=CPU)
    seen = torch.cat([clips for clips, mode in zip(model.seen, model.modes, strict=True) if mode])
    assert seen.shape[1] == 3
    brightness = seen[:, :, 0, 0, 0]
    assert (brightness.diff(dim=1) > 0).all()
    assert brightness[:, 0].unique().numel() > 5
    assert (brightness[:, 2] < 0.4).any() and (brightness[:, 0] > 0.35).any()


def test_progress_is_reported_after_every_epoch() -> None:
    told: list[tuple[int, int, float]] = []
    data = ClipSet(toy(8).pixels, toy(8).labels[:, :1])
    fit(
        Mean(), data, data, (2,), replace(QUICK, epochs=2), score=lambda p, t: 0.5, seed=0, device=CPU,
        report=lambda *line: told.append(line),
    )  # fmt: skip
    assert told == [(1, 2, 0.5), (2, 2, 0.5)]


def test_clips_that_are_not_moved_stay_where_they_are() -> None:
    pixels = torch.zeros(4, 1, 2, 3, 8, 8, dtype=torch.uint8)
    pixels[..., 2, 5] = 200
    seen: list[Tensor] = []

    class Watching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(1, 2)

        def forward(self, video: Tensor) -> Tensor:
            if self.training:
                seen.append(video)
            logits: Tensor = self.fc(video.mean((1, 2, 3, 4))[:, None])
            return logits

    clips = ClipSet(pixels, torch.zeros(4, 1, dtype=torch.int64))
    for moved in (False, True):
        seen.clear()
        config = FitConfig(epochs=3, batch=4, flip=False, moved=moved)
        fit(Watching(), clips, clips, (2,), config, score=lambda p, y: 0.0, seed=0, device=torch.device("cpu"))
        places = (torch.cat(seen) > 0).flatten(0, 2).any(0)
        assert moved == (int(places.sum()) > 1)
        assert places[2, 5]
