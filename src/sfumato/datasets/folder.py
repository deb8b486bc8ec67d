"""`folder:PATH`: one folder per action, videos inside; folders train, val and test above them are taken as the split."""

from __future__ import annotations

from pathlib import Path

from sfumato.datasets.files import FileDataset, Row, automatic_split
from sfumato.datasets.manifest import parse_options, sampling_of
from sfumato.errors import SfumatoError
from sfumato.video import find_videos

_PARTS = ("train", "val", "test")


class FolderDataset(FileDataset):
    """The data set of a folder. It knows actions only: who is in the videos is not written anywhere.

    >>> FolderDataset("clips").actions  # doctest: +SKIP
    ('bow', 'wave')
    """

    split_advice = "put some into '{part}/ACTION/'"

    def __init__(self, source: str, *, strict: bool = False) -> None:
        path, options = parse_options(source, ("frames", "size", "skip"))
        root = Path(path)
        if not root.is_dir():
            raise SfumatoError(f"there is no folder '{path}'", "give a folder with one subfolder per action")
        rows, problems = [], []
        for file in find_videos(root):
            inside = file.relative_to(root).parts
            part = inside[0] if inside[0] in _PARTS and len(inside) > 2 else automatic_split(str(Path(*inside)))
            if len(inside) < 2:
                problems.append(f"{file.name}: lies beside the action folders, not in one")
                if strict:
                    raise SfumatoError(problems[0], "move it, or run without --strict to leave it out")
                continue
            rows.append(Row(file, str(Path(*inside)), inside[-2], split={"person": part, "clip": part}))
        super().__init__(f"folder:{source}", rows, [], sampling_of(options), strict=strict, problems=problems)
