"""SPLAVU: each term pulls its way, the encoder stands still, a resumed training ends the same, and planted looks are hidden."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.anonymizers.latent_storage import load_latent
from sfumato.methods import find_method
from sfumato.methods.splavu.budget import LabelReader
from sfumato.methods.splavu.config import TASKS, SPLAVUConfig
from sfumato.methods.splavu.train import CoTraining, gather_features, train
from sfumato.objectives.contrastive import nt_xent
from sfumato.recognizers.anomaly import mgfn_loss
from sfumato.recognizers.temporal_detection import detection_loss
from sfumato.training.run import RunFolder

from ..training.toys import CPU, equal, gradient, logged, same, snapshot
from .splavu_toys import WIDTH, make_learner, make_stage, probe, settings, trimmed, write_store, write_stores

LENGTH = 3e-3  # of a small step in f_A's parameters
EVERY = "action+detection+anomaly"
SUBSETS = ["+".join(some) for size in (1, 2, 3) for some in combinations(TASKS, size)]


def shaken(learner: CoTraining) -> CoTraining:
    """f_A no longer the identity, as after some training: at first L_LC has no gradient."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in learner.anonymizer.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return learner


def with_terms(learner: CoTraining, *names: str) -> None:
    """Let only these terms count."""
    every = learner.terms

    def some(*given: Any) -> dict[str, Tensor]:
        found = every(*given)
        return {name: found[name] for name in names}

    learner.terms = some  # type: ignore[method-assign]


def plain_descent(learner: CoTraining, rate: float) -> None:
    learner.optimizer = torch.optim.SGD(
        [p for module in (learner.anonymizer, *learner.tasks) for p in module.parameters()], lr=rate
    )


# ---- the loss ------------------------------------------------------------------------------------------------------


def test_the_terms_are_those_of_equations_4_to_7(tmp_path: Path) -> None:
    learner = shaken(
        make_learner(
            tmp_path,
            utility_weight=0.5,
            action_weight=3.0,
            detection_weight=2.0,
            anomaly_weight=4.0,
            consistency_weight=7.0,
            budget_weight=0.2,
            temperature=0.3,
        )
    )
    for task in learner.tasks:
        task.eval()  # dropout would draw
    learner.anonymizer.eval()
    action, detection, anomaly = batches = [task.deal(4) for task in learner.tasks]
    with torch.no_grad():
        found = learner.terms(list(batches), 4)
        adapted = [learner.anonymizer(b.features, b.mask) for b in batches]
        heads = [task.head for task in learner.tasks]
        expected = {
            "AR": 0.5 * 3 * F.cross_entropy(heads[0](adapted[0][:, 0]), action.answers),
            "TAD": 0.5 * 2 * detection_loss(heads[1](adapted[1], detection.mask), detection.answers),
            "AD": 0.5 * 4 * mgfn_loss(heads[2](adapted[2], anomaly.mask), anomaly.answers),
        }
        # mean over D and over the clips that are there, then over tasks
        apart = [(b.features - a)[b.mask].square().mean() for a, b in zip(adapted, batches, strict=True)]
        expected["LC"] = 7 * sum(apart) / 3
    assert {k: float(v) for k, v in found.items() if k != "B"} == pytest.approx(
        {k: float(v) for k, v in expected.items()}
    )
    assert found.keys() == {*expected, "B"} and found["B"] < 0


def test_l_b_is_nt_xent_between_two_static_clips_of_each_video(tmp_path: Path) -> None:
    learner = shaken(make_learner(tmp_path, "action", temperature=0.3))
    seen: list[Tensor] = []

    def adapt(clips: Tensor) -> Tensor:
        seen.append(clips)
        return learner.adapt(clips)

    with torch.no_grad():
        loss = learner.budget.loss(adapt, 2)
        first, second = learner.adapt(seen[0]).chunk(2)
    assert float(loss) == pytest.approx(float(nt_xent(first, second, 0.3)))
    data, pair = learner.budget.data, seen[0].chunk(2)
    for one, other in zip(*pair, strict=True):
        places = [(data.vectors == each).all(-1).nonzero()[0].tolist() for each in (one, other)]
        assert places[0][0] == places[1][0]  # of one video, which here is one clip
        assert {places[0][1], places[1][1]} == {1, 2}  # the two static ones, never the moving clip itself


