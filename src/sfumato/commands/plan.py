"""`sfumato reproduce --dry-run`: what a recipe needs, what it does, and how long that may take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import torch
from rich.table import Table

from sfumato.commands.console import out, say
from sfumato.commands.estimate import (
    ADAM,
    GB,
    GPUS,
    Clip,
    Estimate,
    Network,
    fits,
    game_estimate,
    gpu_named,
    judge_hours,
    laf_estimate,
    recognizer,
    splavu_estimate,
)
from sfumato.commands.judge_latent import is_latent
from sfumato.commands.latent_estimate import Store, latent_hours
from sfumato.commands.published import FEATURES, Judgement, PublishedRecipe, data_label, folder_of, where_to_get
from sfumato.evaluation.material import HELD
from sfumato.evaluation.protocols.known import JudgeConfig
from sfumato.methods import find_method
from sfumato.recognizers import level_of
from sfumato.training.bank import BESIDE
from sfumato.training.device import hardware
from sfumato.training.options import load_options


@dataclass(frozen=True)
class Size:
    """Of a data set as published: videos to train on, videos in all, actions; and about how many clips a video makes."""

    train: int
    videos: int
    actions: int = 2
    clips: int = 1


SIZES = {
    "ucf101": Size(9537, 13320, 101, 12), "vp-ucf101": Size(9537, 13320, 101, 12), "hmdb51": Size(3570, 5100, 51, 6),
    "vp-hmdb51": Size(3570, 5100, 51, 6), "pa-hmdb51": Size(6251, 6766, 51), "vispr": Size(10_000, 22_167),
    "pa-hmdb51-rest": Size(6251, 6766, 51),
    "p-hvu": Size(245_212, 261_224, 739), "celebv-hq": Size(21_400, 35_666, 8),
    "kinetics400": Size(246_534, 266_440, 400, 18), "toyota-smarthome": Size(16_115, 16_115, 31, 15),
    "thumos14": Size(200, 412, 20, 400), "ucf-crime": Size(1610, 1900, 14, 450), "casia-b": Size(8140, 13_640, 2, 6),
    "ntu-bias-f": Size(2000, 10_000, 60, 6), "ntu-bias-m": Size(2000, 10_000, 60, 6),
}  # fmt: skip
ATTRIBUTES = 7


def size_of(name: str) -> Size:
    """How large the data set of that name is, published; features are as many as the videos they are of.

    >>> size_of("features:videomae-b/ucf101").train
    9537
    """
    kind, _, rest = name.partition(":")
    return SIZES[rest.rpartition("/")[2] if kind == FEATURES else kind]


def clip_of(name: str) -> Clip:
    """Frames and side of a data set's clips; of pictures one frame.

    >>> clip_of("vispr:vispr?subset=1&size=112")
    Clip(frames=1, side=112)
    """
    options = dict(parse_qsl(name.partition("?")[2]))
    picture = name.startswith("vispr:")
    return Clip(int(options.get("frames", 1 if picture else 16)), int(options.get("size", 112)))


def training_estimate(recipe: PublishedRecipe, gpu: str) -> Estimate:
    """Of the method's training, on published numbers of videos."""
    config: Any = load_options(find_method(recipe.method).config, settings=recipe.settings())
    action = recipe.data["action"]
    if recipe.method == "splavu":
        used = [size_of(name) for name in recipe.data.values()]
        return splavu_estimate(config, size_of(action).train, sum(size.videos * size.clips for size in used), gpu)
    if recipe.method == "laf":
        return laf_estimate(config, clip_of(action), size_of(action).train, gpu)
    privacy = recipe.data.get("privacy", "")
    videos = {"action": size_of(action).train, "privacy": size_of(privacy).train if privacy else 0}
    return game_estimate(
        recipe.method, config, clip_of(action), clip_of(privacy or action), videos, gpu, size_of(action).actions,
        ATTRIBUTES,
    )  # fmt: skip


@dataclass(frozen=True)
class Exam:
    """A network that is trained on anonymized videos of a data set, by the judge."""

    network: Network
    data: str
    inputs: int
    epochs: int
    shown: int = 1  # of a clip in one step, to who looks at frames

    def memory(self) -> float:
        """Bytes that its training takes beside the clips.

        >>> exams_of(read_published(find_recipe("spact-p-hvu")).judge[0])[0].memory() > 1e9  # doctest: +SKIP
        True
        """
        return ADAM * self.network.parameters + JudgeConfig.batch * self.shown * self.network.kept


