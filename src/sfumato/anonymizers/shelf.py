"""What comes trained with the project, by name: folders in `weights/`, each with a model card; a wheel has them inside."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sfumato.anonymizers.catalogue import ANONYMIZERS

_HERE = Path(__file__).resolve()
_INSTALLED, _CHECKOUT = _HERE.parents[1] / "weights", _HERE.parents[3] / "weights"  # setup.py copies one to the other
WEIGHTS = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
LATENT = "latent_anonymizer"  # what the config of an anonymizer of features has


def shelved(shelf: Path | None = None, kind: str = "anonymizer") -> dict[str, Path]:
    """Name → folder of everything trained there whose config names an `anonymizer`, or such as an `encoder`.

    A folder that bears the name of a registered anonymizer is left out: what `blur` means does not depend on files.

    >>> shelved(Path("no such folder"))
    {}
    """
    found = sorted((shelf or WEIGHTS).glob("*/config.json"))
    return {path.parent.name: path.parent for path in found if path.parent.name not in ANONYMIZERS and _of(path, kind)}


def _of(config: Path, kind: str) -> bool:
    try:
        return kind in json.loads(config.read_text(encoding="utf-8"))
    except ValueError:  # who asks for a damaged one shall be told that it is
        return True


def first_sentence(folder: Path, otherwise: str = "trained weights") -> str:
    """What the weights in `folder` are, in the words of their model card, `README.md`, as plain text on one line.

    otherwise: what is said without a card.

    >>> first_sentence(Path("a folder without a card"))
    'trained weights'
    """
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace") if card.exists() else ""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)  # what a model hub is told about the card
    paragraphs = (part.strip() for part in re.split(r"\n\s*\n|^#.*$", text, flags=re.MULTILINE))
    words = " ".join(next((part for part in paragraphs if part), otherwise).split())
    words = "".join(filter(str.isprintable, words))  # a card from elsewhere writes on no terminal but in letters
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", words)  # a link's text
    return re.split(r"(?<=[.!?]) (?=[A-ZÀ-Þ0-9])", words)[0]
