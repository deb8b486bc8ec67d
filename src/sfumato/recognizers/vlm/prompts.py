"""Sentences out of action names."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import SfumatoError

BLANK = "{}"


def fill_prompts(template: str, labels: Sequence[str]) -> list[str]:
    """One prompt per label: the label in the place of every `{}` of the template.

    >>> fill_prompts("a person {}", ["waves", "jumps"])
    ['a person waves', 'a person jumps']
    """
    if BLANK not in template:
        raise SfumatoError(
            f"the template '{template}' has no place for the label",
            f"write {BLANK} where it goes, as in 'a person {BLANK}'",
        )
    seen: dict[str, str] = {}
    for label in labels:
        # No text model tells these apart: they read without regard to case and to blanks.
        plain = " ".join(label.casefold().split())
        if not plain:
            raise SfumatoError("one of the labels is empty", "give every action a name")
        if plain in seen:
            raise SfumatoError(f"the labels '{seen[plain]}' and '{label}' are the same", "name every action once")
        seen[plain] = label
    return [template.replace(BLANK, label) for label in labels]
