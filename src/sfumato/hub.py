"""Files of the Hugging Face Hub, brought here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sfumato.errors import SfumatoError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def download(hub_id: str, patterns: Sequence[str]) -> Path:
    """The folder with the files of `hub_id` that fit the patterns.

    >>> download("microsoft/xclip-base-patch16", ["*.json", "*.safetensors"])  # doctest: +SKIP
    """
    import huggingface_hub

    try:
        return Path(huggingface_hub.snapshot_download(hub_id, allow_patterns=list(patterns)))
    except (OSError, ValueError) as error:
        raise SfumatoError(
            f"'{hub_id}' is no folder here and could not be had from the Hugging Face Hub ({type(error).__name__})",
            "check the spelling and the network, or download it and name the folder",
        ) from error
