"""Where results will be written: tried out before the first training, not found out after the last."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.writing import part_of


def check_places(*files: Path | None) -> None:
    """Stop before any work where one of the files could not be written; nothing is left there.

    >>> check_places(Path("result.json"), Path("report.html"))
    """
    asked = [file for file in files if file is not None]
    for file in asked:
        _try(file)
    if len({file.absolute() for file in asked}) < len(asked):
        raise SfumatoError(f"two results would both become '{asked[0]}'", "give each a file of its own")


def _try(file: Path) -> None:
    try:
        if file.is_dir():
            raise SfumatoError(f"'{file}' is a folder", "name a file to write")
        if file.exists() and not file.is_file():  # such as /dev/stdout, which would be replaced
            raise SfumatoError(f"'{file}' is no ordinary file", "name a file to write")
        _rehearse(file)
    except OSError as error:
        a_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "a file is where its folder should be" if a_file else error.strerror
        raise SfumatoError(f"'{file}' cannot be written ({reason})", "choose another place") from None


def _rehearse(file: Path) -> None:
    """Make the folders and the unfinished file as they will be made, since rights alone do not tell, and take them away."""
    made = [folder for folder in file.absolute().parents if not folder.exists()]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part_of(file).touch()
    finally:
        with suppress(OSError):
            part_of(file).unlink()
        for folder in made:  # the innermost comes first; one that another has put something into stays
            with suppress(OSError):
                folder.rmdir()
