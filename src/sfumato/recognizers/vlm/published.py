"""Published checkpoints, from a folder or the Hugging Face Hub: all of a model, its tokenizer and its pixels, or an error.

`transformers` begins what a checkpoint lacks at random, and makes a tokenizer of two tokens where there is none; both
would give embeddings that mean nothing. Weights are read as numbers only (safetensors, or PyTorch's `weights_only`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.recognizers.base import Pixels
from sfumato.recognizers.vlm.base import VideoLanguageModel, recompute

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
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
    folder = _download(str(source), ["*.json", "*.txt", "*.safetensors"])
    # Older checkpoints were never saved as safetensors.
    return folder if any(folder.glob("model*.safetensors")) else _download(str(source), ["*.bin"])


def _download(hub_id: str, patterns: list[str]) -> Path:
    import huggingface_hub

    try:
        return Path(huggingface_hub.snapshot_download(hub_id, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        raise SfumatoError(
            f"'{hub_id}' is no folder here and could not be had from the Hugging Face Hub ({type(error).__name__})",
            "check the spelling and the network, or download it and name the folder",
        ) from error


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
    wanted, found = make.config_class.model_type, read_object(folder / "config.json").get("model_type")
    if found != wanted:
        raise SfumatoError(f"'{folder}' holds a model of type '{found}', not '{wanted}'", "name another checkpoint")
    try:
        model, report = make.from_pretrained(folder, local_files_only=True, output_loading_info=True)
    except Exception as error:  # a damaged or hostile file can trip a reader in any way
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SfumatoError(f"cannot read the model in '{folder}' ({reason})", "download it again") from error
    if missing := sorted(report["missing_keys"]):
        some = ", ".join(missing[:NAMED_AT_MOST]) + (" and others" if len(missing) > NAMED_AT_MOST else "")
        raise SfumatoError(f"the weights in '{folder}' lack {some}", "name a checkpoint that holds the whole model")
    return model.float()


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


class Tokenizer:
    """CLIP's tokenizer out of the checkpoint's own files: prompts to what a text model takes.

    >>> Tokenizer(Path("xclip-base-patch16"), model.config.text_config)(["a person waves"])  # doctest: +SKIP
    """

    def __init__(self, folder: Path, text: Any) -> None:
        from transformers import CLIPTokenizerFast

        if not any(
            all((folder / f).is_file() for f in files) for files in (["tokenizer.json"], ["vocab.json", "merges.txt"])
        ):
            raise SfumatoError(
                f"'{folder}' has no tokenizer", "put its tokenizer.json, or vocab.json and merges.txt, there"
            )
        try:
            self.tokenizer = CLIPTokenizerFast.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # as with the weights
            raise SfumatoError(f"cannot read the tokenizer in '{folder}'", "download it again") from error
        self.longest: int = text.max_position_embeddings
        if len(self.tokenizer) > text.vocab_size:
            raise SfumatoError(
                f"the tokenizer in '{folder}' knows {len(self.tokenizer)} tokens, its text model {text.vocab_size}",
                "use the tokenizer that belongs to the model",
            )

    def __call__(self, prompts: Sequence[str]) -> Any:
        for prompt in prompts:
            if (length := len(self.tokenizer(prompt).input_ids)) > self.longest:
                raise SfumatoError(
                    f"the prompt '{prompt[:40]}…' has {length} tokens, and the text model reads {self.longest}",
                    "shorten it",
                )
        return self.tokenizer(list(prompts), padding=True, return_tensors="pt")


class PublishedModel(VideoLanguageModel):
    """What the CLIP family shares: frames through CLIP's vision model, prompts through its text model."""

    def __init__(self, folder: Path, model: Any, frames: int, pixels: Pixels) -> None:
        vision = model.config.vision_config
        super().__init__((frames, vision.image_size, vision.image_size), vision.patch_size, read_pixels(folder, pixels))
        self.model = model
        self.tokenizer = Tokenizer(folder, model.config.text_config)
        recompute(model.vision_model.encoder.layers)

    @property
    def scale(self) -> Tensor:
        scale: Tensor = self.model.logit_scale.exp()
        return scale

    def encode_frames(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, 3, H, W) to patches (B, T, N, D) and frames (B, T, D)."""
        seen = self.model.vision_model(pixel_values=pixels.flatten(0, 1))
        patch, frame = seen.last_hidden_state[:, 1:], seen.pooler_output
        return patch.unflatten(0, pixels.shape[:2]), frame.unflatten(0, pixels.shape[:2])

    def encode_text(self, prompts: Sequence[str]) -> Tensor:
        read = self.model.text_model(**self.tokenizer(prompts).to(self.mean.device))
        text: Tensor = self.model.text_projection(read.pooler_output)
        return text
