"""The phases of an adversarial training, the same for all its methods: initialise, play, audit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from sfumato.anonymizers import Anonymizer, save
from sfumato.training.audit import verdict
from sfumato.training.dealing import Banks
from sfumato.training.device import find_fast_kernels, keep_freed_memory
from sfumato.training.minimax import Game, Objective, Terms, UtilityLoss
from sfumato.training.optimisation import count_moved
from sfumato.training.phases import Phase, Player, Progress, Timing
from sfumato.training.processes import current
from sfumato.training.run import RunFolder

DIVERGED = 10.0  # times the loss of guessing


@dataclass
class Stage:
    """Where a method plays: its clips, its run folder, its seed, its device."""

    banks: Banks
    run: RunFolder
    seed: int
    device: torch.device
    progress: Progress = field(default_factory=Progress)
    timing: Timing = field(default_factory=Timing)
    title: str = ""  # what the anonymizer will be called


def contest(game: Game, objective: Objective, utility_loss: UtilityLoss, stage: Stage) -> dict[str, Any]:
    """Play all phases, save f_A, and say what a fresh f_B reads beside what the trained-against one does."""
    if stage.run.result.exists():  # its checkpoint is gone: to go on would be to begin anew, over what is there
        return stage.run.read_result()
    phases = [
        game.initialisation(),
        meet_opponents(game, utility_loss),
        minimax(game, objective, utility_loss),
        # f_A is saved before: whatever happens to its attackers, it need not be trained again.
        replace(audit(game), begin=lambda: keep(game.anonymizer, stage)),
    ]
    keep_freed_memory()
    find_fast_kernels()
    limits = {"L_T": DIVERGED * math.log(max(2, stage.banks.action_count))}
    Player(phases, game, stage.run, stage.device, stage.seed, limits, stage.timing, stage.progress).play()
    moved = count_moved(*game.optimizers.values(), *game.budget_optimizers)
    result = {
        "watched": game.watch(), "audit": confront(game), "trained_parameters": moved,
        "guessing": {"L_T": game.guessing},
    }  # fmt: skip
    leave(game.anonymizer, result, stage)
    return result


def keep(anonymizer: Anonymizer, stage: Stage) -> None:
    """f_A in its run folder, under its title."""
    if current().main:
        anonymizer.title = stage.title
        save(anonymizer, stage.run.anonymizer)


def leave(anonymizer: Anonymizer, result: dict[str, Any], stage: Stage) -> None:
    """What stays of a finished training: f_A, and what came out."""
    keep(anonymizer, stage)
    if current().main:
        stage.run.save_result(result)
        stage.run.drop_checkpoint()


def meet_opponents(game: Game, utility_loss: UtilityLoss) -> Phase:
    """f_T and f_B on what f_A gives, until th_T0 and th_B0 (eq. 7 and 8)."""
    c = game.config

    def step(turn: int) -> Terms:
        losses = game.utility_step("opponents", turn, utility_loss)
        return losses | game.budget_step("opponents", turn, game.opponents, game.budget_optimizers)

    def enough(seen: dict[str, float]) -> bool:
        losses = _budget_losses(seen)
        game.beaten(losses)  # nobody is yet, but who reads now can be later
        return seen["L_T"] <= c.utility_threshold and all(loss <= c.budget_threshold for loss in losses)

    # Here nobody makes L_B larger: an f_B far worse than guessing diverges. Later it may be f_A who has done it.
    limits = {f"L_B{number or ''}": DIVERGED * opponent.guessing for number, opponent in enumerate(game.opponents)}
    return Phase("opponents", c.opponent_steps, step, lambda: _watch_all(game), enough, limits=limits)


def minimax(game: Game, objective: Objective, utility_loss: UtilityLoss) -> Phase:
    """One step of f_A, one of f_T, `budget_steps` of every f_B, in turn, until every f_B's L_B reaches th_Bmax."""
    c = game.config

    def step(number: int) -> Terms:
        game.schedule(number)
        if _due(number, c.restart_steps, c.steps) and game.opponents:
            game.restart(number)
        terms = game.anonymizer_step(number, objective)
        if c.utility_update == "alternate":
            terms |= game.utility_step("minimax", 2 * number + 1, utility_loss)
        if c.budget_update == "updated":
            first = number * (1 + c.budget_steps) + 1
            for turn in range(first, first + c.budget_steps):
                terms |= game.budget_step("minimax", turn, game.opponents, game.budget_optimizers)
        return terms

    def enough(seen: dict[str, float]) -> bool:
        return game.beaten(_budget_losses(seen))

    # Of action clips: f_A's, and f_T's where that moves by itself.
    batches = 2 if c.utility_update == "alternate" else 1
    return Phase("minimax", c.steps, step, lambda: _watch_all(game), enough, batches=batches)


def audit(game: Game) -> Phase:
    """Fresh attackers on the finished f_A and on raw video, so that nobody is fooled by the f_B it was trained against."""
    steps = game.config.audit_steps if game.audit.lineups else 0
    return Phase("audit", steps, game.audit_step, game.watch_audit)


def confront(game: Game) -> list[dict[str, Any]]:
    """For every attacker: what guessing reads, a fresh one of raw video, the one trained against f_A, a fresh one of f_A."""
    trained, found = game.watch_opponents(game.opponents), game.watch_audit()
    rows = []
    for number, lineup in enumerate(game.audit.lineups if game.audit.attackers else ()):
        reads = f"f_B{number or ''} reads"
        row = {
            "f_B": lineup.network, "task": lineup.kind, "chance": game.watch_chance(game.audit.attackers["raw"][number]),
            "raw": found[f"raw {reads}"], "in training": trained.get(reads), "fresh": found[f"anonymized {reads}"],
        }  # fmt: skip
        rows.append({**row, "verdict": verdict(row)})
    return rows


def _due(step: int, every: int, steps: int) -> bool:
    """Whether an f_B begins anew in that step: not so late that f_A would end before one which has hardly learnt.

    >>> [step for step in range(10) if _due(step, 3, 10)]
    [3, 6]
    """
    return every > 0 and step > 0 and step % every == 0 and step + every <= steps


def _watch_all(game: Game) -> dict[str, float]:
    return game.watch() | game.watch_opponents(game.opponents)


def _budget_losses(watched: dict[str, float]) -> list[float]:
    """L_B of every f_B."""
    return [value for name, value in watched.items() if name.startswith("L_B")]
