"""Tiny clips, networks and games for the tests of the adversarial training, in a module that spawned processes can import."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from sfumato.datasets import theatre
from sfumato.methods import find_method
from sfumato.objectives.momentum import KeyQueue
from sfumato.training import captions, motions
from sfumato.training.adversarial import AdversarialConfig
from sfumato.training.bank import Bank
from sfumato.training.contest import Stage
from sfumato.training.dealing import Banks
from sfumato.training.frame_game import FrameGame
from sfumato.training.minimax import Objective, UtilityLoss
from sfumato.training.optimisation import frozen
from sfumato.training.phases import Progress, Timing
from sfumato.training.processes import current, mean_over_crew
from sfumato.training.run import RunFolder

CPU = torch.device("cpu")
FRAMES, SIDE, ACTIONS, PEOPLE = 4, 16, 3, 4

# Networks that take milliseconds, and an f_A without rounding, so that a small step has a small effect. What a method
# sets by default is set here too, so that its tests are about its objective.
TINY: dict[str, Any] = {
    "width": 4, "levels": 0, "cell": 1, "grey": False, "sparsity_weight": 0.5, "anonymizer_norm": "batch",
    "utility_update": "alternate", "augmentation": "strong", "schedule": "constant", "weight_decay": 0.0,
    "utility": "tiny-video", "utility_width": 0.25, "budget_models": "tiny-frame", "budget_width": 0.25,
    "batch": 4, "privacy_batch": 4, "reconstruction_steps": 3, "opponent_steps": 3, "steps": 5, "audit_steps": 3,
    "auditor": "tiny-frame", "budget_update": "updated",
    "reconstruction_threshold": 0.0, "utility_threshold": 0.0, "budget_threshold": 0.0, "restart_steps": 0,
}  # fmt: skip


def tiny(kind: type[AdversarialConfig] = AdversarialConfig, **changes: Any) -> Any:
    """A config of that kind for tiny networks."""
    return kind(**{**TINY, **changes})


def make_bank(count: int, seed: int, name: str = "toy") -> Bank:
    """`count` clips: who it is shows in the colour of everything, what is done in the direction of a moving square."""
    draw = torch.Generator().manual_seed(seed)
    people, actions = torch.arange(count) % PEOPLE, torch.arange(count) // PEOPLE % ACTIONS
    palette = torch.tensor([[200, 40, 40], [40, 200, 40], [40, 40, 200], [180, 180, 40]])
    pixels = palette[people][:, None, :, None, None].expand(-1, FRAMES, -1, SIDE, SIDE).clone()
    pixels += torch.randint(-30, 31, pixels.shape, generator=draw)
    for clip, action in enumerate(actions.tolist()):
        for frame in range(FRAMES):
            along = 4 + (frame * (action - 1) * 2)
            pixels[clip, frame, :, 4:10, along : along + 5] = 255
    times = torch.arange(FRAMES).expand(count, -1) * 2
    answers = torch.stack([people % 2, people], 1)
    return Bank(
        name,
        pixels.clamp(0, 255).to(torch.uint8),
        times,
        actions,
        answers,
        (2, PEOPLE),
        mirror_safe=False,
        asks_who=True,
    )


def make_banks() -> Banks:
    """Action and privacy clips of two data sets of different lengths."""
    return Banks(make_bank(12, 0), make_bank(10, 1, "others"), make_bank(8, 2), make_bank(8, 3, "others"), ACTIONS)


def make_game(config: AdversarialConfig | None = None, **changes: Any) -> FrameGame:
    """A game on fresh banks; `changes` are settings of the shared config."""
    return FrameGame(config or tiny(**changes), make_banks(), seed=0, device=CPU)


def objectives(game: FrameGame) -> tuple[Objective, UtilityLoss]:
    """What f_A and f_T minimise in SPAct and VITA."""
    return game.adversarial_terms, game.action_loss


def plain_descent(game: FrameGame, rate: float) -> None:
    """f_A moves straight down its gradient, so far as `rate` says: what the sign of a term can be read from."""
    game.optimizers["anonymizer"] = torch.optim.SGD(game.anonymizer.parameters(), lr=rate)


def only(objective: Objective, *names: str) -> Objective:
    """The objective with these of its terms alone."""
    return lambda batch, output, views: {name: objective(batch, output, views)[name] for name in names}


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    """A copy of parameters and buffers."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def same(module: nn.Module, before: Mapping[str, Tensor]) -> bool:
    """Whether every parameter and buffer is bit for bit as it was."""
    return all(value.equal(before[name]) for name, value in module.state_dict().items())


