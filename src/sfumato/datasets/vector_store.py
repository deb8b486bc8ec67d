"""An index of anonymized features on disk: a manifest that says whose they are, and one LanceDB table of clips.

The table alone says what is there: a video's clips are added in one commit, all or none, each with the stamp of the file they
came from. The adapter is not kept beside them: with it at hand, an attacker undoes more of it than without (SPLAVU's white-box
inversion).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

from torch import Tensor

from sfumato.datasets.feature_store import Manifest
from sfumato.errors import SfumatoError
from sfumato.writing import to_json, write_whole

VERSION = 1
MANIFEST, TABLE = "index.json", "clips"
TIDY_AFTER = 200  # every commit lists all pieces of the table: these must not become too many
TOLD = 80  # characters of LanceDB's own words in an error


@dataclass(frozen=True)
class IndexManifest:
    """Whose features were anonymized, and by whom: the encoder as a feature store names it, and the adapter's name and hash."""

    features: Manifest
    adapter: str
    adapter_sha256: str

    def require(self, other: IndexManifest, where: Path) -> None:
        """Refuse what was made by another encoder or another adapter than the index in `where`; names may have changed."""
        for what, (name, digest), (other_name, other_digest) in (
            ("encoder", self._encoder(), other._encoder()),
            ("adapter", (self.adapter, self.adapter_sha256), (other.adapter, other.adapter_sha256)),
        ):
            if digest != other_digest:
                raise SfumatoError(
                    f"'{where}' was built with the {what} '{name}' ({digest[:8]}), not '{other_name}' ({other_digest[:8]})",
                    f"name that {what}, or build another index",
                )
        for key in ("clip", "frame_step"):
            ours, theirs = getattr(self.features, key), getattr(other.features, key)
            if ours != theirs:
                raise SfumatoError(f"'{where}' was built with {key} = {ours}, not {theirs}", "build another index")

    def _encoder(self) -> tuple[str, str]:
        return self.features.encoder, self.features.weights_sha256


@dataclass(frozen=True)
class Span:
    """A part of a video, in seconds, and how like the query it is: the cosine of its best clip."""

    video: str
    start: float
    end: float
    score: float