def exams_of(judge: Judgement) -> list[Exam]:
    """The fresh networks of a judgement; a vision-language model is not trained."""
    privacy = judge.privacy_data or judge.data
    by_clip = judge.attacks and judge.attacks[0].endswith("video")
    attacker = judge.video_model if by_clip else judge.frame_model
    shown = 2 if level_of(attacker) == "frame" else 1  # frames of a clip in one step
    attack = recognizer("f'_B", attacker, ATTRIBUTES, clip_of(privacy))
    exams = [Exam(attack, privacy, shown * size_of(privacy).train, judge.epochs, shown)]
    if not judge.vlm:
        action = recognizer("f'_T", judge.video_model, size_of(judge.data).actions, clip_of(judge.data))
        exams.insert(0, Exam(action, judge.data, size_of(judge.data).train, judge.epochs))
    return exams


def clips_of(judge: Judgement) -> dict[str, int]:
    """How many clips of each data set a judgement looks at."""
    names = dict.fromkeys(name for name in (judge.data, judge.privacy_data) if name)
    return {name: size_of(name).videos * judge.views for name in names}


def bytes_of(judge: Judgement) -> list[float]:
    """What the clips of each data set take that a judgement looks at; anonymized they take the same again.

    >>> bytes_of(read_published(find_recipe("baselines-vp-hmdb51")).judge[0])  # doctest: +SKIP
    [15353856000.0]
    """
    return [3.0 * clip_of(name).frames * clip_of(name).side ** 2 * number for name, number in clips_of(judge).items()]


def show_plan(recipe: PublishedRecipe, root: Path, device: str) -> None:
    """Data, steps, networks, time and memory, on the screen; nothing is opened or trained."""
    gpu = gpu_named(device)
    say(f"{recipe.name}: {recipe.paper}, {', '.join(dict.fromkeys(judge.published.table for judge in recipe.judge))}")
    say(planned_for(device, gpu))
    if recipe.not_yet:
        say(f"cannot be run here yet: {recipe.not_yet}")
    if recipe.bring:
        say(f"to be brought: {recipe.bring}")
    _show_data(recipe, root)
    say("")
    trained = training_estimate(recipe, gpu) if recipe.method else None
    networks: list[Network] = list(trained.networks) if trained else []
    total = sum(trained.hours.values()) if trained else 0.0
    clips = trained.memory.get("clips", 0.0) if trained else 0.0
    beside = 0.0 if fits(BESIDE * clips, gpu) else clips  # the GPU, at most
    largest = sum(trained.memory.values()) - beside if trained else 0.0
    steps = [_training_step(recipe, trained, beside)] if trained else []
    sat: set[Exam] = set()
    sat_latent: set[tuple[str, str]] = set()
    for judge in recipe.judge:
        if judge.not_yet:
            steps.append(f"judge for {judge.published.table}: left out, {judge.not_yet}")
            continue
        if is_latent(judge.protocol):
            assert trained is not None
            hours, held = _judged_features(judge, sat_latent, trained, gpu)
            about, here, working = judge.protocol, held, 0.0
        else:
            exams = exams_of(judge)
            hours = _judged(judge, [exam for exam in exams if exam not in sat], trained, gpu)
            hours *= 1 + (len(recipe.anonymizers) or 1)  # raw video is judged too
            sat.update(exams)
            networks += [exam.network for exam in exams]
            crops = f" × {judge.crops} crops" if judge.crops > 1 else ""
            about = f"{judge.protocol}, {judge.epochs} epochs, {judge.views} views{crops}"
            sizes = bytes_of(judge)
            held, here = 2 * sum(sizes), 2 * sum(size for size in sizes if fits(HELD * size, gpu))
            working = max(exam.memory() for exam in exams)
        total, largest, beside = total + hours, max(largest, here + working), max(beside, held - here)
        where = " + ".join(data_label(name) for name in clips_of(judge))
        steps.append(
            f"judge for {judge.published.table} on {where} ({about}): {_hours(hours)}, "
            f"{'features' if is_latent(judge.protocol) else 'clips'} {held / GB:.1f} GB{_where(held - here)}"
        )
    for number, step in enumerate(steps, 1):
        say(f"step {number}: {step}")
    _show_networks(networks)
    _show_total(total, largest, beside, gpu)


