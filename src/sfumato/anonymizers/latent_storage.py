"""Latent anonymizers into a folder and back: a JSON of settings beside a safetensors file, and whose features they are for."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.anonymizers.shelf import LATENT, shelved
from sfumato.anonymizers.storage import CONFIG, NAME_A_FOLDER, WEIGHTS
from sfumato.datasets.feature_store import Manifest
from sfumato.errors import SfumatoError
from sfumato.registry import unknown_name
from sfumato.writing import read_checked, write_model


def save_latent(adapter: LatentAdapter, made_for: Manifest, folder: str | Path, title: str = "") -> Path:
    """Write `adapter` into `folder`, with the encoder whose features it was trained on, and return the folder.

    >>> save_latent(LatentAdapter(256), FeatureStore("features").manifest, "my-adapter")  # doctest: +SKIP
    """
    from safetensors.torch import save as to_bytes

    weights = {key: value.detach().cpu().contiguous().clone() for key, value in sorted(adapter.state_dict().items())}
    config = {
        LATENT: adapter.name,
        "title": title,
        "settings": dict(adapter.settings()),
        "features": asdict(made_for),
    }
    return write_model(Path(folder), (WEIGHTS, CONFIG), config, to_bytes(weights))


def find_latent(source: str | Path) -> Path:
    """The folder of that name, on the shelf or anywhere else.

    >>> find_latent("splavu-small").name  # doctest: +SKIP
    'splavu-small'
    """
    path, shelf = Path(source), shelved(kind=LATENT)
    if path.is_dir() or len(path.parts) > 1:
        return path
    if str(source) not in shelf:
        raise unknown_name("anonymizer of features", str(source), [*shelf, "a folder that `sfumato train splavu` left"])
    return shelf[str(source)]


def load_latent(source: str | Path) -> tuple[LatentAdapter, Manifest]:
    """The adapter of that name or folder, in eval mode, and whose features it takes: `Manifest.require` refuses all others.

    >>> adapter, made_for = load_latent("splavu-small")  # doctest: +SKIP
    """
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    path = find_latent(source)
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except OSError as error:
        raise SfumatoError(f"cannot read '{error.filename}'", NAME_A_FOLDER) from error
    except ValueError as error:
        raise SfumatoError(f"'{path / CONFIG}' is not valid JSON", "save the adapter again") from error
    adapter, made_for = _build(path, config)
    content = read_checked(path / WEIGHTS, config.get("weights_sha256"), CONFIG)
    try:
        adapter.load_state_dict(from_bytes(content))
    except (SafetensorError, RuntimeError) as error:
        raise SfumatoError(f"the weights in '{path}' do not fit its settings", "save the adapter again") from error
    return adapter.eval(), made_for


def _build(folder: Path, config: Any) -> tuple[LatentAdapter, Manifest]:
    """Weights at random."""
    match config:
        case {"latent_anonymizer": LatentAdapter.name, "settings": dict(settings), "features": dict(features)}:
            try:
                made_for = Manifest(**{**features, "clip": tuple(features["clip"])})
                return LatentAdapter(**settings), made_for
            except (TypeError, KeyError) as error:
                raise SfumatoError(
                    f"'{folder / CONFIG}' is of another version ({error})", "train the adapter again"
                ) from error
    raise SfumatoError(
        f"'{folder}' holds no anonymizer of features", "name the folder that `sfumato train splavu` left"
    )