class VectorStore:
    """The index in a folder. With a manifest it is begun there, or gone on with if it is the same; without, it is searched.

    >>> store = VectorStore(Path("my-index"))  # doctest: +SKIP
    >>> store.search(torch.rand(1, 256), top=3)[0]  # doctest: +SKIP
    Span(video='/films/a.mp4', start=2.56, end=3.2, score=0.97)
    """

    def __init__(self, folder: Path, manifest: IndexManifest | None = None) -> None:
        library, path = require_library(), folder / MANIFEST
        begun = (folder / f"{TABLE}.lance").exists()
        self.folder = folder
        if manifest is None or path.exists():
            self.manifest = read_index_manifest(path)
            if manifest is not None:
                self.manifest.require(manifest, folder)
        else:
            if begun:
                raise SfumatoError(f"'{folder}' holds clips of nobody knows which encoder", "choose another folder")
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, to_json({"version": VERSION, **asdict(manifest)}, indent=1))
            self.manifest = manifest
        if manifest is None and not begun:
            raise self._empty()
        with self._explained():
            database = library.connect(str(folder.resolve()))  # a name alone could be taken for an address
            self._table = database.open_table(TABLE) if begun else database.create_table(TABLE, schema=self._schema())
        self._commits = 0

    def _schema(self) -> Any:
        import pyarrow as pa

        vector = pa.list_(pa.float32(), self.manifest.features.width)
        text, number = pa.string(), pa.float64()
        return pa.schema({"video": text, "stamp": text, "start": number, "end": number, "vector": vector})

    def __len__(self) -> int:
        """How many clips there are."""
        return int(self._table.count_rows())

    def videos(self) -> dict[str, str]:
        """Every video that is there, and the stamp of its file."""
        with self._explained():
            rows = self._table.search().select(["video", "stamp"]).to_arrow()
        return dict(zip(rows["video"].to_pylist(), rows["stamp"].to_pylist(), strict=True))

    def add(self, video: str, stamp: str, times: Sequence[tuple[float, float]], vectors: Tensor) -> None:
        """All clips of a video at once: their starts and ends in seconds, and their anonymized features (S, D)."""
        import pyarrow as pa

        width = self.manifest.features.width
        if vectors.shape != (len(times), width) or not bool(vectors.isfinite().all()):
            raise SfumatoError(f"'{video}' gave no {len(times)} finite vectors of {width}", "check the adapter")
        flat = pa.array(vectors.detach().cpu().float().contiguous().view(-1).numpy())
        columns = {
            "video": [video] * len(times), "stamp": [stamp] * len(times),
            "start": [start for start, _ in times], "end": [end for _, end in times],
            "vector": pa.FixedSizeListArray.from_arrays(flat, width),
        }  # fmt: skip
        with self._explained():
            self._table.add(pa.table(columns, schema=self._schema()))
        self._commits += 1
        if self._commits % TIDY_AFTER == 0:
            self.tidy()

    def remove(self, video: str) -> None:
        """Forget all clips of a video; their numbers leave the disk with the next `tidy`."""
        quoted = video.replace("'", "''")
        with self._explained():
            self._table.delete(f"video = '{quoted}'")

    def tidy(self) -> None:
        """Join small files, and take what was removed off the disk: LanceDB keeps former versions unless told not to."""
        with self._explained(), catch_warnings():
            simplefilter("ignore", UserWarning)  # that nobody can go back to a former version: that is the point
            self._table.optimize(cleanup_older_than=timedelta(0))

    def search(self, queries: Tensor, top: int) -> list[Span]:
        """The `top` clips most like any of the queries (Q, D), best first; those that touch are one span."""
        if not len(self):
            raise self._empty()
        best: dict[tuple[str, float], Span] = {}
        for query in queries:
            for clip in self._nearest(query, top):
                key = (clip.video, clip.start)
                if key not in best or best[key].score < clip.score:
                    best[key] = clip
        return joined(ranked(best.values())[:top])

    def _nearest(self, query: Tensor, top: int) -> list[Span]:
        """Exactly, over all clips. Which of equals comes first is LanceDB's choice, so all of them are asked for."""
        vector, limit, total = query.detach().cpu().float().numpy(), top, len(self)
        while True:
            with self._explained():
                asked = self._table.search(vector).distance_type("cosine").limit(limit)
                rows = asked.select(["video", "start", "end", "_distance"]).to_arrow().to_pylist()
            if len(rows) < limit or limit >= total or rows[top - 1]["_distance"] < rows[-1]["_distance"]:
                found = [Span(row["video"], row["start"], row["end"], 1 - row["_distance"]) for row in rows]
                return ranked(found)[:top]
            limit *= 2

    def _empty(self) -> SfumatoError:
        return SfumatoError(f"'{self.folder}' holds no videos yet", "run `sfumato index build` first")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """LanceDB's own errors as one line."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:TOLD]
            raise SfumatoError(
                f"the index in '{self.folder}' cannot be used ({reason})", "check the disk, or build it again"
            ) from error


def ranked(clips: Iterable[Span]) -> list[Span]:
    """Best first; equals by video and time, so that the same question always gets the same answer.

    >>> [span.video for span in ranked([Span("b", 0, 1, 0.5), Span("a", 0, 1, 0.5), Span("c", 0, 1, 0.9)])]
    ['c', 'a', 'b']
    """
    return sorted(clips, key=lambda clip: (-clip.score, clip.video, clip.start))


def joined(clips: Iterable[Span]) -> list[Span]:
    """Clips of one video that follow each other become one span, as good as its best; best first.

    >>> joined([Span("a", 1, 2, 0.9), Span("b", 0, 1, 0.8), Span("a", 0, 1, 0.7)])[0]
    Span(video='a', start=0, end=2, score=0.9)
    """
    spans: list[Span] = []
    for clip in sorted(clips, key=lambda clip: (clip.video, clip.start)):
        if spans and (last := spans[-1]).video == clip.video and last.end >= clip.start:
            spans[-1] = replace(last, end=clip.end, score=max(last.score, clip.score))
        else:
            spans.append(clip)
    return ranked(spans)


def read_index_manifest(path: Path) -> IndexManifest:
    """What the manifest in that file says.

    >>> read_index_manifest(Path("my-index/index.json")).features.width  # doctest: +SKIP
    256
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("version") != VERSION:
            raise SfumatoError(f"'{path}' is of another version", "build the index again")
        features = content["features"]
        return IndexManifest(**{**content, "features": Manifest(**{**features, "clip": tuple(features["clip"])})})
    except OSError as error:
        raise SfumatoError(f"cannot read '{path}'", "name a folder that `sfumato index build` made") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SfumatoError(f"'{path}' is no manifest of an index", "build the index again") from error


def require_library() -> Any:
    """LanceDB, or how to get it.

    >>> require_library().__name__  # doctest: +SKIP
    'lancedb'
    """
    try:
        import lancedb
    except ImportError as error:
        raise SfumatoError("an index needs LanceDB, which is not installed", "pip install sfumato[index]") from error
    return lancedb