def flat(state: Any, name: str = "") -> dict[str, Any]:
    """Every tensor, number and word of a nested state under its path."""
    if isinstance(state, (dict, list, tuple)):
        inner = state.items() if isinstance(state, dict) else enumerate(state)
        return {key: value for k, part in inner for key, value in flat(part, f"{name}/{k}").items()}
    return {name: state}


def equal(state: Any, other: Any) -> bool:
    """Whether two nested states are the same, tensors bit for bit."""
    mine, theirs = flat(state), flat(other)
    return mine.keys() == theirs.keys() and all(
        value.equal(theirs[name]) if isinstance(value, Tensor) else value == theirs[name]
        for name, value in mine.items()
    )  # fmt: skip


def gradient(module: nn.Module) -> Tensor:
    """The gradients of all parameters in one row."""
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in module.parameters()]
    )


@torch.no_grad()
def let_utility_read(game: FrameGame, output: Tensor, actions: Tensor) -> None:
    """Set f_T's last layer so that it reads these clips: 2 for the right action and 0 for others, L_T = log(1 + 2/e²).

    While f_T does not read, what is shown costs nothing.
    """
    with frozen([game.utility]):
        features = game.utility.features(output)
    seen = torch.cat([features, torch.ones(len(features), 1)], 1)
    wanted = 2.0 * torch.nn.functional.one_hot(actions, ACTIONS)
    # by singular values: the default way to solve this may take columns that are 0 for all there is
    solved = torch.linalg.pinv(seen) @ wanted
    game.utility.head.weight.copy_(solved[:-1].T)
    game.utility.head.bias.copy_(solved[-1])


def each_term_falls(
    game: FrameGame, objective: Objective, names: Sequence[str], rate: float = 1e-4
) -> dict[str, float]:
    """Assert that f_A's step against each term alone makes this term smaller, by about what its gradient promises.

    Every step is on the same batch. f_A is put back between terms. Returns how much each term fell.
    """
    start, falls = snapshot(game.anonymizer), {}
    assert set(terms := game.anonymizer_step(0, objective)) == {f"f_A {name}" for name in names}
    assert all(value.isfinite() for value in terms.values())
    for name in names:
        game.anonymizer.load_state_dict(start)
        # What is shown costs the more the better f_T reads; that it falls is asked at a price that stands still.
        fixed = {"return_value": torch.zeros(())} if name == "shown" else {"side_effect": game.utility_loss}
        with patch.object(game, "utility_loss", **fixed):
            plain_descent(game, 0.0)
            game.anonymizer_step(0, only(objective, name))
            steep = float(gradient(game.anonymizer).square().sum()) ** 0.5
            assert steep > 0, f"{name} does not reach f_A"
            plain_descent(game, rate / steep)  # a step of length `rate` along the gradient
            before = game.anonymizer_step(0, only(objective, name))[f"f_A {name}"]
            after = game.anonymizer_step(0, only(objective, name))[f"f_A {name}"]
        falls[name] = float(before - after)
        assert 0.5 < falls[name] / (rate * steep) < 1.5, f"{name} fell by {falls[name]}"
    game.anonymizer.load_state_dict(start)
    return falls


