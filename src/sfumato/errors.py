"""The one exception that users see: what is wrong, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence


class SfumatoError(Exception):
    """A mistake the user can mend. The command prints it as one line and exits with code 2.

    left_out: rows of the user's own data that were left out before, each with its reason; they are told first.

    >>> str(SfumatoError("no video in 'empty/'", "put a video there, or name a file"))
    "no video in 'empty/': put a video there, or name a file"
    """

    def __init__(self, what: str, next_step: str = "", left_out: Sequence[str] = ()) -> None:
        super().__init__(f"{what}: {next_step}" if next_step else what)
        self.what = what
        self.next_step = next_step
        self.left_out = left_out


def counted(number: int, noun: str) -> str:
    """How many of what, for a message: one of them is no plural.

    >>> counted(1, "frame"), counted(12, "frame")
    ('1 frame', '12 frames')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
