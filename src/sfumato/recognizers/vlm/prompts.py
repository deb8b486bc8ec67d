"""Sentences out of action names."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import SfumatoError
from sfumato.recognizers.vlm.base import VideoLanguageModel

BLANK = "{}"
_NAMED = 12  # unknown words; of more, how many


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
    if not all(map(_plain, labels)):
        raise SfumatoError("one of the labels is empty", "give every action a name")
    if same := _same_twice(labels):
        raise SfumatoError(f"the labels '{same[0]}' and '{same[1]}' are the same", "name every action once")
    return [template.replace(BLANK, label) for label in labels]


def fill_templates(templates: Sequence[str], labels: Sequence[str]) -> list[list[str]]:
    """The prompts of every template, in its order; a template that is there twice would count twice, and is refused.

    >>> fill_templates(["a person {}", "somebody {}"], ["waves"])
    [['a person waves'], ['somebody waves']]
    """
    if same := _same_twice(templates):
        raise SfumatoError(f"the templates '{same[0]}' and '{same[1]}' are the same", "give every template once")
    return [fill_prompts(template, labels) for template in templates]


def require_distinct(model: VideoLanguageModel, prompts: Sequence[str]) -> None:
    """Refuse prompts of which the model reads two alike: which of them fits a clip would be decided by their order.

    >>> require_distinct(load_vlm("runs/vlm"), ["a person waves", "a person jumps"])  # doctest: +SKIP
    """
    seen: dict[tuple[int, ...], str] = {}
    for prompt, tokens in zip(prompts, model.tokens(prompts), strict=True):
        if tokens in seen:
            unknown = model.unknown_words(prompts)
            more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
            why = f", for it does not know the words {', '.join(unknown[:_NAMED])}{more}" if unknown else ""
            raise SfumatoError(
                f"the vision-language model cannot tell '{seen[tokens]}' from '{prompt}'{why}",
                "describe the actions in words that it knows, or name a model that knows these",
            )
        seen[tokens] = prompt


def _plain(text: str) -> str:
    """What a text model makes out: it reads without regard to case and to blanks."""
    return " ".join(text.casefold().split())


def _same_twice(texts: Sequence[str]) -> tuple[str, str] | None:
    """The first two that no text model tells apart."""
    seen: dict[str, str] = {}
    for text in texts:
        if (plain := _plain(text)) in seen:
            return seen[plain], text
        seen[plain] = text
    return None
