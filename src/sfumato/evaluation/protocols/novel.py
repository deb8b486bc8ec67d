"""The *novel* protocols (SPAct section 4.3, its Table 2): actions and attributes that the anonymizer was not made for.

f_A was made on one data set. Fresh f'_T and fresh f'_B learn, and are tested, on what it has never been asked to keep or to
hide: new actions (`novel-actions`), new attributes (`novel-attributes`), or both (`novel`). No label of the one may be a
label of the other. For the theatre the other data set is at hand; else both are named, "KNOWN + NOVEL".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from sfumato.datasets import open_dataset
from sfumato.datasets.base import VideoDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.protocols.known import ATTRIBUTE_ATTACKS, JudgeConfig, KnownProtocol, Watch

# What is new to an anonymizer that was made on the first.
COMPANIONS = {
    "theatre:small": "theatre:small-novel",
    "theatre:tiny": "theatre:tiny-novel",
    "theatre": "theatre:novel",
    "theatre:balanced": "theatre:novel",
}


class NovelProtocol(KnownProtocol):
    """The known protocol on actions and attributes of `novel`, none of which `dataset` has."""

    name = "novel"
    second = "novel"  # what a second data set is given as
    attacks = ATTRIBUTE_ATTACKS
    new_actions, new_attributes = True, True

    def __init__(
        self,
        dataset: VideoDataset,
        config: JudgeConfig,
        *,
        device: torch.device,
        folder: Path,
        watch: Watch | None = None,
        novel: VideoDataset | None = None,
    ) -> None:
        other = novel or companion(dataset)
        if self.new_actions:
            require_new("actions", dataset, dataset.actions, other, other.actions)
        if self.new_attributes:
            require_new("attributes", dataset, _named(dataset), other, _named(other))
        judged = other if self.new_actions else dataset
        asked = other if self.new_attributes else dataset
        super().__init__(
            judged if judged is asked else judged.about(_named(asked)),
            config,
            device=device,
            folder=folder,
            watch=watch,
        )
        new = [what for what, is_new in (("actions", self.new_actions), ("attributes", self.new_attributes)) if is_new]
        self.notes.append(f"new to an anonymizer made on {dataset.name}: {' and '.join(new)}, those of {other.name}")


class NovelActionsProtocol(NovelProtocol):
    """New actions; the attributes are those that the anonymizer was made against."""

    name = "novel-actions"
    new_attributes = False


class NovelAttributesProtocol(NovelProtocol):
    """New attributes; the actions are those that the anonymizer was made for."""

    name = "novel-attributes"
    new_actions = False


def companion(dataset: VideoDataset) -> VideoDataset:
    """The data set that is new to whoever knows this one.

    >>> companion(open_dataset("theatre:small")).name
    'theatre:small-novel'
    """
    if dataset.name not in COMPANIONS:
        raise SfumatoError(
            f"nobody knows what is new to an anonymizer made on {dataset.name}",
            "name that data set too: --data 'KNOWN + NOVEL'",
        )
    return open_dataset(COMPANIONS[dataset.name])


def require_new(
    what: str, known: VideoDataset, known_names: Sequence[str], novel: VideoDataset, novel_names: Sequence[str]
) -> None:
    """Stop where something that should be new is not.

    >>> require_new("actions", open_dataset("theatre:small"), ("wave",), open_dataset("theatre:small-novel"), ("bow",))
    """
    if shared := [name for name in novel_names if name in known_names]:
        listed = ", ".join(shared[:5]) + (f" and {len(shared) - 5} more" if len(shared) > 5 else "")
        raise SfumatoError(
            f"{what} of {novel.name} are not new to who knows {known.name}: {listed}", "name data without these"
        )


def _named(dataset: VideoDataset) -> tuple[str, ...]:
    return tuple(spec.name for spec in dataset.attributes)
