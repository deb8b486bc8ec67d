"""Anonymizers by name, from a folder and into a folder: a JSON of settings beside a safetensors file of weights.

Nothing in such a folder is ever run. The JSON names a registered anonymizer and its settings; the weights are
read by safetensors, which knows numbers only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from sfumato.anonymizers.base import Anonymizer, Knob
from sfumato.anonymizers.catalogue import ANONYMIZERS
from sfumato.anonymizers.settings import Setting, check_settings, default_settings, format_name, parse_name
from sfumato.anonymizers.shelf import LATENT, first_sentence, shelved
from sfumato.errors import SfumatoError
from sfumato.hub import HUB_ID, download
from sfumato.registry import unknown_name
from sfumato.writing import read_checked, write_model

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
NAME_A_FOLDER = f"name a folder that holds {CONFIG} and {WEIGHTS}"
TITLE = re.compile(r"[A-Za-z0-9_.+-]{0,40}")  # it becomes part of file names


def load(source: str | Path, *, strength: float | None = None, **settings: Setting) -> Anonymizer:
    """The anonymizer of that name, folder or Hugging Face Hub id, in eval mode.

    A name or a folder may carry settings (`downsample:factor=16`). `strength` moves the first knob. Of an
    anonymizer that comes from a folder or the Hub only the knobs can be set: its weights fix the rest.

    >>> load("downsample", strength=16)(video)
    >>> load("runs/spact/anonymizer")(video)
    """
    text = str(source)
    name, inline = (text, {}) if Path(text).is_dir() else parse_name(text)
    wanted = {**inline, **settings}
    if not Path(name).is_dir() and name in (shelf := shelved()):
        return _load_folder(shelf[name], strength, wanted).eval()
    if name in ANONYMIZERS:
        kind = _kind(name)
        if kind.needs_weights:
            raise SfumatoError(
                f"'{name}' is a network, and a network without weights is no anonymizer",
                "name the folder of a trained one (`sfumato train` makes them)",
            )
        return _build(kind, {**wanted, **_strength(kind, strength)}).eval()
    return _load_folder(_find_folder(name), strength, wanted).eval()


def untrained(name: str, **settings: Setting) -> Anonymizer:
    """The registered anonymizer of that name with weights at random, in eval mode: to be trained, not to be used.

    >>> untrained("unet", width=16, levels=2)
    """
    return _build(_kind(name), settings).eval()


def save(anonymizer: Anonymizer, folder: str | Path) -> Path:
    """Write `anonymizer` into `folder`, beside whatever else lies there, and return the folder.

    >>> save(load("blur", strength=4), "my-blur")
    """
    from safetensors.torch import save as to_bytes

    _kind(anonymizer.name)  # what is not registered could not be loaded again
    # clones, because safetensors refuses tensors that share memory
    weights = to_bytes({key: value.detach().cpu().contiguous().clone() for key, value in _state(anonymizer)})
    config = {
        "anonymizer": anonymizer.name,
        **({"title": anonymizer.title} if anonymizer.title else {}),
        "settings": dict(anonymizer.settings()),
    }
    return write_model(Path(folder), (WEIGHTS, CONFIG), config, weights)


def label(anonymizer: Anonymizer) -> str:
    """A short stable name, the same for equal anonymizers: settings that differ from the default, and which weights.

    Without weights it is what `load` takes. Trained weights that have a title go by it, and only their knobs are told.

    >>> label(load("downsample", strength=16))
    'downsample:factor=16'
    """
    name = format_name(anonymizer.title or anonymizer.name, _changed(anonymizer))
    return f"{name}@{fingerprint(anonymizer)[:8]}" if _state(anonymizer) else name


def described(anonymizer: Anonymizer) -> str:
    """For a reader: its name, which weights, and how each of its knobs is set, also those that were left alone.

    >>> described(load("blur"))
    'blur (sigma=8)'
    """
    settings = anonymizer.settings()
    told = {**{knob.name: settings[knob.name] for knob in anonymizer.knobs}, **_changed(anonymizer)}
    name = anonymizer.title or anonymizer.name
    name = f"{name}@{fingerprint(anonymizer)[:8]}" if _state(anonymizer) else name
    return f"{name} ({format_name('', told)[1:].replace(',', ', ')})" if told else name


def _changed(anonymizer: Anonymizer) -> dict[str, Setting]:
    """The settings that differ from the default, of weights with a title only the knobs."""
    defaults = default_settings(type(anonymizer))
    knobs = [knob.name for knob in anonymizer.knobs]
    told = {k: v for k, v in anonymizer.settings().items() if k in knobs or not anonymizer.title}
    return {key: value for key, value in told.items() if value != defaults[key]}


def fingerprint(anonymizer: Anonymizer) -> str:
    """SHA-256 of name, settings and weights: what a cached result belongs to.

    >>> fingerprint(load("blur")) == fingerprint(load("blur", strength=8))  # 8 is the default
    True
    """
    digest = hashlib.sha256(json.dumps([anonymizer.name, dict(anonymizer.settings())], sort_keys=True).encode())
    for key, value in _state(anonymizer):
        digest.update(f"\n{key} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def usable_names() -> list[str]:
    """The registered anonymizers that work without weights."""
    return [name for name in ANONYMIZERS.names() if not _kind(name).needs_weights]


def knobs_of(name: str) -> list[Knob]:
    """The knobs of a registered or shelved anonymizer, each with the default that it has there; the first is its strength.

    >>> knobs_of("blur")[0].default
    8.0
    """
    if name in ANONYMIZERS:
        return list(_kind(name).knobs)
    kind, saved, _, _ = _read_config(shelved()[name] / CONFIG)
    return [replace(knob, default=saved.get(knob.name, knob.default)) for knob in _kind(kind).knobs]


def _state(anonymizer: Anonymizer) -> list[tuple[str, Tensor]]:
    return sorted(anonymizer.state_dict().items())


def _kind(name: str) -> type[Anonymizer]:
    return cast(type[Anonymizer], ANONYMIZERS.find(name).make)


def _build(kind: type[Anonymizer], settings: Mapping[str, Any]) -> Anonymizer:
    return kind(**check_settings(kind, settings))


def _strength(kind: type[Anonymizer], strength: float | None) -> dict[str, float]:
    if strength is None:
        return {}
    if not kind.knobs:
        raise SfumatoError(f"{kind.name} has no strength to set", "leave --strength out")
    return {kind.knobs[0].name: strength}


def _find_folder(name: str) -> Path:
    """The local folder, or the Hub's files brought here: `org/name` that is no folder is taken for a Hub id."""
    if (folder := Path(name)).is_dir():
        return folder
    if folder.exists():
        raise SfumatoError(f"'{name}' is a file", NAME_A_FOLDER)
    if HUB_ID.fullmatch(name):
        return download(name, [CONFIG, WEIGHTS])
    if os.sep in name:
        raise SfumatoError(f"there is no folder '{name}'", NAME_A_FOLDER)
    if name in shelved(kind=LATENT):
        raise SfumatoError(
            f"'{name}' anonymizes features, not videos",
            "use it by `sfumato index build`, or have it judged by --protocol latent",
        )
    raise unknown_name("anonymizer", name, [*shelved(), *usable_names()])