def terms_add_up(game: FrameGame, objective: Objective, names: Sequence[str]) -> None:
    """Assert that what f_A descends is the sum of the terms: their gradients one by one add up to that of all."""
    batch = game.deal.action_batch("minimax", 0)
    let_utility_read(game, game.anonymizer.train()(batch.video), batch.actions)
    plain_descent(game, 0.0)
    game.anonymizer_step(0, objective)
    together, apart = gradient(game.anonymizer), torch.zeros(())
    for name in names:
        game.anonymizer_step(0, only(objective, name))
        apart = apart + gradient(game.anonymizer)
    torch.testing.assert_close(together, apart, rtol=1e-3, atol=1e-5 * float(together.abs().max()))


def make_stage(folder: Path, *, resume: bool = False, progress: Progress | None = None, **timing: int) -> Stage:
    """A stage on fresh banks; everything is logged and watched often."""
    run = RunFolder.open(folder, {"method": "toy", "config": {}, "seed": 0}, resume=resume)
    return Stage(
        make_banks(), run, 0, CPU, progress or Progress(), Timing(**{"log": 1, "watch": 2, "save": 4, **timing})
    )  # fmt: skip


def train_in_crew(trainings: Sequence[tuple[str, dict[str, Any], Path]]) -> None:
    """One process's part of trainings, one after another: a method, its settings, its run folder.

    The networks compute in double precision: Adam's first steps are as long for gradients that are nothing but rounding
    as for others, and single precision would let two runs that should be the same drift apart by them. Of some videos an
    answer is not known, so that the processes know of different numbers of clips, and guessing is said to be so bad that
    what is shown has its price from the first step on.
    """
    torch.set_num_threads(1)
    ready = FrameGame._ready

    def doubled(game: FrameGame, module: Any) -> Any:
        module = ready(game, module.double())
        for part in module.modules():
            if isinstance(part, KeyQueue):
                part.float()  # keys are kept in single precision
        return module

    with patch.object(FrameGame, "_ready", doubled), patch.object(FrameGame, "guessing", 9.0):
        for method, settings, folder in trainings:
            chosen, banks = find_method(method), make_banks()
            banks.privacy.answers[:4, 0] = -1
            stage = Stage(banks, RunFolder(folder), 0, CPU, timing=Timing(1, 2, 4))
            chosen.train(tiny(chosen.config, **settings), stage)


def teach_in_crew(batch: int, folder: Path) -> None:
    """One process's part of the first steps of the vision-language model and of an encoder: losses, and what norms remember."""
    torch.set_num_threads(1)
    minute = {
        name: replace(theatre.PRESETS[name], side=32, frames=4, cast=(2, 1, 1), sizes=(16, 8, 16))
        for name in ("small", "small-unseen")
    }
    small = {"width": 16, "depth": 1, "temporal_depth": 1, "text_width": 16, "text_depth": 1, "embedding": 16}
    with (
        patch.dict(theatre.PRESETS, minute),
        patch.object(captions, "WATCHED", 2),
        patch.object(motions, "WATCHED", 2),
        patch.object(motions, "EXAMINED", 2),
    ):
        model = captions.CaptionTraining(
            captions.CaptionConfig(**small, batch=batch), "theatre:small", seed=0, device=CPU
        )
        encoder = motions.MotionTraining(
            motions.EncoderConfig(width=0.5, batch=batch), "theatre:small", seed=0, device=CPU
        )
        losses = [
            float(mean_over_crew(teaching.step(number))[loss])
            for teaching, loss in ((model, "L_align"), (encoder, "L_motion"))
            for number in range(2)
        ]
    means = torch.cat([value for name, value in encoder.model.state_dict().items() if name.endswith("running_mean")])
    (folder / f"rank-{current().rank}.json").write_text(json.dumps({"losses": losses, "means": means.tolist()}))


def logged(folder: Path) -> list[dict[str, Any]]:
    """The log of a run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
