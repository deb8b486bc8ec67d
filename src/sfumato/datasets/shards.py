"""`shards:PATH`: videos brought to one size and packed into tar files, for training on many machines.

`index.json` says what the labels are called and, of every tar file, how many clips it holds and its checksum. A clip is two
members of a plain tar file, the way WebDataset has it: `000012.json`, what is known about it, and `000012.mjpeg`, its frames as
JPEG pictures one after another; the places where they begin are in the JSON, so that any window is read without the rest.
JPEG, since it needs no video decoder, is a twelfth of the raw size, and is read 1.3 to 1.4 times as fast as H.264. H.264 of key
frames only is measured to be as fast and a quarter as large (benchmarks/results/decode_speed_cpu.json): where shards get too
large, that is the next thing to try. Clips are dealt out by a hash: every shard, and so every process, has some of everything.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.datasets.base import Clips, ClipShape, Course, Labels, Part, Progress, SplitBy, VideoDataset, in_words
from sfumato.datasets.decoding import cores
from sfumato.datasets.files import ACTION_TAG
from sfumato.datasets.manifest import parse_options, sampling_of, whole_number
from sfumato.datasets.sample import AttributeSpec, Sample, Segment
from sfumato.errors import SfumatoError
from sfumato.video import clip_indices

VERSION = 1
INDEX = "index.json"
AT_ONCE = 16  # pictures, where all of a video are read one after another
# What index.json says of the labels: their names in order, how actions read in a sentence, which attributes are private.
NAMED = ("actions", "persons", "phrases", "labelled", "attributes", "mirror_safe")
_MEMBER = re.compile(r"(\d+)\.json")
_AGAIN = "run `sfumato data prepare` again, which makes what is missing or damaged anew"


@dataclass(frozen=True, slots=True)
class PackedClip:
    """One clip in a shard: where it is, and its labels as indices into the names of the index (-1: unknown).

    attributes: by the name's place, those that are not 0. about, pixels: first byte and length of its two members.
    """

    shard: int
    about: tuple[int, int]
    pixels: tuple[int, int]
    frames: int
    action: int
    person: int
    recording: str
    attributes: dict[int, int]
    split: dict[str, str]


class ShardDataset(VideoDataset):
    """The data set of a folder of shards, or the share of it that process `rank` of `world` has for itself.

    A video that is shorter than a clip starts again from its beginning; one with fewer frames than `least` is left out.
    Checksums are compared when something of a shard is first shown; with `strict` all of them at once.

    >>> ShardDataset("ucf101-128?frames=16&size=112&rank=0&world=8").actions  # doctest: +SKIP
    ('ApplyEyeMakeup', 'ApplyLipstick', …)
    """

    from_videos = True

    def __init__(self, source: str, *, strict: bool = False) -> None:
        path, options = parse_options(source, ("frames", "size", "skip", "least", "rank", "world"))
        self.name, self.sampling, self.folder = f"shards:{source}", sampling_of(options), Path(path)
        self.index = read_index(self.folder)
        self.shape = ClipShape(self.sampling.frames, self.sampling.size, self.sampling.size)
        self.frame_step = self.sampling.skip
        if self.sampling.size > self.index["settings"]["short_side"]:
            raise SfumatoError(
                f"'{path}' holds pictures of short side {self.index['settings']['short_side']}, not {self.sampling.size}",
                "ask for a smaller size, or prepare it with a larger --short-side",
            )
        named = self.index["labels"]
        self.actions, self.persons = tuple(named["actions"]), tuple(named["persons"])
        # Shards that were made before labels were said in words hold bare names; what is in words stays.
        self._phrases = tuple(map(in_words, named["phrases"]))
        specs = {name: AttributeSpec(name, tuple(values)) for name, values in named["labelled"].items()}
        self._labelled, self.attributes = tuple(specs.values()), tuple(specs[name] for name in named["attributes"])
        self.mirror_safe, self.several_actions = named["mirror_safe"], named.get("several_actions", False)
        self.shards = share_of(len(self.index["shards"]), *_place(options))
        self._checked: set[int] = set()
        least = whole_number({"least": "1"} | options, "least")
        self.packed = [clip for shard in self.shards for clip in self._clips_of(shard) if clip.frames >= least]
        self.summary = f"{len(self.packed)} clips in {len(self.shards)} shards"
        for shard in self.shards if strict else ():
            self._check(shard)
        if not self.packed:
            raise SfumatoError(f"{self.name} has no clip", "prepare more videos")

    def __len__(self) -> int:
        return len(self.packed)

    def split(self, part: Part, by: SplitBy) -> Tensor:
        found = [i for i, clip in enumerate(self.packed) if clip.split.get(by) == part]
        return torch.tensor(found, dtype=torch.int64)

    def labels(self, indices: Tensor) -> Labels:
        clips = [self.packed[i] for i in indices.tolist()]
        columns = [self._labelled.index(spec) for spec in self.attributes]
        return Labels(
            torch.tensor([clip.action for clip in clips], dtype=torch.int64),
            torch.tensor([clip.person for clip in clips], dtype=torch.int64),
            _answers(clips, columns),
            _answers(clips, self._tags_of_actions()) if self.several_actions else None,
        )

    def _tags_of_actions(self) -> list[int]:
        """Where among the labels those of the actions are, where a clip shows several."""
        place = {spec.name: column for column, spec in enumerate(self._labelled)}
        return [place[ACTION_TAG + action] for action in self.actions]

    def phrases(self) -> tuple[str, ...]:
        return self._phrases

    def labelled(self) -> tuple[AttributeSpec, ...]:
        return self._labelled

    def times(self, indices: Tensor) -> Tensor:
        return torch.stack([self._frames_of(self.packed[i], 1)[0] for i in indices.tolist()])

    def recordings(self, indices: Tensor) -> Tensor:
        first: dict[str, int] = {}
        every = [first.setdefault(clip.recording, i) if clip.recording else i for i, clip in enumerate(self.packed)]
        return torch.tensor(every, dtype=torch.int64)[indices]

    def clips(
        self, indices: Tensor, *, views: int = 1, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> Clips:
        s, wanted = self.sampling, [self.packed[i] for i in indices.tolist()]
        pixels = torch.empty(len(wanted), views, s.frames, 3, s.size, s.size, dtype=torch.uint8, device=device)
        # One thread per clip: a picture is too small to be worth splitting.
        with ThreadPoolExecutor(cores(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(self._check, sorted({clip.shard for clip in wanted})))
            for n, clip in enumerate(pool.map(lambda packed: self._read(packed, views), wanted)):
                pixels[n] = clip.to(device)
                if progress:
                    progress(n + 1, len(wanted))
        return Clips(pixels, None)

    def frames(self, index: int) -> Iterator[Tensor]:
        clip = self.packed[index]
        self._check(clip.shard)
        for some in torch.arange(clip.frames).split(AT_ONCE):
            yield from self._shown(clip, some)

    def fingerprint(self) -> str:
        contents = [self.index["shards"][shard]["sha256"] for shard in self.shards]
        about = (self.sampling, contents, self.index["labels"], [spec.name for spec in self.attributes])
        return hashlib.sha256(repr(about).encode()).hexdigest()

    def sample(self, index: int) -> Sample:
        clip, labels = self.packed[index], self.labels(torch.tensor([index]))
        self._check(clip.shard)
        named = {a.name: int(v) for a, v in zip(self.attributes, labels.attributes[0], strict=True) if v >= 0}
        segments, anomalous = self.course(index)
        source, several = self._about(clip)["source"], labels.actions
        shown = () if several is None else tuple(several[0].nonzero()[:, 0].tolist())
        spans, strange = segments or (), anomalous is not None
        return Sample(
            self._read(clip, 1)[0], clip.action, clip.person, source, named, actions=shown,
            segments=() if strange else spans, anomalies=spans if strange else (),
        )  # fmt: skip

    def course(self, index: int) -> Course:
        about = self._about(self.packed[index])
        spans = about.get("segments")
        return Course(None if spans is None else tuple(Segment(*span) for span in spans), about.get("anomalous"))

    def _frames_of(self, clip: PackedClip, views: int) -> Tensor:
        """Which frames of a video its clips are made of, (views, T)."""
        s = self.sampling
        return clip_indices(clip.frames, s.frames, s.skip or max(1, clip.frames // s.frames), "uniform", clips=views)

    def _read(self, clip: PackedClip, views: int) -> Tensor:
        """uint8 (views, T, 3, H, W)."""
        wanted = self._frames_of(clip, views)
        pixels = self._shown(clip, wanted.flatten())
        return pixels.view(*wanted.shape, *pixels.shape[1:])

    def _shown(self, clip: PackedClip, numbers: Tensor) -> Tensor:
        """Those frames (n,) of a video, uint8 (n, 3, H, W)."""
        size = self.sampling.size
        about, pictures = self._about(clip), []
        with self._path(clip.shard).open("rb") as file:
            for number in numbers.tolist():
                start, end = about["frames"][number : number + 2]
                file.seek(clip.pixels[0] + start)
                pictures.append(_picture(file.read(end - start), about))
        whole = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
        return F.interpolate(whole, (size, size), mode="bilinear", antialias=True).contiguous()

    def _about(self, clip: PackedClip) -> dict[str, Any]:
        """What the shard says about a clip; read anew, since the places of all frames of all clips fill the memory."""
        start, length = clip.about
        with self._path(clip.shard).open("rb") as file:
            file.seek(start)
            found: dict[str, Any] = json.loads(file.read(length))
        return found

    def _path(self, shard: int) -> Path:
        return self.folder / str(self.index["shards"][shard]["file"])

    def _clips_of(self, shard: int) -> list[PackedClip]:
        path, told = self._path(shard), self.index["shards"][shard]
        if not path.is_file() or path.stat().st_size != told["bytes"]:
            raise SfumatoError(f"'{path}' is missing or cut short", _AGAIN)
        try:
            found = list(_scan(path, shard))
        except (tarfile.TarError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SfumatoError(f"'{path}' is damaged", _AGAIN) from error
        if len(found) != told["clips"]:
            raise SfumatoError(f"'{path}' holds {len(found)} clips, not {told['clips']}", _AGAIN)
        return found

    def _check(self, shard: int) -> None:
        """Its checksum, the first time anything of it is shown."""
        if shard in self._checked:
            return
        if sha256_of(self._path(shard)) != self.index["shards"][shard]["sha256"]:
            raise SfumatoError(f"'{self._path(shard)}' is damaged (it has another checksum)", _AGAIN)
        self._checked.add(shard)


def _answers(clips: Sequence[PackedClip], columns: Sequence[int]) -> Tensor:
    """What those clips say in those columns, (N, columns)."""
    values = [[clip.attributes.get(column, 0) for column in columns] for clip in clips]
    return torch.tensor(values, dtype=torch.int64).view(len(clips), len(columns))


def share_of(shards: int, rank: int, world: int) -> list[int]:
    """The shards that process `rank` of `world` reads: each belongs to exactly one process.

    >>> share_of(5, rank=1, world=2)
    [1, 3]
    """
    if not 0 <= rank < world:
        raise SfumatoError(f"there is no process {rank} of {world}", "count them from rank=0 to rank=WORLD-1")
    if shards < world:
        raise SfumatoError(
            f"{shards} shards cannot be shared by {world} processes", f"prepare them with --shards {world} or more"
        )
    return list(range(rank, shards, world))


def read_index(folder: Path) -> dict[str, Any]:
    """What index.json says, checked as far as it is used; a shard outside of the folder is refused.

    >>> read_index(Path("ucf101-128"))["settings"]["short_side"]  # doctest: +SKIP
    128
    """
    path = folder / INDEX
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] != VERSION:
            raise SfumatoError(f"'{path}' is of another version", "prepare the shards again")
        files = [shard["file"] for shard in found["shards"]]
        [int(shard[key]) for shard in found["shards"] for key in ("clips", "bytes")]
        wrong = next((file for file in files if not _inside(folder, str(file))), None)
        complete = found["complete"]
        _ = found["settings"]["short_side"], [found["labels"][key] for key in NAMED]
    except OSError as error:
        raise SfumatoError(
            f"cannot read '{path}'", "name a folder that `sfumato data prepare --shards` made"
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SfumatoError(f"'{path}' is no index of shards", "prepare the shards again") from error
    if wrong is not None:
        raise SfumatoError(
            f"'{path}' names '{wrong}', which is not in its folder", "do not use what others tampered with"
        )
    if not complete:
        raise SfumatoError(f"the shards in '{folder}' are not finished", "run the same `sfumato data prepare` to go on")
    return found


def sha256_of(path: Path) -> str:
    """The checksum of a file of any length.

    >>> sha256_of(Path("00000.tar"))[:8]  # doctest: +SKIP
    'a81f3c02'
    """
    with path.open("rb") as file:
        found = hashlib.sha256()
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def _inside(folder: Path, file: str) -> bool:
    """Whether it lies in the folder itself, links followed."""
    return (folder / file).resolve().parent == folder.resolve()


def _place(options: dict[str, str]) -> tuple[int, int]:
    place = {"rank": "0", "world": "1"} | options
    for name in ("rank", "world"):
        if not place[name].isdecimal():
            raise SfumatoError(f"{name} = '{place[name]}' is not a whole number", f"write e.g. {name}=1")
    return int(place["rank"]), int(place["world"])


def _scan(path: Path, shard: int) -> Iterator[PackedClip]:
    """The clips of a shard: only headers and JSON are read, the pictures are passed over."""
    with tarfile.open(path, "r:") as tar:
        members = iter(tar)
        for first in members:
            second = next(members, None)
            key = _MEMBER.fullmatch(first.name)
            if not key or second is None or second.name != f"{key[1]}.mjpeg" or not (first.isreg() and second.isreg()):
                raise ValueError(f"'{first.name}' and what follows it make no clip")
            content = tar.extractfile(first)
            assert content is not None  # a regular file
            told = json.loads(content.read())
            if told["frames"][-1] != second.size:
                raise ValueError(f"'{first.name}' is of another clip")
            yield PackedClip(
                shard=shard,
                about=(first.offset_data, first.size),
                pixels=(second.offset_data, second.size),
                frames=len(told["frames"]) - 1,
                action=int(told["action"]),
                person=int(told["person"]),
                recording=str(told["recording"]),
                attributes={int(column): int(value) for column, value in told["attributes"].items()},
                split=dict(told["split"]),
            )


def _picture(content: bytes, about: dict[str, Any]) -> np.ndarray:
    """One JPEG as uint8 (H, W, 3); one of another size than was stated is never unpacked."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
            if image.size == (about["width"], about["height"]) and image.mode == "RGB":
                return np.asarray(image)
    except OSError as error:
        raise SfumatoError(f"a picture of '{about['source']}' cannot be read", _AGAIN) from error
    raise SfumatoError(f"a picture of '{about['source']}' has another size than its clip", _AGAIN)