def _load_folder(folder: Path, strength: float | None, wanted: Mapping[str, Setting]) -> Anonymizer:
    name, saved, title, checksum = _read_config(folder / CONFIG)
    kind = _kind(name)
    knobs = [knob.name for knob in kind.knobs]
    for key in wanted:
        if key not in knobs:
            raise SfumatoError(f"'{key}' of '{folder}' cannot be set", f"what can: {', '.join(knobs) or 'nothing'}")
    anonymizer = _build(kind, {**saved, **wanted, **_strength(kind, strength)})
    anonymizer.title, anonymizer.made_for = title, first_sentence(folder, otherwise="")
    _fill(anonymizer, folder / WEIGHTS, checksum)
    return anonymizer


def _read_config(path: Path) -> tuple[str, dict[str, Any], str, str | None]:
    """The kind, its settings, its title ("" for none) and the checksum of its weights."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SfumatoError(f"cannot read '{path}'", NAME_A_FOLDER) from error
    except (ValueError, RecursionError) as error:
        raise SfumatoError(f"'{path}' is not valid JSON", "save the anonymizer again") from error
    match config:
        case {"anonymizer": str(name), "settings": dict(settings)}:
            title = config.get("title", "")
            if not (isinstance(title, str) and TITLE.fullmatch(title)):
                raise SfumatoError(f"the title in '{path}' is no plain word", "use letters, digits, '-', '_' or '.'")
            return name, settings, title, config.get("weights_sha256")
    raise SfumatoError(
        f"'{path}' does not describe an anonymizer", 'it needs "anonymizer": a name and "settings": an object'
    )


def _fill(anonymizer: Anonymizer, path: Path, checksum: str | None) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    try:
        content = path.read_bytes() if checksum is None else read_checked(path, checksum, CONFIG)
    except OSError as error:
        raise SfumatoError(f"cannot read '{path}'", NAME_A_FOLDER) from error
    try:
        anonymizer.load_state_dict(from_bytes(content))
    except SafetensorError as error:
        raise SfumatoError(f"'{path}' is not a safetensors file", "no other format is read: save it again") from error
    except RuntimeError as error:
        raise SfumatoError(
            f"the weights in '{path}' do not fit {anonymizer.name} with these settings", "save or download it again"
        ) from error