def planned_for(device: str, gpu: str) -> str:
    """What time and memory are planned for, and where `--device` means something else, that this is not it.

    >>> planned_for("a100", "a100")
    'planned for one A100 (80 GB)'
    """
    planned = f"planned for one {gpu.upper()} ({GPUS[gpu][1]} GB)"
    if device in GPUS:  # asked for by its name, wherever it is
        return planned
    on_gpu = device != "cpu" and torch.cuda.is_available()
    here = hardware(torch.device("cuda" if on_gpu else "cpu"))
    if on_gpu and gpu in here.lower():
        return f"{planned}, the GPU here"
    others = ", ".join(name for name in GPUS if name != gpu)
    return f"{planned}, but the device here is another ({here}): --device NAME plans for {others}"


def _training_step(recipe: PublishedRecipe, trained: Estimate, beside: float) -> str:
    lengths = ", ".join(f"{k} {v}" for k, v in recipe.config.items() if k.endswith("steps") or k == "epochs")
    memory = ", ".join(
        f"{what} {size / GB:.1f} GB{_where(beside) if what == 'clips' else ''}" for what, size in trained.memory.items()
    )
    return f"train {recipe.method} ({lengths}): {_hours(sum(trained.hours.values()))}, {memory}"


def _judged(judge: Judgement, exams: list[Exam], trained: Estimate | None, gpu: str) -> float:
    """Hours of one anonymizer."""
    clips = clips_of(judge)
    once = 0.0
    if trained:
        first = trained.networks[0]
        once = sum(number * clip_of(name).frames * first.work / first.frames for name, number in clips.items())
    return judge_hours([(exam.network, exam.inputs) for exam in exams], once, epochs=judge.epochs, gpu=gpu)


def _judged_features(judge: Judgement, sat: set[tuple[str, str]], trained: Estimate, gpu: str) -> tuple[float, float]:
    """Hours of raw features and of f_A, none where another table has asked the same, and bytes of both."""
    size = size_of(judge.data)
    store = Store(size.train, size.videos, size.clips, size.actions)
    again = (judge.protocol, judge.data) in sat
    sat.add((judge.protocol, judge.data))
    return 0.0 if again else latent_hours(judge.protocol, store, trained.networks[0], gpu), 2 * store.bytes()


def _show_total(hours: float, memory: float, beside: float, gpu: str) -> None:
    room = GPUS[gpu][1]
    say(
        f"in all about {_hours(hours)} and {memory / GB:.0f} GB on one {gpu.upper()} ({room} GB): an estimate, from counted "
        "multiply-adds and one measured speed; decoding comes on top"
    )
    if beside:
        say(
            f"clips of {beside / GB:.0f} GB do not fit there: they are held in the host's memory, those of the judge in a file "
            "in --out where that is too small"
        )
    if memory > room * GB:
        say(f"that is more memory than one {gpu.upper()} has")


def _show_data(recipe: PublishedRecipe, root: Path) -> None:
    table = Table("data", "folder", "folder there", "get it from", box=None)
    names = recipe.data_names()
    for name in names:
        folder = folder_of(name, root)
        there = folder.is_dir()
        source = "to be brought" if recipe.bring else where_to_get(name)
        table.add_row(data_label(name), str(folder), "yes" if there else "missing", "" if there else source)
    out.print(table)
    if not all(name.startswith(f"{FEATURES}:") for name in names):
        say("what is in a folder was not looked at: `sfumato data check NAME:PATH` looks into it")


def _show_networks(networks: list[Network]) -> None:
    table = Table("network", "", "parameters", "multiply-adds per input", box=None)
    for network in dict.fromkeys(networks):
        table.add_row(network.role, network.name, f"{network.parameters / 1e6:.1f} M", f"{network.work / 1e9:.2f} G")
    out.print(table)


def _where(beside: float) -> str:
    """Behind a number of bytes of which so many are not on the GPU."""
    return " beside the GPU" if beside else ""


def _hours(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min"
