"""`sfumato judge … --protocol latent`: anonymizers of features before their own judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from sfumato.anonymizers.latent_adapter import LatentAnonymizer
from sfumato.anonymizers.latent_storage import find_latent, load_latent
from sfumato.anonymizers.storage import CONFIG
from sfumato.commands.console import monitored
from sfumato.datasets.feature_store import Manifest
from sfumato.errors import SfumatoError
from sfumato.evaluation.latent import ALL, PROTOCOLS, LatentConfig, LatentJudge
from sfumato.evaluation.protocols.known import RAW, Watch
from sfumato.evaluation.result import Result
from sfumato.recognizers.weights import checksum
from sfumato.training.feature_data import FEATURES, Stored, fetch, require


def is_latent(protocol: str) -> bool:
    """Whether that protocol asks about features, not videos.

    >>> is_latent("latent-probe"), is_latent("known")
    (True, False)
    """
    return protocol in (ALL, *(f"{ALL}-{name}" for name in PROTOCOLS))


def judge_latent(
    names: Sequence[str], data: str, *, protocol: str, seeds: int, models: str, epochs: int | None, device: torch.device
) -> Result:
    """Judge the adapters of those names or folders on a store of features; raw features are always judged too, and first.

    >>> judge_latent(["runs/splavu/anonymizer"], "features:short", protocol="latent", seeds=1, models="tiny",
    ...              epochs=None, device=torch.device("cpu"))  # doctest: +SKIP
    """
    if not data.startswith(FEATURES) or data == FEATURES:
        raise SfumatoError(
            f"the protocol {protocol} asks about features, and '{data}' are none",
            f"run `sfumato features extract`, then --data {FEATURES}DIR",
        )
    source = Stored(data)
    adapters = _load(names, data, source.store.manifest)
    own = [name for name in PROTOCOLS if protocol == f"{ALL}-{name}"]
    with monitored() as monitor:
        watch = Watch(monitor.total, monitor.done, monitor.status)
        features = fetch(
            source, None, Path(), device, lambda done, total: monitor.status(f"reading features {done}/{total}")
        )
        judging = LatentJudge(features, LatentConfig(models, epochs or 0, seeds), names=own, device=device, watch=watch)
        return judging.judge(adapters)


def _load(names: Sequence[str], data: str, manifest: Manifest) -> dict[str, LatentAnonymizer]:
    """Adapters by their title and the first digits of their weights' checksum; refused where not made for those features."""
    found: dict[str, LatentAnonymizer] = {}
    for name in names:
        if name == RAW:
            continue
        adapter, made_for = load_latent(name)
        require(data, manifest, made_for.weights_sha256, made_for.width)
        title = json.loads((find_latent(name) / CONFIG).read_text(encoding="utf-8")).get("title") or adapter.name
        found[f"{title}@{checksum(adapter)[:8]}"] = adapter
    return found
