"""Face embedding: is this face that other face? Nobody asked about was in training.

A network learns to tell the training people apart by their raw faces, cut out of the frames, or comes trained from a file,
as those of face recognition do; its features then compare faces of people it has never seen. Faces are found in raw video,
and cut out of the anonymised one at the same place: an attacker who must look for them first is the weaker one. In the
gallery are faces of other recordings, anonymised too (`face`), or raw, as on a photograph (`face-photos`). A clip in which
no face is found is compared with nobody, and its person guessed.

The network never sees an anonymised face before it is asked about one. What it misses others may read: `reid-frames` learns
from what the anonymizer leaves.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.anonymizers.detectors import FindBoxes, enlarge, make_detector
from sfumato.datasets.base import Part, VideoDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.attacks.reid import GalleryProbe, embed
from sfumato.evaluation.exam import Desk, Exam, asked
from sfumato.recognizers import Recognizer, load_weights
from sfumato.training.device import settle
from sfumato.training.fit import Fit

SURE = 0.5  # of a face; whoever hides faces takes less for one, but what is no face teaches nothing
MARGIN = 0.15  # of a box, on every side: hair and chin belong to a face
FRAMES = 4  # of a clip, evenly spread
LOOKED_AT = 24  # raw clips, before anybody is trained
LEAST = 0.5  # of them must show a face
CHUNK = 8  # frames before the detector at once


def detector() -> FindBoxes:
    """Finds faces: frames (N, 3, H, W) in [0, 1] to one (K, 4) tensor of boxes each, in pixels.

    >>> detector()(frames)  # doctest: +SKIP
    """
    return make_detector("faces", threshold=SURE).find_boxes


@dataclass(frozen=True)
class Face(GalleryProbe):
    """Sees of every clip the faces alone. photos: the gallery is raw; weights: of the network, from that file.

    digest: of that file, so that answers are not taken for those of another.
    """

    photos: bool = False
    weights: str = ""
    digest: str = ""

    def prepare(self, desk: Desk) -> Desk:
        """All clips become faces, as large as a frame, so that any recognizer takes them."""
        clips, raw = desk.clips, desk.raw

        @lru_cache  # of training, validation and test one copy each
        def shown(part: Part) -> Tensor:
            return cut_out(clips(part), self._places(desk, part))

        @lru_cache
        def open_faces(part: Part) -> Tensor:
            return cut_out(raw(part), self._places(desk, part))

        return replace(desk, clips=shown, raw=open_faces)

    def _places(self, desk: Desk, part: Part) -> Tensor:
        """Where the faces are in raw clips; looked for once for all anonymizers, before the clips become faces."""
        key = "faces", desk.exam.by, part
        if key not in desk.memory.raw:
            desk.memory.raw[key] = find_faces(detector(), desk.raw(part))
        found: Tensor = desk.memory.raw[key]
        return found

    def learn(self, desk: Desk) -> Fit:
        """On raw faces alone, the epoch chosen on raw faces too; once for all anonymizers, and for both galleries."""
        if self.weights:
            model = desk.fresh()
            load_weights(model, self.weights, new_head=True)
            return Fit(settle(model, desk.device).eval(), math.nan)
        key, kept = ("face", desk.exam.by, desk.examinee, desk.seed), desk.memory.raw
        if key not in kept:
            openly = replace(desk, clips=desk.raw)
            kept[key] = openly.train(openly.fresh(), openly.clips)
        found: Fit = kept[key]
        return found

    def embedded(self, desk: Desk, model: Recognizer, part: Part) -> tuple[Tensor, Tensor]:
        settings, device = desk.examinee.fit, desk.device
        seen = embed(model, desk.clips(part), settings, device)
        enrolled = embed(model, desk.raw(part), settings, device) if self.photos else seen
        there = has_face(self._places(desk, part))[:, None]  # without one, all similarities are 0
        return enrolled * there, seen * there

    def lacks(self, exam: Exam, dataset: VideoDataset) -> str:
        return super().lacks(exam, dataset) or _lacks_faces(exam, dataset)

    def note(self, dataset: VideoDataset, views: int) -> str:
        return (
            "face attackers are told where faces are, and know raw faces alone: what they miss may still be recognised"
        )


@lru_cache(maxsize=4)  # both galleries ask
def _lacks_faces(exam: Exam, dataset: VideoDataset) -> str:
    """Whether faces are found in a few raw clips: said before anybody is trained."""
    try:
        find = detector()
    except SfumatoError as error:
        return f"cannot be searched for faces: {error}"
    every = asked(exam, dataset, "train")
    some = every[torch.linspace(0, len(every) - 1, min(LOOKED_AT, len(every))).long()]
    found = int(has_face(find_faces(find, dataset.clips(some).pixels)).sum())
    if found >= LEAST * len(some):
        return ""
    return f"shows a face in {found} of {len(some)} raw clips that were looked at, and {LEAST:.0%} must"


def find_faces(find: FindBoxes, pixels: Tensor) -> Tensor:
    """The largest face in some frames of every clip: uint8 (N, views, T, 3, H, W) to boxes (N, FRAMES, 4), in pixels.

    Where a frame shows none, that of the nearest frame stands in; NaN where none of them does.

    >>> find_faces(detector(), clips.pixels).shape  # doctest: +SKIP
    torch.Size([16, 4, 4])
    """
    frames = _some_frames(pixels)
    boxes = torch.full((*frames.shape[:2], 4), math.nan)
    flat = boxes.view(-1, 4)
    for start in range(0, len(flat), CHUNK):
        chunk = frames.flatten(0, 1)[start : start + CHUNK].float() / 255
        for n, found in enumerate(find(chunk), start):
            if len(found):
                sides = found[:, 2:] - found[:, :2]
                flat[n] = found[int(sides.prod(1).argmax())]
    times = torch.arange(boxes.shape[1])
    apart = (times[:, None] - times).abs().float()
    missing = boxes.isnan().any(2)  # (N, FRAMES)
    nearest = (apart + 1e6 * missing[:, None]).argmin(2)  # of every frame, the nearest that shows one
    return boxes.gather(1, nearest[..., None].expand_as(boxes))


def has_face(boxes: Tensor) -> Tensor:
    """Whether a face was found in a clip: boxes (N, FRAMES, 4) to (N,) bool.

    >>> has_face(torch.full((1, 4, 4), math.nan))
    tensor([False])
    """
    return ~boxes.isnan().any(2).any(1)


def cut_out(pixels: Tensor, boxes: Tensor) -> Tensor:
    """The faces as large as frames: uint8 (N, views, T, 3, H, W) and boxes (N, FRAMES, 4) to (N, 1, FRAMES, 3, H, W).

    Black where there is none.

    >>> cut_out(clips.pixels, find_faces(detector(), clips.pixels)).shape  # doctest: +SKIP
    torch.Size([16, 1, 4, 3, 112, 112])
    """
    frames = _some_frames(pixels)
    height, width = frames.shape[-2:]
    wide = enlarge(boxes.flatten(0, 1), MARGIN).unflatten(0, boxes.shape[:2]).to(frames.device)
    scale = wide.new_tensor([width, height])
    centre, half = (wide[..., :2] + wide[..., 2:]) / scale - 1, (wide[..., 2:] - wide[..., :2]) / scale  # in [-1, 1]
    turn = torch.stack([torch.diag_embed(half)[..., 0], torch.diag_embed(half)[..., 1], centre], dim=-1)
    done = torch.zeros_like(frames)
    there = has_face(boxes).to(frames.device)
    for rows in there.nonzero()[:, 0].split(CHUNK):
        chunk = frames[rows].flatten(0, 1).float()
        grid = functional.affine_grid(turn[rows].flatten(0, 1), list(chunk.shape), align_corners=False)
        faces = functional.grid_sample(chunk, grid, padding_mode="border", align_corners=False)
        done[rows] = faces.round().to(torch.uint8).view_as(frames[rows])
    return done[:, None]


def _some_frames(pixels: Tensor) -> Tensor:
    """Of the middle view of every clip, frames spread evenly: (N, views, T, 3, H, W) to (N, FRAMES, 3, H, W)."""
    keep = torch.linspace(0, pixels.shape[2] - 1, FRAMES).round().long()
    return pixels[:, pixels.shape[1] // 2][:, keep]


def by_weights(exam: Exam, file: str) -> Exam:
    """A face attack by a network that comes trained from a file, which must be one of the judge's frame networks.

    >>> by_weights(FACE, "resnet-18-faces.safetensors").name  # doctest: +SKIP
    'face-resnet-18-faces'
    """
    try:
        digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError as error:
        raise SfumatoError(
            f"cannot read weights from '{file}' ({error.strerror})", "name a .safetensors file"
        ) from None
    approach = replace(exam.approach, weights=file, digest=digest)  # type: ignore[call-arg]
    return replace(exam, name=f"{exam.name}-{Path(file).stem}", approach=approach)


FACE = Exam(
    "face", "whether two faces are one person's, never seen in training, by a network that knows raw faces",
    "re-identification", "frame", "person", approach=Face(),
)  # fmt: skip
FACE_PHOTOS = Exam(
    "face-photos", "like face, but beside raw faces, as on photographs", "re-identification", "frame", "person",
    approach=Face(photos=True),
)  # fmt: skip
