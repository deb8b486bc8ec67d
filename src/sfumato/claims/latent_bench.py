"""The bench of anonymizers of features: encodes everything once, trains on the stores, judges by the latent protocols.

Each trial says which protocols judge it. The judge is as fresh as the training: of every seed there is one, which judges raw
features too, so that a lucky detector on raw features is not held against all trials.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from sfumato.anonymizers.latent_adapter import LatentAnonymizer
from sfumato.anonymizers.latent_storage import load_latent
from sfumato.anonymizers.shelf import shelved
from sfumato.claims.bench import Plan, Strength, Trial, about, config_of, open_run, run_path, timed, train_seconds
from sfumato.claims.latent_figures import figures
from sfumato.claims.rows import Row, rounded
from sfumato.commands.console import bars
from sfumato.datasets import open_dataset
from sfumato.datasets.annotations import add_annotations
from sfumato.datasets.feature_store import FeatureStore, FeatureWriter
from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.latent import PROTOCOLS, LatentConfig
from sfumato.evaluation.latent.base import LatentProtocol, Sheet
from sfumato.evaluation.latent.material import RawFeatures, make_subject, moved
from sfumato.evaluation.provenance import commit
from sfumato.methods import find_method
from sfumato.recognizers.encoders import Encoder, find_encoder, load_encoder
from sfumato.recognizers.published import read_object
from sfumato.training.batches import mix
from sfumato.training.device import hardware, pick_device, seeded
from sfumato.training.extraction import describe, encode, extract_items
from sfumato.training.feature_data import (
    FEATURES,
    FeatureSet,
    FeatureStage,
    Screenplays,
    Stored,
    own_folder,
    read_features,
)
from sfumato.training.run import RunFolder
from sfumato.turns import turn

MODELS = "tiny"
READER_EPOCHS = 50  # of every reader of features: half of what the judge usually grants, for time's sake
# TriDet's, likewise; MGFN keeps its own.
EPOCHS = {"detection": 20, "anomaly": 0}
TASKS = ("detection", "anomaly")  # that have a store of their own; all other protocols ask about the action's
STATIC = 2
# Of ten plays so many are learned from, chosen by and tested on: few points are told apart on many test videos only.
PARTS = ("train",) * 5 + ("val",) + ("test",) * 4
MEASURED = 64  # clips that the encoder's speed is measured on


@dataclass(frozen=True)
class LatentPlan(Plan):
    """Which encoder's features, and the long videos for detection and anomalies; `data` are the short ones."""

    epochs: int = READER_EPOCHS
    encoder: str = ""
    detection_data: str = ""
    anomaly_data: str = ""

    def more(self) -> Row:
        """Features of other weights, or of other videos, are other rows."""
        return {
            "encoder": self.label(), "detection_data": self.detection_data, "anomaly_data": self.anomaly_data,
        }  # fmt: skip

    def label(self) -> str:
        """The encoder's name and the first digits of its weights' checksum, where it is there."""
        if not self.there():
            return self.encoder
        return f"{self.encoder}@{read_object(find_encoder(self.encoder) / 'config.json').get('weights_sha256', '')[:8]}"

    def there(self) -> bool:
        """Whether the encoder lies on the shelf, or is a folder."""
        return Path(self.encoder).is_dir() or self.encoder in shelved(kind="encoder")

    def folder(self, role: str) -> Path:
        """The store of the action's, of detection's or of anomaly's videos."""
        data = {"detection": self.detection_data, "anomaly": self.anomaly_data}.get(role, self.data)
        return own_folder(RunFolder(self.runs), f"{self.label()} {self.data} {role} {data}")

    def prepare(self) -> None:
        """Encode what is not in the stores yet."""
        if not self.there():
            raise SfumatoError(
                f"these claims are about features of the encoder '{self.encoder}', and weights/{self.encoder} is not there",
                f"train one: sfumato train encoder --data {self.data}, and copy runs/encoder/encoder to weights/{self.encoder}",
            )
        device = pick_device(self.device)
        encoder = load_encoder(self.encoder).to(device)
        manifest = describe(encoder, self.encoder, static=STATIC)
        dataset = open_dataset(self.data)
        with bars() as shown:
            task = shown.add_task(f"encoding {self.data}", total=None, status="")
            extract_items(
                encoder, dataset, torch.arange(len(dataset)), FeatureWriter(self.folder("action"), manifest), device=device,
                progress=lambda done, total: shown.update(task, completed=done, total=total),
            )  # fmt: skip
            for role, data in (("detection", self.detection_data), ("anomaly", self.anomaly_data)):
                shown.reset(task, description=f"encoding {data}")
                plays = _divided(Screenplays(data))
                if isinstance(dataset, TheatreDataset):
                    plays.theatre = dataset  # drawn as large as the clips are
                # Nobody looks at the static clips of long videos.
                writer = FeatureWriter(self.folder(role), replace(manifest, per_clip=1))
                plays.extract(
                    encoder, writer, device, lambda done, total: shown.update(task, completed=done, total=total)
                )

    def open(self) -> LatentBench:
        """A bench that finds the stores filled."""
        return LatentBench(self)