@pytest.mark.parametrize("name", ["AR", "TAD", "AD", "LC", "B"])
def test_each_term_reaches_f_a_and_a_step_makes_it_smaller(name: str, tmp_path: Path) -> None:
    learner = shaken(make_learner(tmp_path))
    with_terms(learner, name)

    def step(rate: float) -> float:
        torch.manual_seed(0)  # dropout
        plain_descent(learner, rate)
        return float(learner.step(0)[f"f_A {name}"])

    step(0.0)
    steep = float(gradient(learner.anonymizer).norm())
    assert steep > 0, f"{name} does not reach f_A"
    for task in learner.tasks:  # what falls shall fall by what f_A does
        task.requires_grad_(False)
    before = step(LENGTH / steep)
    fell = before - step(0.0)
    assert 0.5 < fell / (LENGTH * steep) < 1.5


def test_l_b_itself_rises(tmp_path: Path) -> None:
    """The sign of the privacy loss is the whole method."""
    learner = make_learner(tmp_path, "action", consistency_weight=0.0, utility_weight=0.0)
    with torch.no_grad():
        before = float(learner.budget.loss(learner.adapt, 0))
    for step in range(60):
        learner.step(step)
    with torch.no_grad():
        assert float(learner.budget.loss(learner.adapt, 0)) > before + 0.5


def test_the_heads_move_with_f_a_in_one_step(tmp_path: Path) -> None:
    learner = make_learner(tmp_path)
    before = [snapshot(module) for module in (learner.anonymizer, *learner.tasks)]
    learner.step(0)
    assert not any(same(m, b) for m, b in zip((learner.anonymizer, *learner.tasks), before, strict=True))


def test_f_a_begins_as_the_identity_and_the_first_lc_is_0(tmp_path: Path) -> None:
    learner = make_learner(tmp_path, "action")
    plain_descent(learner, 0.0)
    assert float(learner.step(0)["f_A LC"]) == 0
    assert [phase.steps for phase in learner.phases()] == [0, 2 * math.ceil(len(learner.tasks[0].videos) / 16)]


def test_an_mlp_learns_to_be_the_identity_first(tmp_path: Path) -> None:
    learner = make_learner(tmp_path, "action", attend="none", reconstruction_epochs=40, reconstruction_rate=1e-2)
    reconstruct = learner.phases()[0]
    losses = [float(reconstruct.step(step)["L1"]) for step in range(reconstruct.steps)]
    assert losses[-1] < 0.7 * losses[0]


def test_rates_grow_with_the_batch(tmp_path: Path) -> None:
    learner = make_learner(tmp_path, "action", batch=128, anonymizer_rate=1e-4)
    assert learner.optimizer.param_groups[0]["lr"] == pytest.approx(1e-4 / 4)


# ---- what is dealt -------------------------------------------------------------------------------------------------


def test_an_epoch_shows_every_training_video_once_and_no_other(tmp_path: Path) -> None:
    task = make_learner(tmp_path, "action", batch=9).tasks[0]
    told = [a.part("person") for a in task.data.annotations]
    assert len(task.videos) == told.count("train") == 36 and len(task.watched) == told.count("val")
    rows = torch.cat([task.deal(step).features[:, 0] for step in range(4)])
    learned = task.data.vectors[task.videos, 0]
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, learned.tolist()))


def test_clips_of_a_video_are_all_drawn_sooner_or_later(tmp_path: Path) -> None:
    name, config = write_store(tmp_path / "many", trimmed(12, clips=3)), settings("action", {})
    data = gather_features(config, make_stage(tmp_path / "run", name))
    learner = CoTraining(config, data, seed=0, device=CPU)
    seen: list[Tensor] = []

    def adapt(clips: Tensor) -> Tensor:
        seen.append(clips)
        return clips

    clips = torch.cat([learner.tasks[0].deal(step).features[:, 0] for step in range(40)])
    for step in range(60):
        learner.budget.loss(adapt, step)
    count = len(learner.tasks[0].videos)
    assert len(clips.unique(dim=0)) == 3 * count and len(torch.cat(seen).unique(dim=0)) == 6 * count


