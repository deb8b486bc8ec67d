"""Vision-language models by name, and the small one from a folder and into a folder: a JSON beside a safetensors file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.recognizers.published import named_folder, read_object
from sfumato.recognizers.vlm.actionclip import ActionCLIP
from sfumato.recognizers.vlm.base import VideoLanguageModel
from sfumato.recognizers.vlm.small import SmallVLM, SmallVLMConfig
from sfumato.recognizers.vlm.xclip import XCLIP
from sfumato.registry import unknown_name
from sfumato.writing import read_checked, write_model

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
# Published ones: the class, and a checkpoint on the Hugging Face Hub.
FAMILIES: dict[str, tuple[Callable[[str], VideoLanguageModel], str]] = {
    "xclip": (XCLIP, "microsoft/xclip-base-patch16"),
    "actionclip": (ActionCLIP, "openai/clip-vit-base-patch16"),
}


def load_vlm(source: str | Path) -> VideoLanguageModel:
    """A frozen model: `xclip:FOLDER_OR_ID`, `actionclip:FOLDER_OR_ID`, or a small one: its folder, or the name of one that
    comes with the project.

    >>> load_vlm("xclip:microsoft/xclip-base-patch16")  # doctest: +SKIP
    >>> load_vlm("runs/vlm")  # doctest: +SKIP
    """
    family, colon, rest = str(source).partition(":")
    if family in FAMILIES and (colon or not Path(source).is_dir()):
        make, example = FAMILIES[family]
        if not rest:  # Path("") would be the folder that the command runs in
            raise SfumatoError(
                f"'{source}' names no checkpoint", f"give {family}:FOLDER, or an id as in {family}:{example}"
            )
        return make(rest)
    if rest and not Path(source).is_dir():
        raise unknown_name("family of vision-language models", family, list(FAMILIES))
    return _load_small(find_vlm(source)).freeze()


def find_vlm(source: str | Path) -> Path:
    """The folder of that name, on the shelf or anywhere else.

    >>> find_vlm("vlm")  # doctest: +SKIP
    PosixPath('weights/vlm')
    """
    return named_folder(source, "vlm")


def save_vlm(model: VideoLanguageModel, folder: str | Path) -> Path:
    """Write a small model into `folder`, beside whatever else lies there, and return the folder.

    >>> save_vlm(SmallVLM(SmallVLMConfig((8, 64, 64), ("a", "person", "waves"))), "runs/vlm")  # doctest: +SKIP
    """
    from safetensors.torch import save as to_bytes

    if not isinstance(model, SmallVLM):
        raise SfumatoError("only the small model is saved here", "name a published checkpoint by its folder or Hub id")
    weights = to_bytes({name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()})
    return write_model(Path(folder), (WEIGHTS, CONFIG), {"vlm": "small", "settings": asdict(model.config)}, weights)


def _load_small(folder: Path) -> SmallVLM:
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    path = folder / CONFIG
    match read_object(path):
        case {"vlm": "small", "settings": dict(settings), "weights_sha256": str(checksum)}:
            model = SmallVLM(_read_settings(path, settings))
        case {"model_type": "xclip" | "clip" as found}:
            family = {"xclip": "xclip", "clip": "actionclip"}[found]
            raise SfumatoError(f"'{folder}' is a published checkpoint", f"name it as {family}:{folder}")
        case _:
            raise SfumatoError(f"'{path}' does not describe a small vision-language model", "save it with save_vlm")
    content = read_checked(folder / WEIGHTS, checksum, CONFIG)
    try:
        model.load_state_dict(from_bytes(content))
    except (RuntimeError, SafetensorError) as error:
        raise SfumatoError(f"the weights in '{folder}' do not fit its {CONFIG}", "save or download it again") from error
    return model


def _read_settings(path: Path, settings: Mapping[str, Any]) -> SmallVLMConfig:
    """JSON has no tuples, and may hold anything."""
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
    }
    words = known.get("words")
    if not (isinstance(words, tuple) and all(isinstance(word, str) for word in words)):
        raise SfumatoError(f"'{path}' has no list of words", "save it again")
    try:
        return SmallVLMConfig(**known)
    except TypeError as error:  # a name too many or too few, or a number where a clip belongs
        raise SfumatoError(f"the settings in '{path}' are not those of a small model", "save it again") from error
