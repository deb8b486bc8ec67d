"""`sfumato index build` and `sfumato index search`: what happens in videos, found by anonymized features alone.

Raw features exist in memory and nowhere else: a video's for as long as it takes to anonymize them, those of the first few clips
until it is known how far the adapter moves them.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.anonymizers.latent_storage import find_latent, load_latent
from sfumato.anonymizers.streaming import resized
from sfumato.commands.console import bars, err, say
from sfumato.datasets.feature_store import Manifest
from sfumato.datasets.vector_store import IndexManifest, Span, VectorStore, require_library
from sfumato.errors import SfumatoError
from sfumato.evaluation.latent.material import moved_between, moved_notes
from sfumato.recognizers.encoders import Encoder, LanguageEncoder, load_encoder
from sfumato.recognizers.weights import checksum
from sfumato.training.device import pick_device
from sfumato.training.extraction import cut, describe, encode
from sfumato.video import find_videos, probe, read_frames
from sfumato.writing import to_json, write_whole

BATCH = 8  # clips at a time
UNCHANGED = 1e-4  # a vector that moved by less than this share of its length counts as raw
WATCHED = 1024  # clips that tell how far the adapter moves them


@dataclass(frozen=True)
class Lens:
    """How videos are looked at: an encoder, and the adapter without which nothing of it is shown."""

    encoder: Encoder
    adapter: LatentAdapter
    manifest: IndexManifest
    device: torch.device


def build_index(
    sources: Sequence[str], folder: Path, encoder_name: str, adapter_name: str, *, strict: bool, device: str
) -> None:
    """Add every video that is new or has changed; one that cannot be read is named, and the others go on."""
    require_library()
    videos = list(dict.fromkeys(video.resolve() for source in sources for video in find_videos(source)))
    lens = _open_lens(encoder_name, adapter_name, pick_device(device))
    store = VectorStore(folder, lens.manifest)
    known, added, failed = store.videos(), 0, 0
    watched: list[Tensor] = []
    with bars() as progress:
        task = progress.add_task("videos", total=len(videos), status="")
        for path in videos:

            def show(clips: int, name: str = path.name) -> None:
                progress.update(task, status=f"{name}: {clips} clips")

            try:
                added += _add(store, known, path, lens, strict, show, watched)
            except _CannotRead as error:
                if strict:
                    raise
                failed += 1
                say(f"{path}: {error}", console=err, style="red")
            progress.advance(task)
    store.tidy()
    _tell_moved(adapter_name, watched)
    say(f"{folder}: {len(store)} clips of {len(store.videos())} videos, {added} of them new or changed")
    if failed:
        raise SfumatoError(f"{failed} of the videos could not be read", "mend or remove them, and run again to go on")


def search_index(
    folder: Path, *, like: Path | None, text: str | None, top: int, encoder_name: str | None, adapter_name: str | None,
    json_file: Path | None, device: str,
) -> list[Span]:  # fmt: skip
    """Show the spans most like a video or a sentence, best first, and write them as JSON where asked.

    >>> search_index(Path("my-index"), like=Path("wave.mp4"), text=None, top=3, …)[0].score  # doctest: +SKIP
    0.97
    """
    text = (text or "").strip()
    if (like is None) == (not text):
        raise SfumatoError("there is not one question", "give either --like VIDEO or --text SENTENCE")
    store = VectorStore(folder)
    asked_for = encoder_name or store.manifest.features.encoder, adapter_name or store.manifest.adapter
    lens = _open_lens(*asked_for, pick_device(device))
    store.manifest.require(lens.manifest, folder)
    query = hide(lens, _look(like, lens)[1]) if like else _read_sentence(lens, folder, text)
    spans = store.search(query, top)
    for span in spans:
        say(f"{span.score:.3f}  {span.start:.2f}–{span.end:.2f} s  {span.video}")
    if json_file:
        asked = {"like": str(like)} if like else {"text": text}
        json_file.parent.mkdir(parents=True, exist_ok=True)
        content = {"index": str(folder), **asked, "spans": [asdict(span) for span in spans]}
        write_whole(json_file, to_json(content, indent=1))
    return spans


def hide(lens: Lens, raw: Tensor) -> Tensor:
    """The features (S, D) of one video's clips, anonymized; an adapter that leaves any of them raw is refused."""
    with torch.inference_mode():
        hidden = lens.adapter(raw[None].to(lens.device))[0].cpu()
    if bool(((hidden - raw).norm(dim=1) < UNCHANGED * raw.norm(dim=1)).any()):
        raise SfumatoError(
            f"'{lens.manifest.adapter}' leaves features as they are: stopped, so that nothing raw is kept",
            "train it first",
        )
    return hidden


class _CannotRead(SfumatoError):
    """One video's own trouble; that of the adapter or the disk would be everybody's."""


