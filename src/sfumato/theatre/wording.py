"""Many sentences for one caption: who does it, and how much is said about how it is done."""

from __future__ import annotations

from itertools import product

SUBJECTS = ("a person", "someone", "somebody")
# Which of (tempo, repetitions) a sentence mentions.
_MENTIONED = ((True, True), (True, False), (False, True), (False, False))
WAYS = tuple(product(_MENTIONED, SUBJECTS))


def sentences(caption: str) -> tuple[str, ...]:
    """The caption in each of `WAYS`; the first is whole and about "a person".

    A caption is what is done and, after commas, the tempo and the repetitions; where it has none there are none to leave
    out. Motions that differ only in what is left out get the same sentence.

    >>> sentences("raises the left arm forward, slowly, twice")[-1]
    'somebody raises the left arm forward'
    """
    done, *how = caption.split(", ")
    return tuple(
        ", ".join([f"{subject} {done}", *(word for word, said in zip(how, mentioned, strict=bool(how)) if said)])
        for mentioned, subject in WAYS
    )
