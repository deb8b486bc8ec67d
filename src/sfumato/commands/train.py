"""`sfumato train`: a method, its data, a run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress as Bars

from sfumato.commands.console import bars, err, say
from sfumato.commands.judge import report_problems, telling_once
from sfumato.datasets import VideoDataset, open_dataset
from sfumato.datasets.base import Progress as Loading
from sfumato.errors import SfumatoError
from sfumato.evaluation.provenance import commit, versions
from sfumato.methods import METHODS, find_method
from sfumato.registry import unknown_name
from sfumato.theatre.compositions import rehearsed
from sfumato.training.adversarial import OF_BUDGET_MODELS
from sfumato.training.bank import Bank, load_bank, training_indices, watched_indices
from sfumato.training.captions import CaptionConfig, train_captions
from sfumato.training.contest import Stage
from sfumato.training.dealing import Banks
from sfumato.training.device import hardware, pick_device
from sfumato.training.feature_data import FEATURES, FeatureStage
from sfumato.training.motions import EncoderConfig, train_encoder
from sfumato.training.options import load_options, read_recipe, to_dict
from sfumato.training.phases import Progress
from sfumato.training.processes import current, device_of, launch
from sfumato.training.run import RunFolder

# No methods, for they train no anonymizer: the small vision-language model, taught by captions, and a video encoder by motions.
VLM, ENCODER = "vlm", "encoder"
TAUGHT: dict[str, type[CaptionConfig] | type[EncoderConfig]] = {VLM: CaptionConfig, ENCODER: EncoderConfig}
WATCHED = 128  # clips a training is watched by


@dataclass(frozen=True)
class Order:
    """A training as it was asked for; plain values, so that it can be handed to other processes."""

    method: str
    config: dict[str, Any]
    data: str
    privacy_data: str
    folder: Path
    seed: int
    device: str
    strict: bool = False


def train_method(
    method: str | None, data: str | None, *, privacy_data: str | None = None, recipe: Path | None = None,
    settings: Sequence[str] = (), published: Sequence[str] = (), folder: Path | None = None, resume: bool = False,
    seed: int = 0, strict: bool = False, device: str = "auto", devices: int = 1,
) -> RunFolder:  # fmt: skip
    """Train and leave everything in the run folder; `recipe` fills in what is not said otherwise; `strict`: as `open_dataset`.

    published: what a published recipe says, as `--set` takes it; it may tell of what is not played.
    """
    written = read_recipe(recipe) if recipe else None
    name = method or (written.method if written else None)
    if name is None:
        raise SfumatoError("no method is named", "name one (see `sfumato list methods`), or a recipe that does")
    if written and written.method and written.method != name:
        raise SfumatoError(f"'{recipe}' is a recipe for {written.method}, not for {name}", f"train {written.method}")
    if name not in TAUGHT and name not in METHODS:
        raise unknown_name("method", name, [*(method.name for method in METHODS), *TAUGHT])
    kind = TAUGHT.get(name) or find_method(name).config
    config = load_options(kind, recipe=recipe, settings=[*published, *settings])
    _refuse_for_nobody(config, settings)
    data = data or (written.data if written else None) or "theatre:small"
    if name in TAUGHT and privacy_data:
        raise SfumatoError(f"{name} learns from what is drawn, not from private labels", "leave --privacy-data out")
    privacy_data = privacy_data or (written.privacy_data if written else None) or data
    folder = folder or Path("runs") / name
    where = pick_device(device)
    about = {
        "method": name, "config": to_dict(config), "data": data, "privacy_data": privacy_data, "seed": seed,
        "devices": devices, "hardware": hardware(where), "commit": commit(), "versions": versions(),
    }  # fmt: skip
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    if resume and not RunFolder(folder).record.exists():
        say(f"there is no run in '{folder}' yet: it begins now", console=err)
    run = RunFolder.open(folder, about, resume=resume)
    if run.result.exists():
        say(f"'{folder}' is finished already", console=err)
        return run
    order = Order(name, to_dict(config), data, privacy_data, folder, seed, str(where), strict)
    try:
        launch(teach if name in TAUGHT else carry_out, devices, order, device=where)
    except BaseException:
        _withdraw(run, made)
        raise
    return run


def _withdraw(run: RunFolder, made: Sequence[Path]) -> None:
    """Take back a run that ended before it had done anything: the next try must not find it in its way."""
    if [entry.name for entry in run.path.iterdir()] == [run.record.name]:
        run.record.unlink()
        with suppress(OSError):  # somebody else has put something there
            for place in made:
                place.rmdir()


def carry_out(order: Order) -> None:
    """One process's part of a training."""
    device = device_of(current(), torch.device(order.device))
    method = find_method(order.method)
    with bars() if current().main else nullcontext() as shown:
        screen = Screen(shown)
        progress = Progress(screen.phase, screen.step, screen.note)
        if method.on_features:
            with _enough_memory():
                method.train(method.config(**order.config), _feature_stage(order, device, screen, progress))
            return
        config = method.config(**order.config)
        method.check(config)
        load = load_banks if method.needs_labels else load_unlabelled
        banks = load(
            order.data, order.privacy_data, device, screen.loading, strict=order.strict, fits=partial(method.fits, config)
        )  # fmt: skip
        stage = Stage(banks, RunFolder(order.folder), order.seed, device, progress, title=order.method)
        if current().main:
            stage.run.pin("clips", stage.banks.fingerprint)
        screen.clips_per_step(int(order.config["batch"]) * current().size, len(stage.banks.action))
        with _enough_memory():
            method.train(config, stage)


