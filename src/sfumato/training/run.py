"""The folder of one training: what was asked for, what was logged, where it stands, what came out."""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.training.options import differences
from sfumato.writing import sealed, to_json, unsealed, write_whole

SCHEMA = "sfumato-run/1"
IDENTITY = (
    "method",
    "data",
    "privacy_data",
    "seed",
    "devices",
)  # with the config, what makes a run this run and no other
GAP = 2  # pixels between the frames of a strip


class RunFolder:
    """A run's files: `run.json`, `metrics.jsonl`, `checkpoint.pt`, `frames/`, `anonymizer/`, `result.json`.

    Each file holds the old or the new content, never half of one, whenever the run is stopped. Nothing that lies in the
    folder is ever deleted, but for the checkpoint of a run that is finished: it can be a gigabyte.

    >>> run = RunFolder.open(Path("runs/spact"), about, resume=False)
    >>> run.log({"phase": "minimax", "step": 1, "action_loss": 0.7})
    >>> run.save_checkpoint({"model": model.state_dict(), "lines": run.lines})
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def record(self) -> Path:
        """What was asked for, with which commit and versions, and every time the run was taken up again."""
        return self.path / "run.json"

    @property
    def metrics(self) -> Path:
        """The log: one JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoint(self) -> Path:
        """Where the training stands."""
        return self.path / "checkpoint.pt"

    @property
    def frames(self) -> Path:
        """The folder of before/after pictures."""
        return self.path / "frames"

    @property
    def anonymizer(self) -> Path:
        """The folder of the trained anonymizer, f_A."""
        return self.path / "anonymizer"

    @property
    def result(self) -> Path:
        """What came out at the end."""
        return self.path / "result.json"

    @classmethod
    def open(cls, path: Path, about: Mapping[str, Any], *, resume: bool) -> RunFolder:
        """Begin a run in `path`, or with `resume` take up the one that is there.

        `about` is plain JSON: method, config (a table), data, privacy_data and seed, which a resumed run must share with
        the first, and commit, versions, hardware and the like, which may have changed and are noted in `run.json`.

        >>> RunFolder.open(Path("runs/spact"), {"method": "spact", "config": {"batch": 32}, "seed": 0}, resume=False)
        """
        run = cls(path)
        if path.exists() and not path.is_dir():
            raise SfumatoError(f"'{path}' is a file", "name a folder with --out")
        with _writing(path, "choose another --out"):
            if not run.record.exists():
                run._begin(about)
            elif resume:
                run._continue(about)
            else:
                raise SfumatoError(
                    f"'{path}' already holds a run", "go on with it by --resume, or choose another --out"
                )
        return run

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While it lasts nobody else trains in this folder; who tries is told so. It ends with the process, however that ends.

        >>> with run.alone(): ...
        """
        folder = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise SfumatoError(
                    f"another process is training in '{self.path}'", "wait until it is done, or choose another --out"
                ) from error
            yield
        finally:
            os.close(folder)

    def log(self, record: Mapping[str, float | int | str]) -> None:
        """Append one line to the log, on disk when this returns; a number that is not finite is written as null.

        >>> run.log({"step": 1, "action_loss": 0.7})
        """
        line = to_json(record)
        # opened each time: closing it hands the whole line to the system in one piece
        with _writing(self.metrics), self.metrics.open("ab") as file:
            file.write(line)

    def records(self) -> list[dict[str, Any]]:
        """Everything logged so far; a last line that was cut short is left out.

        >>> run.records()
        [{'step': 1, 'action_loss': 0.7}]
        """
        try:
            return [json.loads(line) for line in self._complete_lines()]
        except ValueError as error:
            raise SfumatoError(f"'{self.metrics}' is damaged ({error})", "mend or remove that line") from None

    @property
    def lines(self) -> int:
        """How many complete lines the log has."""
        return len(self._complete_lines())

    def rewind(self, lines: int) -> None:
        """Keep only the first `lines` lines of the log: what came after the checkpoint will be done again.

        >>> run.rewind(run.load_checkpoint("cpu")["lines"])
        """
        kept = b"".join(self._complete_lines()[:lines])
        if self.metrics.exists() and self.metrics.stat().st_size != len(kept):
            with _writing(self.metrics):
                write_whole(self.metrics, kept)

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint by `state`: nested dicts and lists of tensors, numbers and text.

        >>> run.save_checkpoint({"optimizer": adam.state_dict(), "random": torch.get_rng_state(), "step": 7})
        """
        content = io.BytesIO()
        torch.save(state, content)
        with _writing(self.checkpoint):
            write_whole(self.checkpoint, content.getvalue())

    def load_checkpoint(self, device: torch.device | str) -> dict[str, Any] | None:
        """The last checkpoint with every tensor on `device`, or None where there is none yet. Runs no code of the file.

        Random states come back on `device` too, while torch wants them on the CPU:

        >>> torch.set_rng_state(run.load_checkpoint("cuda")["random"].cpu())
        """
        if not self.checkpoint.exists():
            return None
        try:
            state = torch.load(self.checkpoint, map_location=device, weights_only=True)
            if not isinstance(state, dict):
                raise ValueError("no dict")
        except torch.cuda.OutOfMemoryError:
            raise  # the file is good, the device is full
        except Exception as error:  # damaged bytes make the reader fail with whatever they lead it to
            raise SfumatoError(
                f"cannot read the checkpoint '{self.checkpoint}'",
                "put a good copy in its place, or remove it and --resume starts from the beginning",
            ) from error
        return state

    def save_strip(self, name: str, rows: Sequence[Tensor]) -> Path:
        """Write `frames/NAME.png`: one row per clip, uint8 (T, 3, H, W), its frames side by side. Returns the path.

        >>> run.save_strip("step-100", [before, after])
        """
        from PIL import Image

        if any(row.dtype != torch.uint8 or row.dim() != 4 or row.shape[1] != 3 for row in rows):
            raise ValueError("a strip is made of uint8 clips (T, 3, H, W)")
        width = max(len(row) * (row.shape[3] + GAP) for row in rows) - GAP
        height = sum(row.shape[2] + GAP for row in rows) - GAP
        canvas = torch.full((height, width, 3), 255, dtype=torch.uint8)
        top = 0
        for row in rows:
            h, w = row.shape[2:]
            for i, frame in enumerate(row.cpu()):
                left = i * (w + GAP)
                canvas[top : top + h, left : left + w] = frame.permute(1, 2, 0)
            top += h + GAP
        content = io.BytesIO()
        Image.fromarray(canvas.numpy()).save(content, format="PNG")
        path = self.frames / f"{name}.png"
        with _writing(path):
            self.frames.mkdir(exist_ok=True)
            write_whole(path, content.getvalue())
        return path

    def save_result(self, result: Mapping[str, Any]) -> None:
        """Write `result.json` with a checksum; a number that is not finite is written as null.

        >>> run.save_result({"steps": 1000, "action_accuracy": 0.93})
        """
        with _writing(self.result):
            write_whole(self.result, sealed(result))

    def pin(self, name: str, value: str) -> None:
        """Write down what must not change while a run goes on; a resumed run that finds it changed stops.

        >>> run.pin("clips", dataset.fingerprint())
        """
        stored = self._read_record()
        if stored.setdefault(name, value) != value:
            raise SfumatoError(
                f"the {name} are not those that the run in '{self.path}' began with", "choose another --out"
            )
        with _writing(self.record):
            write_whole(self.record, to_json(stored, indent=1))

    def drop_checkpoint(self) -> None:
        """Once the result is there nobody needs to go on.

        >>> run.drop_checkpoint()
        """
        if self.result.exists():
            self.checkpoint.unlink(missing_ok=True)

    def read_result(self) -> dict[str, Any]:
        """What `save_result` wrote; a run that is not finished has none, and one that was edited since is refused.

        >>> run.read_result()["steps"]
        1000
        """
        again = "remove that folder and train again, or choose another --out"
        try:
            stored = json.loads(self.result.read_text(encoding="utf-8"))
        except OSError:
            raise SfumatoError(f"'{self.path}' holds no finished run", "go on with --resume") from None
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise SfumatoError(f"'{self.result}' is damaged", again)
        return unsealed(stored, self.result, again)

    def about(self) -> dict[str, Any]:
        """What was asked for, as `open` was told."""
        return self._read_record()

    def _begin(self, about: Mapping[str, Any]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        # hidden files do not count: what a killed write or a file browser left is nobody's work
        if any(not entry.name.startswith(".") for entry in self.path.iterdir()):
            raise SfumatoError(f"'{self.path}' has files in it but no run", "choose an empty or a new folder as --out")
        write_whole(self.record, to_json({"schema": SCHEMA, **about, "resumed": []}, indent=1))

    def _continue(self, about: Mapping[str, Any]) -> None:
        stored, now = self._read_record(), json.loads(to_json(about))
        changed = differences(*({key: run.get(key) for key in IDENTITY} for run in (stored, now)))
        changed += differences(stored["config"], now["config"])
        if changed:
            raise SfumatoError(
                f"'{self.path}' holds another run ({'; '.join(changed)})",
                "resume with the settings it began with, or choose another --out",
            )
        stored["resumed"].append({key: value for key, value in now.items() if key not in (*IDENTITY, "config")})
        write_whole(self.record, to_json(stored, indent=1))
        self.rewind(self.lines)  # a line that was cut short would otherwise swallow the next one

    def _read_record(self) -> dict[str, Any]:
        try:
            stored = json.loads(self.record.read_text(encoding="utf-8"))
        except ValueError:
            stored = None
        if not isinstance(stored, dict) or stored.get("schema") != SCHEMA:
            raise SfumatoError(f"'{self.record}' is no run of schema {SCHEMA}", "choose another --out")
        if not isinstance(stored.get("config"), dict) or not isinstance(stored.get("resumed"), list):
            raise SfumatoError(f"'{self.record}' is damaged", "choose another --out")
        return stored

    def _complete_lines(self) -> list[bytes]:
        if not self.metrics.exists():
            return []
        return [line for line in self.metrics.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


@contextmanager
def _writing(path: Path, next_step: str = "free some space, then go on with --resume") -> Iterator[None]:
    """Tell a failed write in one line."""
    try:
        yield
    except OSError as error:
        raise SfumatoError(f"cannot write '{path}' ({error.strerror or error})", next_step) from error
