"""A recipe made small: tiny networks, two steps, generated files. What is left is every step of it, in a minute or two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import torch

from sfumato.commands.miniatures import ACTIONS, write_miniature
from sfumato.commands.published import FEATURES, Judgement, PublishedRecipe
from sfumato.methods import find_method
from sfumato.recognizers import level_of
from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig, save_vlm, words_of

FRAMES, SIDE = 8, 32
STEPS = 2
TINY = {"video": "tiny-video", "frame": "tiny-frame"}

# What every size and length of a method becomes; a setting that a method does not have is left out.
SMALL: dict[str, Any] = {
    "width": 8, "utility": "tiny-video", "utility_dilated": False, "auditor": "tiny-frame", "batch": 4, "privacy_batch": 4,
    "reconstruction_steps": STEPS, "opponent_steps": STEPS, "initialisation_steps": STEPS, "steps": STEPS, "audit_steps": STEPS,
    "phase1_steps": STEPS, "phase2_steps": STEPS, "phase3_steps": STEPS, "embedding": 24, "depth": 1,
    "epochs": 1, "reconstruction_epochs": 1, "detection_batch": 2, "anomaly_batch": 2, "head_width": 0.02,
}  # fmt: skip


def rehearsed(recipe: PublishedRecipe, folder: Path) -> PublishedRecipe:
    """The recipe made small, and the generated files that it names under `folder`.

    >>> rehearsed(read_published(Path("recipes/published/spact-moco.toml")), Path("rehearsal")).config["steps"]  # doctest: +SKIP
    2
    """
    models: dict[str, str] = {}

    def model(name: str) -> str:
        """A small vision-language model for each one that is named."""
        if name and name not in models:
            models[name] = str(_make_vlm(folder / f"vlm-{len(models)}", seed=len(models)))
        return models.get(name, "")

    small = replace(
        recipe,
        data={role: shrink_data(name) for role, name in recipe.data.items()},
        config=shrink_config(recipe.method, recipe.config, model) if recipe.method else {},
        judge=tuple(_shrink_judgement(judge, model) for judge in recipe.judge),
    )
    for name in small.data_names():
        write_miniature(name, folder)
    return small


def shrink_data(name: str) -> str:
    """The same data in small clips.

    >>> shrink_data("vispr:vispr?subset=1&size=112")
    'vispr:vispr?subset=1&size=32'
    """
    kind, _, rest = name.partition(":")
    folder, _, query = rest.partition("?")
    if kind == FEATURES:
        return name
    sizes = {"frames": str(FRAMES), "size": str(SIDE), "least": str(2 * FRAMES)}
    options = {key: sizes.get(key, value) for key, value in parse_qsl(query)}
    return f"{kind}:{folder}?{urlencode(options)}"


def shrink_config(method: str, config: dict[str, Any], model: Callable[[str], str]) -> dict[str, Any]:
    """The same settings but for sizes and lengths."""
    known = {entry.name for entry in fields(find_method(method).config)}
    small = config | {key: value for key, value in SMALL.items() if key in known}
    if config.get("opponent_steps") == 0:
        small["opponent_steps"] = 0
    if config.get("positives", "").startswith(">"):
        small["positives"] = f">{FRAMES}"
    if "budget_models" in config:
        small["budget_models"] = "+".join(TINY[level_of(name.strip())] for name in config["budget_models"].split("+"))
    if config.get("restart_steps"):
        small["restart_steps"] = 1
    if "vlm" in config:
        small["vlm"] = model(config["vlm"])
    return small


def _shrink_judgement(judge: Judgement, model: Callable[[str], str]) -> Judgement:
    return replace(
        judge, epochs=1, views=1, seeds=1, video_model=TINY["video"] if judge.video_model else "",
        frame_model=TINY["frame"] if judge.frame_model else "", vlm=model(judge.vlm),
        data=shrink_data(judge.data) if judge.data else "",
        privacy_data=shrink_data(judge.privacy_data) if judge.privacy_data else "",
    )  # fmt: skip


def _make_vlm(folder: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    words = words_of([f"a person {action}" for action in ACTIONS])
    config = SmallVLMConfig(
        (FRAMES, SIDE, SIDE), words, width=24, depth=1, temporal_depth=1, text_width=8, text_depth=1, embedding=12
    )
    return save_vlm(SmallVLM(config), folder)