def _refuse_for_nobody(config: Any, settings: Sequence[str]) -> None:
    """What is asked of an f_B or a phase that is not played would be ignored in silence; a recipe may tell of it."""
    asked = [each.partition("=")[0].strip() for each in settings]
    of_nobody = [key for key in asked if key in OF_BUDGET_MODELS]
    if of_nobody and getattr(config, "budget_update", "") == "none":
        raise SfumatoError(
            f"'{of_nobody[0]}' is a setting of f_B, and with budget_update=none nobody plays it",
            "add --set budget_update=updated, or leave it out",
        )
    if unplayed := [key for key in asked if key in getattr(config, "unplayed", list)()]:
        raise SfumatoError(
            f"'{unplayed[0]}' is a setting of a phase that phases={config.phases} does not play",
            "leave one of them out",
        )


def _feature_stage(order: Order, device: torch.device, screen: Screen, progress: Progress) -> FeatureStage:
    """Data by name: whether it must be encoded first, the method finds out."""
    return FeatureStage(
        order.data, order.privacy_data, RunFolder(order.folder), order.seed, device, progress, title=order.method,
        strict=order.strict, loading=screen.loading, counting=screen.clips_per_step,
    )  # fmt: skip


def teach(order: Order) -> None:
    """One process's part of teaching the small vision-language model, or an encoder."""
    device = device_of(current(), torch.device(order.device))
    run, config = RunFolder(order.folder), TAUGHT[order.method](**order.config)
    with bars() if current().main else nullcontext() as shown, _enough_memory():
        screen = Screen(shown)
        screen.clips_per_step(config.batch * current().size, len(rehearsed()))  # an epoch: every motion once
        progress = Progress(screen.phase, screen.step, screen.note)
        if isinstance(config, CaptionConfig):
            train_captions(config, order.data, run, seed=order.seed, device=device, progress=progress)
        else:
            train_encoder(config, order.data, run, seed=order.seed, device=device, progress=progress)


@contextmanager
def _enough_memory() -> Iterator[None]:
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        smaller = "set a smaller batch and privacy_batch (--set batch=…), or a smaller network"
        raise SfumatoError("the memory of the GPU is full", smaller) from None