def _open_lens(encoder_name: str, adapter_name: str, device: torch.device) -> Lens:
    adapter, made_for = load_latent(adapter_name)
    encoder = load_encoder(encoder_name).to(device)
    _require_fit(adapter_name, made_for, encoder_name, encoder)
    # What the adapter was made for says how clips are cut, too.
    features = describe(encoder, _absolute(encoder_name), frame_step=made_for.frame_step, static=0)
    # Heads and what is attended to are not in the weights.
    digest = hashlib.sha256(to_json(dict(adapter.settings())) + checksum(adapter).encode()).hexdigest()
    manifest = IndexManifest(features, str(find_latent(adapter_name).resolve()), digest)
    return Lens(encoder, adapter.to(device), manifest, device)


def _require_fit(adapter_name: str, made_for: Manifest, encoder_name: str, encoder: Encoder) -> None:
    next_step = "name that encoder, or train an adapter on this one's features"
    if made_for.width != encoder.width:
        raise SfumatoError(
            f"'{adapter_name}' is for features of '{made_for.encoder}', {made_for.width} wide, and those of '{encoder_name}' "
            f"are {encoder.width} wide",
            next_step,
        )
    if made_for.weights_sha256 != (digest := encoder.fingerprint()):
        raise SfumatoError(
            f"'{adapter_name}' is for features of '{made_for.encoder}' with weights {made_for.weights_sha256[:8]}, and "
            f"'{encoder_name}' has weights {digest[:8]}",
            next_step,
        )


def _absolute(encoder_name: str) -> str:
    """The same encoder from whatever folder the search is run: FILE of `NAME:FILE` and folders with their whole path."""
    kind, colon, rest = encoder_name.partition(":")
    if Path(encoder_name).exists():
        return str(Path(encoder_name).resolve())
    return f"{kind}:{Path(rest).resolve()}" if colon and Path(rest).exists() else encoder_name


def _add(
    store: VectorStore, known: dict[str, str], path: Path, lens: Lens, strict: bool, show: Callable[[int], None],
    watched: list[Tensor],
) -> bool:  # fmt: skip
    """Whether the video was new or had changed. watched: the first clips before and after the adapter, (S, 2, D) a video."""
    status = path.stat()
    name, stamp = str(path), f"{status.st_size}-{status.st_mtime_ns}"
    if known.get(name) == stamp:
        return False
    if name in known:
        store.remove(name)
    try:
        times, raw = _look(path, lens, strict, show)
    except SfumatoError as error:
        raise _CannotRead(error.what, error.next_step) from error
    hidden = hide(lens, raw)
    store.add(name, stamp, times, hidden)
    if (room := WATCHED - sum(map(len, watched))) > 0:
        watched.append(torch.stack([raw, hidden], 1)[:room])
    return True


def _tell_moved(adapter_name: str, watched: Sequence[Tensor]) -> None:
    """Warn, as the judge does, of an adapter that lets clips pass nearly as they are."""
    if watched:
        before, after = torch.cat(list(watched)).split(1, 1)
        for note in moved_notes(f"'{adapter_name}'", moved_between(before, after)):
            _warn(note)


def _look(
    path: Path, lens: Lens, strict: bool = False, show: Callable[[int], None] = lambda clips: None
) -> tuple[list[tuple[float, float]], Tensor]:
    """Start and end in seconds of every clip of a video, and their raw features (S, D)."""
    rate, made, frames = probe(path).fps, lens.manifest.features, 0

    def pictures() -> Iterator[Tensor]:
        # At the encoder's own size at once: clips of large pictures would fill the memory.
        nonlocal frames
        for frame in read_frames(path, fps=rate, strict=strict, warn=_warn):
            frames += 1
            yield resized(torch.from_numpy(frame).permute(2, 0, 1)[None].float(), made.clip[1:])[0]

    clips, starts, rows = cut(pictures(), made.clip[0], made.frame_step), [], []
    while some := list(islice(clips, BATCH)):
        rows.append(encode(lens.encoder, torch.stack([clip for _, clip in some]), made, lens.device)[:, 0])
        starts += [start for start, _ in some]
        show(len(starts))
    raw = torch.cat(rows)
    if not bool(raw.isfinite().all()):
        raise SfumatoError(f"the features of '{path}' are not finite", "check the encoder's weights")
    span = made.clip[0] * made.frame_step
    return [(float(start / rate), float(min(start + span, frames) / rate)) for start in starts], raw


def _read_sentence(lens: Lens, folder: Path, text: str) -> Tensor:
    """(1, D). The adapter keeps features close to where they were, so that the sentence is compared as it is."""
    if not isinstance(lens.encoder, LanguageEncoder):
        raise SfumatoError(
            f"'{folder}' was built with '{lens.manifest.features.encoder}', which reads no text",
            "search with --like, or build with a vision-language model (xclip:…, actionclip:…, a folder of `train vlm`)",
        )
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        query = lens.encoder.read([text])
    for warning in noted:
        _warn(str(warning.message))
    return query


def _warn(text: str) -> None:
    say(f"warning: {text}", console=err, style="yellow")