def test_segments_are_counted_in_clips_and_padding_is_masked(tmp_path: Path) -> None:
    task = make_learner(tmp_path, "detection", detection_batch=4).tasks[0]
    batch = task.deal(0)
    assert batch.features.shape[1] == int(batch.mask.sum(1).max()) and not batch.mask.all()
    assert all(s.spans.tolist() == [[2.0, 5.0]] for s in batch.answers)
    assert (batch.features[~batch.mask] == 0).all()


def test_of_a_video_that_is_too_long_a_stretch_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.methods.splavu.tasks.LONGEST", 4)
    learner = make_learner(tmp_path, "detection+anomaly")
    detection, anomaly = learner.tasks
    for step in range(6):
        batch = detection.deal(step)
        assert batch.features.shape[1] == 4 and anomaly.deal(step).features.shape[1] == 4
        for clips, truth in zip(batch.features, batch.answers, strict=True):
            # an action adds 2 to one of the first three features: the spans are where it is
            shown = [i for i, moving in enumerate((clips[:, :3] > 1).any(1).tolist()) if moving]
            inside = [i for start, end in truth.spans.tolist() for i in range(int(start), int(end))]
            assert set(inside) <= set(shown)


def test_a_batch_has_as_many_anomalies_as_ordinary_videos(tmp_path: Path) -> None:
    task = make_learner(tmp_path, "anomaly", anomaly_batch=6).tasks[0]
    assert task.deal(0).answers.tolist() == [0, 0, 0, 1, 1, 1]


# ---- the supervised variant ----------------------------------------------------------------------------------------


def test_f_b_learns_the_labels_and_f_a_makes_it_undecided(tmp_path: Path) -> None:
    learner = make_learner(
        tmp_path, "action", budget="labels", budget_rate=1e-2, consistency_weight=0.0, utility_weight=0.0
    )
    budget = learner.budget
    assert isinstance(budget, LabelReader) and budget.questions == (2,)
    for step in range(60):
        budget.meet(learner.adapt, step)
    assert learner.watch()["f_B reads"] > 0.9
    own = snapshot(budget.reader)
    budget.reader.zero_grad(set_to_none=True)
    learner.budget.meet = lambda adapt, step: {}  # type: ignore[assignment, method-assign]
    with torch.no_grad():
        before = float(budget.loss(learner.adapt, 0))
    for step in range(20):
        learner.step(step)
    with torch.no_grad():
        assert float(budget.loss(learner.adapt, 0)) > before + 0.1
    # f_A's step neither moves f_B nor works out how it would
    assert same(budget.reader, own) and all(p.grad is None for p in budget.reader.parameters())


def test_f_b_moves_alone_on_its_own_step(tmp_path: Path) -> None:
    learner = make_learner(tmp_path, "action", budget="labels")
    f_a, f_b = snapshot(learner.anonymizer), snapshot(learner.budget.reader)  # type: ignore[attr-defined]
    learner.budget.meet(learner.adapt, 0)
    assert same(learner.anonymizer, f_a) and not same(learner.budget.reader, f_b)  # type: ignore[attr-defined]
    assert all(p.grad is None for p in learner.anonymizer.parameters())


# ---- a whole training ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tasks", SUBSETS)
def test_each_subset_of_tasks_trains(tasks: str, tmp_path: Path) -> None:
    stores = write_stores(tmp_path)
    result = train(settings(tasks, stores, epochs=1), make_stage(tmp_path / "run", stores["data"]))
    symbols = {"action": "AR", "detection": "TAD", "anomaly": "AD"}
    asked = tasks.split("+")
    assert {f"L_{symbols[task]}" for task in asked} <= result["watched"].keys()
    assert result["parameters"].keys() == {"f_A", *asked}
    steps = [line for line in logged(tmp_path / "run") if line["kind"] == "step"]
    assert {f"f_A {symbols[task]}" for task in asked} | {"f_A LC", "f_A B"} <= steps[0].keys()
    assert RunFolder(tmp_path / "run").read_result() == result
    assert not (tmp_path / "run" / "checkpoint.pt").exists()
    adapter, made_for = load_latent(tmp_path / "run" / "anonymizer")
    assert made_for.encoder == "toy" and adapter.width == WIDTH and not adapter.training
    assert list((tmp_path / "run" / "frames").glob("anonymize-*.png"))


