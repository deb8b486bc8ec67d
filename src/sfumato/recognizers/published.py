"""Published checkpoints, from a folder or the Hugging Face Hub: all of a model and its pixels, or an error.

`transformers` begins what a checkpoint lacks at random, which would give embeddings that mean nothing. Weights are read as
numbers only (safetensors, or PyTorch's `weights_only`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sfumato.anonymizers.shelf import shelved
from sfumato.errors import SfumatoError
from sfumato.hub import HUB_ID, download
from sfumato.recognizers.base import Pixels

NAMED_AT_MOST = 5


def local_folder(source: str | Path) -> Path:
    """The folder of that name, or the Hub's files brought here: `org/name` that is no folder is taken for a Hub id.

    >>> local_folder("microsoft/xclip-base-patch16")  # doctest: +SKIP
    """
    if (folder := Path(source)).is_dir():
        return folder
    if folder.exists() or not HUB_ID.fullmatch(str(source)):
        raise SfumatoError(
            f"there is no folder '{source}'", "name the folder of a checkpoint, or a Hugging Face Hub id"
        )
    folder = download(str(source), ["*.json", "*.txt", "*.safetensors"])
    # Older checkpoints were never saved as safetensors.
    return folder if any(folder.glob("model*.safetensors")) else download(str(source), ["*.bin"])


def named_folder(source: str | Path, kind: str) -> Path:
    """The folder of that name, be it one that comes with the project (`kind`: such as an `encoder`) or any other.

    >>> named_folder("encoder", "encoder")  # doctest: +SKIP
    PosixPath('weights/encoder')
    """
    shelf = {} if Path(source).is_dir() else shelved(kind=kind)
    if str(source) in shelf:
        return shelf[str(source)]
    try:
        return local_folder(source)
    except SfumatoError as error:
        raise SfumatoError(
            error.what, f"{error.next_step}; here by name: {', '.join(shelf)}" if shelf else error.next_step
        ) from None


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in that file.

    >>> read_object(Path("runs/vlm/config.json"))["vlm"]  # doctest: +SKIP
    'small'
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SfumatoError(f"cannot read '{path}'", "name a folder that holds a checkpoint") from error
    except (ValueError, RecursionError) as error:
        raise SfumatoError(f"'{path}' is not valid JSON", "save or download it again") from error
    if not isinstance(content, dict):
        raise SfumatoError(f"'{path}' holds no JSON object", "save or download it again")
    return content


def load_model(make: Any, folder: Path) -> Any:
    """The `transformers` model of the class `make`, in float32, whole.

    >>> load_model(transformers.XCLIPModel, Path("xclip-base-patch16"))  # doctest: +SKIP
    """
    require_type(make, folder)
    try:
        model, report = make.from_pretrained(folder, local_files_only=True, output_loading_info=True)
    except Exception as error:  # a damaged or hostile file can trip a reader in any way
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SfumatoError(f"cannot read the model in '{folder}' ({reason})", "download it again") from error
    if missing := sorted(report["missing_keys"]):
        some = ", ".join(missing[:NAMED_AT_MOST]) + (" and others" if len(missing) > NAMED_AT_MOST else "")
        raise SfumatoError(f"the weights in '{folder}' lack {some}", "name a checkpoint that holds the whole model")
    return model.float()


def require_type(make: Any, folder: Path) -> None:
    """Refuse a folder whose config.json is of another model than the class `make` of `transformers`.

    >>> require_type(transformers.CLIPModel, Path("xclip-base-patch16"))  # doctest: +SKIP
    """
    wanted, found = make.config_class.model_type, read_object(folder / "config.json").get("model_type")
    if found != wanted:
        raise SfumatoError(f"'{folder}' holds a model of type '{found}', not '{wanted}'", "name another checkpoint")


def read_pixels(folder: Path, default: Pixels) -> Pixels:
    """The mean and the standard deviation that the checkpoint's own preprocessor states, else the default.

    >>> read_pixels(Path("xclip-base-patch16"), IMAGENET)  # doctest: +SKIP
    """
    path = folder / "preprocessor_config.json"
    if not path.is_file():
        return default
    stated = read_object(path)
    return Pixels(
        _colours(path, stated.get("image_mean", list(default.mean))),
        _colours(path, stated.get("image_std", list(default.std))),
    )


def _colours(path: Path, values: Any) -> tuple[float, float, float]:
    match values:
        case [float() | int() as red, float() | int() as green, float() | int() as blue]:
            return float(red), float(green), float(blue)
    raise SfumatoError(f"'{path}' states no mean and deviation for three colours", "download it again")