def _divided(plays: Screenplays) -> Screenplays:
    """Plays with a part to test by, as large as PARTS says."""
    for number, annotation in enumerate(plays.annotations.values()):
        split = dict.fromkeys(("person", "clip"), PARTS[number % len(PARTS)])
        plays.annotations[annotation.name] = replace(annotation, split=split)
    return plays


class LatentBench:
    """Stores of features, read once, before fresh judges; raw features are judged once for every seed."""

    def __init__(self, plan: LatentPlan) -> None:
        self.plan, self.device = plan, pick_device(plan.device)
        self.data = {role: self._read(role) for role in ("action", *TASKS)}
        self._protocols: dict[str, LatentProtocol] = {}
        self._raw: dict[tuple[str, int], Sheet] = {}

    def _read(self, role: str) -> FeatureSet:
        source = Stored(f"{FEATURES}{self.plan.folder(role)}")
        return read_features(source.name, source.store, source.annotations, self.device, lambda done, total: None)

    def begin(self) -> None:
        """Raw features are judged by every lane for itself, when it comes to them."""

    def rows(self, trial: Trial, seed: int, strengths: list[Strength]) -> Iterator[Row]:
        """One row; an adapter has no strength."""
        if strengths != [None] or not trial.judged_by:
            raise SfumatoError("anonymizers of features have no strength, and need a judge", "see judged_by")
        yield self.row(trial, seed)

    def assist(self, trial: Trial, seed: int, strengths: list[Strength]) -> None:
        """Nothing can be taken over here: readers of features take seconds."""

    def row(self, trial: Trial, seed: int) -> Row:
        """What a trial came to, numbers to four digits."""
        run = self.train(trial, seed)
        started = time.perf_counter()
        adapter, _ = load_latent(run.anonymizer)
        with _one_thread():
            found = self.judge(adapter, trial.judged_by, seed)
        seconds = train_seconds(run)
        row = {
            **about(self.plan, trial, seed, None), **found, **self._moved(adapter), **self._speed(run, seconds),
            "parameters": sum(p.numel() for p in adapter.parameters()), "run": run.path.name, "judge_models": MODELS,
            "train_seconds": seconds, "judge_seconds": time.perf_counter() - started, "hardware": hardware(self.device),
            "commit": commit(),
        }  # fmt: skip
        return rounded(row)

    # ---- training ------------------------------------------------------------------------------------------------

    def train(self, trial: Trial, seed: int) -> RunFolder:
        """The finished run of a trial, which knows how long it took; one that was stopped is taken up."""
        method = find_method(trial.method)
        if not method.on_features:
            raise SfumatoError(f"{method.name} trains no anonymizer of features", "describe it in another trials file")
        config = config_of(trial)
        stores = {f"{task}_data": f"{FEATURES}{self.plan.folder(task)}" for task in TASKS if task in config.asked()}
        config = replace(config, **stores)
        data = f"{FEATURES}{self.plan.folder('action') if trial.share == 1 else self._fewer(trial.share, seed)}"
        with turn(run_path(self.plan, trial, seed, config, data)):  # another lane may be at the same training
            run = open_run(self.plan, trial, seed, config, data)
            if not run.result.exists():
                with timed(run):
                    method.train(config, FeatureStage(data, data, run, seed, self.device, title=method.name))
        return run

    def _fewer(self, share: float, seed: int) -> Path:
        """A store with that share of the training videos, of each action, drawn by the seed; and those to watch by."""
        whole = self.plan.folder("action")
        folder, store = whole.with_name(f"{whole.name}-{share:g}-{seed}"), FeatureStore(whole)
        told = Stored(f"{FEATURES}{whole}").annotations
        learned: dict[str, list[str]] = defaultdict(list)
        for annotation in told.values():
            if annotation.part("person") == annotation.part("clip") == "train":
                learned[annotation.action].append(annotation.name)
        kept = {name for name, annotation in told.items() if "val" in annotation.split.values()}
        for action, names in learned.items():
            order = torch.randperm(len(names), generator=seeded(mix(seed, action)))
            kept |= {names[n] for n in order[: max(1, round(share * len(names)))].tolist()}
        writer = FeatureWriter(folder, store.manifest)
        add_annotations(folder, {name: told[name] for name in told if name in kept})
        for number, video in enumerate(store.videos):
            if video.name in kept and video.name not in writer.done:
                with writer.video(video.name) as rows:
                    for start, row in list(zip(video.starts, store[number], strict=True))[rows.clips :]:
                        rows.add(start, row)
        return folder

    # ---- judging -------------------------------------------------------------------------------------------------

    def judge(self, adapter: LatentAnonymizer, names: Sequence[str], seed: int) -> Row:
        """What fresh judges of that seed find in anonymized features, and in raw ones."""
        protocols = [self.protocol(name) for name in names]
        for protocol in protocols:
            if (protocol.name, seed) not in self._raw:
                self._raw[protocol.name, seed] = self._examine(RawFeatures(adapter.width), protocol, seed)
        sheets = {protocol.name: self._examine(adapter, protocol, seed) for protocol in protocols}
        return figures(protocols, sheets, {name: self._raw[name, seed] for name in names})

    def protocol(self, name: str) -> LatentProtocol:
        """The protocol of that name, on its own store."""
        if name not in self._protocols:
            if name not in PROTOCOLS:
                raise SfumatoError(f"there is no protocol '{name}'", f"use some of {', '.join(PROTOCOLS)}")
            data = self.data[name if name in TASKS else "action"]
            config = LatentConfig(MODELS, EPOCHS.get(name, self.plan.epochs))
            made = PROTOCOLS[name](data, config, self.device)
            if made.lacks:
                raise SfumatoError(f"{data.name} {made.lacks}", f"give other data, or leave '{name}' out of judged_by")
            self._protocols[name] = made
        return self._protocols[name]

    def _examine(self, adapter: LatentAnonymizer, protocol: LatentProtocol, seed: int) -> Sheet:
        return protocol.examine(make_subject(adapter.name, adapter, protocol.data), seed)

    def _moved(self, adapter: LatentAnonymizer) -> Row:
        """How far whole and static clips are moved: what f_A lets pass as it is, it does not hide."""
        found = moved(make_subject(adapter.name, adapter, self.data["action"]))
        return {f"{sight}_moved": share for sight, share in found._asdict().items()}

    # ---- time ----------------------------------------------------------------------------------------------------

    def _speed(self, run: RunFolder, seconds: float) -> Row:
        """How many times longer it would take if every clip, and its static clips, were encoded anew in every epoch.

        Against it stand one encoding and the training. Decoding is left out, which is for the videos' good.
        """
        told = Stored(run.about()["data"]).annotations.values()
        once = self._encoding * sum(a.part("person") == a.part("clip") == "train" for a in told)
        factor = (seconds + run.about()["config"]["epochs"] * once) / (seconds + once)
        return {
            "encode_seconds": once, "speedup": factor, "speedup_low": factor, "speedup_high": factor,
        }  # fmt: skip

    @cached_property
    def _encoding(self) -> float:
        """Seconds for one clip and its static clips."""
        encoder: Encoder = load_encoder(self.plan.encoder).to(self.device)
        manifest = describe(encoder, self.plan.encoder, static=STATIC)
        frames, height, width = encoder.clip
        clips = torch.zeros(MEASURED, frames, 3, height, width, dtype=torch.uint8)
        encode(encoder, clips[:8], manifest, self.device)  # warming up
        started = time.perf_counter()
        for some in clips.split(32):
            encode(encoder, some, manifest, self.device)
        return (time.perf_counter() - started) / MEASURED


@contextmanager
def _one_thread() -> Iterator[None]:
    """Readers are so small that sharing their work out costs more than it gives; several lanes use several cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