@pytest.mark.parametrize(
    ("changes", "stopped_in"),
    [
        ({}, "anonymize"),
        ({"budget": "labels"}, "anonymize"),
        ({"attend": "none"}, "reconstruct"),
        ({"attend": "none"}, "anonymize"),
    ],
)
def test_a_resumed_training_ends_as_one_that_was_never_stopped(
    changes: dict[str, Any], stopped_in: str, tmp_path: Path
) -> None:
    stores = write_stores(tmp_path)
    config = settings("action" if changes else EVERY, stores, **changes)
    whole = train(config, make_stage(tmp_path / "whole", stores["data"]))
    where = list[str]()

    def stop(done: int, latest: dict[str, float]) -> None:
        if where[-1] == stopped_in and done == 3:  # a step after the last checkpoint
            raise Stop

    cut = make_stage(tmp_path / "cut", stores["data"])
    cut.progress.phase, cut.progress.step = partial(_note, where), stop
    with pytest.raises(Stop):
        train(config, cut)
    assert train(config, make_stage(tmp_path / "cut", stores["data"])) == whole
    first, second = (load_latent(tmp_path / name / "anonymizer")[0] for name in ("whole", "cut"))
    assert equal(first.state_dict(), second.state_dict())
    assert logged(tmp_path / "whole") == logged(tmp_path / "cut")
    assert train(config, make_stage(tmp_path / "whole", stores["data"])) == whole  # finished is finished


def _note(where: list[str], name: str, steps: int, done: int, batches: int) -> None:
    where.append(name)


class Stop(Exception):
    """Something ended a training in the middle."""


@pytest.mark.parametrize(("attend", "at_least", "at_most"), [("video", 0.0, 0.7), ("feature", 0.85, 1.0)])
def test_planted_looks_are_hidden_or_not_and_the_action_stays(
    tmp_path: Path, attend: str, at_least: float, at_most: float
) -> None:
    """The paper's weights, on features where looks and action are known directions; read by probes f_A never met.

    Attending over a video, looks are hidden in static clips, which are all that L_B is about; within a clip they are not,
    as the README says.
    """
    name = write_store(tmp_path / "planted", trimmed(400))
    config = settings(
        "action", {}, attend=attend, heads=4, epochs=40, batch=64, privacy_batch=64, anonymizer_rate=0.16,
    )  # fmt: skip
    assert config.consistency_weight == 100 and config.budget_weight == 1
    train(config, make_stage(tmp_path / "run", name))
    adapter, _ = load_latent(tmp_path / "run" / "anonymizer")
    videos = trimmed(600, seed=9)
    rows = torch.stack([features[0] for _, features in videos])
    actions = torch.tensor([int(a.action[-1]) for a, _ in videos])
    hats = torch.tensor([int(a.attributes["hat"] == "y") for a, _ in videos])
    with torch.no_grad():
        hidden = adapter(rows.flatten(0, 1)[:, None]).view_as(rows)

    def read(features: Tensor, labels: Tensor) -> float:
        guess = probe(features[:300], labels[:300])
        return float((guess(features[300:]) == labels[300:]).float().mean())

    assert read(rows[:, 1], hats) > 0.9 and read(rows[:, 0], actions) > 0.98
    assert at_least < read(hidden[:, 1], hats) < at_most  # guessing is 0.5
    assert read(hidden[:, 0], actions) > 0.95
    assert (hidden[:, 0] - rows[:, 0]).square().mean() < 0.05  # and clips stay what they were


def test_it_attends_within_a_clip_unless_told_otherwise(tmp_path: Path) -> None:
    learner = shaken(make_learner(tmp_path, "action"))
    adapter = learner.anonymizer.eval()
    assert isinstance(adapter, LatentAdapter) and adapter.attend == "feature"
    clips = learner.tasks[0].deal(0).features
    with torch.no_grad():
        torch.testing.assert_close(adapter(clips)[3:4], adapter(clips[3:4]))  # whoever else is in the batch


def test_it_is_found_by_name_and_has_the_papers_numbers() -> None:
    method, config = find_method("splavu"), SPLAVUConfig()
    assert method.config is SPLAVUConfig and method.on_features
    assert (config.utility_weight, config.consistency_weight, config.budget_weight, config.temperature) == (
        1,
        100,
        1,
        0.1,
    )
    assert (config.layers, config.heads, config.epochs, config.batch) == (3, 8, 100, 512)
    assert (config.anonymizer_rate, config.reconstruction_rate) == (1e-4, 2e-5)
