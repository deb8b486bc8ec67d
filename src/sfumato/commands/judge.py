"""`sfumato judge` and `sfumato benchmark`: anonymizers before the judge."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import torch

from sfumato.anonymizers import label, load
from sfumato.anonymizers.base import Anonymizer
from sfumato.anonymizers.shelf import shelved
from sfumato.commands.console import monitored, say_left_out
from sfumato.commands.judge_latent import is_latent, judge_latent
from sfumato.datasets import VideoDataset, open_dataset, reads_files
from sfumato.datasets.files import FileDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.effort import QUICK_ATTACKS, STANDARD, find_effort
from sfumato.evaluation.material import anonymize_clips
from sfumato.evaluation.protocols import PROTOCOLS
from sfumato.evaluation.protocols.known import RAW, JudgeConfig, Watch
from sfumato.evaluation.protocols.zero_shot import ZeroShotProtocol
from sfumato.evaluation.result import Result
from sfumato.report import Strip
from sfumato.training.device import pick_device

_EPOCHS = {"tiny": 6, "standard": 20}
# A file is seen through three windows in time; a drawn clip is one window long.
_FILE_VIEWS = 3
_CROP = 0.875  # of the sides, where there are several: 224 of 256 pixels, as is usual
_JOIN = " + "  # between the two data sets of a protocol that takes two
_QUICK_DATA = "theatre:small"
_TRAINED = ("laf-small", "spact-small", "stprivacy-small")  # on that data
_BENCHED = (
    "downsample:factor=4",
    "downsample:factor=16",
    "pixelate",
    "blur",
    "weak-blur-people",
    "strong-blur-people",
    "blacken-people",
    "noisy-features",
)


@dataclass
class Judged:
    """A result and what was judged, so that pictures can be made of it; of features there are none."""

    result: Result
    dataset: VideoDataset | None
    anonymizers: list[Anonymizer]

    def strips(self, frames: int = 6) -> list[Strip]:
        """One test clip through every anonymizer, and raw where it is drawn: pages are passed on, real faces stay here."""
        if self.dataset is None:
            return []
        index = self.dataset.split("test", "person")[:1]
        clips = self.dataset.clips(index)
        labels = self.dataset.labels(index)
        shows = labels.action if labels.actions is None else labels.actions[0].nonzero()[:, 0]
        action = ", ".join(self.dataset.actions[number] for number in shows.tolist())
        keep = torch.linspace(0, self.dataset.shape.frames - 1, frames).round().long()
        real = isinstance(self.dataset, FileDataset)
        shown = [a for a in self.anonymizers if not (real and label(a) == RAW)]
        strips = [anonymize_clips(a, clips, torch.device("cpu"))[0, 0, keep] for a in shown]
        return [Strip(label(a), strip, caption=action) for a, strip in zip(shown, strips, strict=True)]


def judge_anonymizers(
    names: Sequence[str], data: str, *, protocol: str = "known", seeds: int = 1, models: str = "auto",
    video_model: str = "", frame_model: str = "", vlm: str = "", prompts: Sequence[str] = (),
    epochs: int | None = None, views: int | None = None, crops: int = 1, attacks: Sequence[str] | None = None,
    effort: str = STANDARD, strict: bool = False, runs: Path = Path("runs"), device: str = "auto",
) -> Judged:  # fmt: skip
    """Judge anonymizers by name on a data set by name; raw video is always judged too, and first.

    A protocol that takes two data sets is given both names with " + " between them.
    """
    where = pick_device(device)
    kind = models if models != "auto" else ("standard" if where.type == "cuda" else "tiny")
    if kind not in _EPOCHS:
        raise SfumatoError(f"there are no '{models}' models", "use auto, tiny or standard")
    longer = find_effort(effort).epochs
    make = PROTOCOLS.find(protocol).make
    if (vlm or prompts) and protocol != ZeroShotProtocol.name:
        raise SfumatoError(
            f"the protocol {protocol} asks no vision-language model", f"use --protocol {ZeroShotProtocol.name}"
        )
    if is_latent(protocol):
        if video_model or frame_model or attacks or effort != STANDARD or views or crops != 1:
            raise SfumatoError(
                f"the protocol {protocol} has readers of its own",
                "leave other models, views, crops, attacks and effort out",
            )
        result = judge_latent(names, data, protocol=protocol, seeds=seeds, models=kind, epochs=epochs, device=where)
        return Judged(result, None, [])
    raw = load(RAW)
    others = list({label(a): a for a in map(load, names) if label(a) != RAW}.values())
    second = getattr(make, "second", "")  # what a protocol that takes two data sets calls the other one
    names_of_data = data.split(_JOIN, 1) if second else [data]
    from_files = any(map(reads_files, names_of_data))
    for anonymizer in others:
        if from_files and anonymizer.needs_people:  # said now, not after raw video has been trained on
            raise SfumatoError(
                f"'{label(anonymizer)}' needs to know where people are, and files come without person masks",
                "judge it on theatre, or choose another anonymizer",
            )
    datasets = [open_dataset(name, strict=strict) for name in names_of_data]
    for dataset in datasets:
        report_problems(dataset)
        _check_lengths(others, dataset)
    config = JudgeConfig(
        models=kind,
        video_model=video_model,
        frame_model=frame_model,
        epochs=epochs or round(longer * _EPOCHS[kind]),
        seeds=seeds,
        views=views or (_FILE_VIEWS if from_files else 1),
        crop=_CROP if crops > 1 else 1.0,
        crops=crops,
        attacks=tuple(attacks or ()),
        effort=effort,
        vlm=vlm,
        prompts=tuple(prompts),
    )
    # One plain folder name whatever the data is called; its end tells most, and file systems stop at 255 bytes.
    folder = runs / "judge" / re.sub(r"[^A-Za-z0-9.-]+", "-", data)[-100:].strip("-.")
    with monitored() as monitor:
        watch = Watch(monitor.total, monitor.done, monitor.status)
        more = {second: datasets[1]} if len(datasets) > 1 else {}
        result = make(datasets[0], config, device=where, folder=folder, watch=watch, **more).judge(others, raw)
    return Judged(result, datasets[0], [raw, *others])


def stored_result(names: Sequence[str], asked: Sequence[str]) -> Judged | None:
    """The result whose JSON file is named, if it is unchanged; None where anonymizers are. asked: options that judge.

    >>> stored_result(["result.json"], []).result.protocol
    'known'
    """
    files = [name for name in names if name.endswith(".json")]
    if not files:
        return None
    if len(names) > 1:
        raise SfumatoError(f"'{files[0]}' is a result, shown by itself", "name no other, or anonymizers alone")
    if asked:
        raise SfumatoError(
            f"'{files[0]}' is a result, shown as it was judged", f"leave {', '.join(asked)} out, or name an anonymizer"
        )
    return Judged(Result.load(Path(files[0])), None, [])


def _check_lengths(anonymizers: Sequence[Anonymizer], dataset: VideoDataset) -> None:
    for anonymizer in anonymizers:
        length, frames = anonymizer.spec.length, dataset.shape.frames
        if length not in (None, frames):
            raise SfumatoError(
                f"'{label(anonymizer)}' takes clips of {length} frames, and those of {dataset.name} have {frames}",
                "judge it on data like that it was trained on",
            )


def run_quick_suite(*, seeds: int, runs: Path, device: str) -> Judged:
    """Every training-free anonymizer, and what is shipped for that data, before the same judge."""
    trained = [name for name in shelved() if name in _TRAINED]
    return judge_anonymizers(
        [*_BENCHED, *trained], _QUICK_DATA, seeds=seeds, models="tiny", attacks=QUICK_ATTACKS, runs=runs, device=device
    )


# Where data lies and what is wrong there, as far as it was said.
_TOLD: ContextVar[set[tuple[str, str]] | None] = ContextVar("told", default=None)


@contextmanager
def telling_once() -> Iterator[None]:
    """While it lasts `report_problems` says each problem once, however often the same data is opened.

    >>> with telling_once(): report_problems(open_dataset("theatre:small"))
    """
    outer = _TOLD.get()
    token = _TOLD.set(set() if outer is None else outer)
    try:
        yield
    finally:
        _TOLD.reset(token)


def report_problems(dataset: VideoDataset) -> None:
    """Rows of a user's own data that had to be left out: the first few, and how many more."""
    told = _TOLD.get()
    problems = getattr(dataset, "problems", [])
    if told is not None:
        place = dataset.name.partition(":")[2].partition("?")[0]
        problems = [line for line in dict.fromkeys(problems) if (place, line) not in told]
        told.update((place, line) for line in problems)
    say_left_out(problems)