@telling_once()
def load_banks(
    data: str, privacy_data: str, device: torch.device, progress: Loading | None = None, *, strict: bool = False,
    fits: Callable[[VideoDataset], object] = lambda dataset: None,
) -> Banks:  # fmt: skip
    """The clips of one or two data sets, to train on and to watch; what is the same is held once. `strict`: as `open_dataset`.

    fits: raises where clips like those of the first data set will not do.

    >>> load_banks("theatre:small", "theatre:small", torch.device("cpu")).action_count
    10
    """
    for name in (data, privacy_data):
        if name.startswith(FEATURES):
            raise SfumatoError(f"'{name}' are features, and this method learns from videos", "train splavu on them")
    action = open_dataset(data, strict=strict)
    privacy = action if privacy_data == data else open_dataset(privacy_data, strict=strict)
    _report(action, privacy)
    fits(action)
    if (action.shape.height, action.shape.width) != (privacy.shape.height, privacy.shape.width):
        raise SfumatoError(f"frames of {data} and {privacy_data} differ in size", "give both data sets the same size")
    # What is to be loaded is settled before anything is: decoding takes its time.
    wanted = [
        (action, training_indices(action)), (privacy, training_indices(privacy)),
        (action, watched_indices(action, "person", WATCHED)), (privacy, watched_indices(privacy, "clip", WATCHED)),
    ]  # fmt: skip

    def load(dataset: VideoDataset, indices: torch.Tensor) -> Bank:
        return load_bank(dataset, indices, device=device, progress=progress)

    learned = load(*wanted[0])
    banks = Banks(
        learned, learned if privacy is action else load(*wanted[1]), load(*wanted[2]), load(*wanted[3]),
        len(action.actions), f"{action.fingerprint()} {privacy.fingerprint()}",
    )  # fmt: skip
    _report(action, privacy)  # a file that ends before its header says is found out when it is decoded
    return banks


@telling_once()
def load_unlabelled(
    data: str, privacy_data: str, device: torch.device, progress: Loading | None = None, *, strict: bool = False,
    fits: Callable[[VideoDataset], object] = lambda dataset: None,
) -> Banks:  # fmt: skip
    """The clips of a data set for a method that learns without labels: none is read, so that there need not be any.

    >>> load_unlabelled("footage:recordings", "footage:recordings", torch.device("cpu"))  # doctest: +SKIP
    """
    if privacy_data != data:
        raise SfumatoError("what learns without labels learns from one data set", "leave --privacy-data out")
    dataset = open_dataset(data, strict=strict)
    _report(dataset)
    fits(dataset)
    strangers, others = (watched_indices(dataset, by, WATCHED, labels=False) for by in ("person", "clip"))

    def load(indices: torch.Tensor) -> Bank:
        return load_bank(dataset, indices, device=device, labels=False, progress=progress)

    learned, shown = load(training_indices(dataset)), load(strangers if len(strangers) else others)
    _report(dataset)
    return Banks(learned, learned, shown, shown, len(dataset.actions), dataset.fingerprint())


def _report(*datasets: VideoDataset) -> None:
    if current().main:
        for dataset in datasets:
            report_problems(dataset)


class Screen:
    """Phase, epoch and losses: a line now and then, and on a terminal below it a bar with the time left."""

    LINES = 10  # per phase, about
    BAR = 70  # columns that the bar takes, with all that stands beside it but the status

    def __init__(self, shown: Bars | None) -> None:
        self.shown = shown
        self.task = shown.add_task("loading clips", total=None, status="") if shown else None
        self.batch, self.clips, self.name, self.steps, self.batches = 1, 1, "", 0, 1

    def clips_per_step(self, batch: int, clips: int) -> None:
        """For counting epochs."""
        self.batch, self.clips = batch, clips

    def loading(self, done: int, total: int) -> None:
        """Clips that are there."""
        self._update(completed=done, total=total)

    def phase(self, name: str, steps: int, done: int, batches: int) -> None:
        """A phase begins, or goes on after `done` steps, each of which takes so many batches."""
        self.name, self.steps, self.batches = name, steps, batches
        if self.shown and self.task is not None:
            self.shown.reset(self.task, total=steps, completed=done, description=name, status="")

    def step(self, done: int, latest: dict[str, float]) -> None:
        """Steps that are done, and the losses of the last one."""
        losses = ", ".join(f"{name} {value:.3g}" for name, value in latest.items())
        status = f"epoch {done * self.batches * self.batch / self.clips:.1f}: {losses}"
        # Cut to what is free, because a status that is too long would push the bar away.
        self._update(completed=done, status=status[: max(10, err.width - self.BAR)])
        every = max(1, self.steps // self.LINES // 10 * 10)
        if self.shown and (done % every == 0 or done == self.steps):
            say(f"{self.name} {done}/{self.steps}, {status}", console=err)

    def note(self, text: str) -> None:
        """Something worth a line."""
        if self.shown:
            say(text, console=err)

    def _update(self, **fields: Any) -> None:
        if self.shown and self.task is not None:
            self.shown.update(self.task, **fields)
