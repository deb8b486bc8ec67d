from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from sfumato.errors import SfumatoError
from sfumato.training import run as module
from sfumato.training.run import RunFolder

ABOUT: dict[str, Any] = {
    "method": "spact",
    "config": {"batch": 32, "budget_weight": 1.0},
    "data": "theatre",
    "privacy_data": None,
    "seed": 0,
    "commit": "aaaa",
    "versions": {"torch": "2.13.0"},
    "hardware": "a laptop",
}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.open(tmp_path / "run", ABOUT, resume=False)


def strict(text: str) -> Any:
    """JSON as its standard has it: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def interrupted(error: BaseException) -> Callable[..., int]:
    """A write that dies half-way."""

    def write(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise error

    return write


# beginning and resuming


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_begins_in_a_new_or_an_empty_folder(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "new" / "deep", tmp_path / "empty"):
        run = RunFolder.open(folder, ABOUT, resume=resume)
        assert json.loads(run.record.read_text()) == {"schema": "sfumato-run/1", **ABOUT, "resumed": []}
        assert run.load_checkpoint("cpu") is None
        assert run.records() == [] and run.lines == 0


def test_a_run_is_not_begun_over_another(run: RunFolder) -> None:
    before = snapshot(run.path)
    with pytest.raises(SfumatoError, match="already holds a run: go on with it by --resume, or choose another --out"):
        RunFolder.open(run.path, ABOUT, resume=False)
    assert snapshot(run.path) == before


def test_a_resumed_run_notes_what_may_change(run: RunFolder) -> None:
    RunFolder.open(run.path, {**ABOUT, "commit": "bbbb", "hardware": "a server"}, resume=True)
    RunFolder.open(run.path, {**ABOUT, "commit": "cccc"}, resume=True)
    stored = json.loads(run.record.read_text())
    assert stored["commit"] == "aaaa"
    assert stored["resumed"] == [
        {"commit": "bbbb", "versions": {"torch": "2.13.0"}, "hardware": "a server"},
        {"commit": "cccc", "versions": {"torch": "2.13.0"}, "hardware": "a laptop"},
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"config": {"batch": 64, "budget_weight": 1.0}}, r"\(batch: 32 -> 64\)"),
        ({"config": {"batch": 8, "budget_weight": 0.5}}, r"\(batch: 32 -> 8; budget_weight: 1.0 -> 0.5\)"),
        ({"config": {"batch": 32, "budget_weight": 1.0, "new": 1}}, r"\(new: not set -> 1\)"),
        ({"method": "vita", "seed": 1}, r"\(method: spact -> vita; seed: 0 -> 1\)"),
        (
            {"data": "ucf101:x", "privacy_data": "vispr:y"},
            r"\(data: theatre -> ucf101:x; privacy_data: not set -> vispr:y\)",
        ),
    ],
)
def test_a_run_is_not_resumed_as_another(run: RunFolder, change: dict[str, Any], told: str) -> None:
    before = snapshot(run.path)
    with pytest.raises(SfumatoError, match=f"holds another run {told}: resume with the settings it began with"):
        RunFolder.open(run.path, {**ABOUT, **change}, resume=True)
    assert snapshot(run.path) == before


def test_two_do_not_train_in_one_folder(run: RunFolder) -> None:
    with run.alone(), pytest.raises(SfumatoError, match="another process is training in"), RunFolder(run.path).alone():
        pytest.fail("both were let in")
    with pytest.raises(ValueError, match="breaks off"), run.alone():
        raise ValueError("breaks off")
    with RunFolder(run.path).alone():
        run.log({"step": 1})


def test_a_config_of_tuples_and_numbers_survives_the_file(tmp_path: Path) -> None:
    about = {**ABOUT, "config": {"widths": (16, 32), "rate": 0.1 + 0.2}}
    RunFolder.open(tmp_path / "run", about, resume=False)
    RunFolder.open(tmp_path / "run", about, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "holiday.mp4").write_bytes(b"video")
    with pytest.raises(SfumatoError, match="has files in it but no run: choose an empty or a new folder as --out"):
        RunFolder.open(tmp_path, ABOUT, resume=resume)
    assert snapshot(tmp_path) == {"holiday.mp4": b"video"}


def test_a_hidden_file_does_not_hinder_a_run(tmp_path: Path) -> None:
    (tmp_path / ".run.json.123.part").write_bytes(b"{")
    RunFolder.open(tmp_path, ABOUT, resume=False)
    assert (tmp_path / ".run.json.123.part").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SfumatoError, match="is a file: name a folder with --out"):
        RunFolder.open(tmp_path / "file", ABOUT, resume=False)
    with pytest.raises(SfumatoError, match=r"cannot write '.*' \(Not a directory\): choose another --out"):
        RunFolder.open(tmp_path / "file" / "run", ABOUT, resume=False)


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    folder = tmp_path / "run"
    if resume:
        RunFolder.open(folder, ABOUT, resume=False)

    def denied(path: Path, content: bytes) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "write_whole", denied)
    with pytest.raises(SfumatoError, match=r"cannot write '.*run' \(Permission denied\): choose another --out"):
        RunFolder.open(folder, ABOUT, resume=resume)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is no run of schema"),
        (b"\xff", "is no run of schema"),
        (b"[]", "is no run of schema"),
        (b'{"schema": "sfumato-run/9"}', "is no run of schema sfumato-run/1"),
        (b'{"schema": "sfumato-run/1", "config": 3, "resumed": []}', "is damaged"),
        (b'{"schema": "sfumato-run/1", "config": {}}', "is damaged"),
    ],
)
def test_a_damaged_record_is_refused(run: RunFolder, content: bytes, message: str) -> None:
    run.record.write_bytes(content)
    with pytest.raises(SfumatoError, match=message):
        RunFolder.open(run.path, ABOUT, resume=True)
    assert run.record.read_bytes() == content


# the log


def test_each_record_is_a_line_on_disk_at_once(run: RunFolder) -> None:
    run.log({"step": 1, "phase": "identität", "loss": 0.5})
    run.log({"step": 2, "phase": "two\nlines", "loss": 0.25})
    assert len(run.metrics.read_text(encoding="utf-8").splitlines()) == run.lines == 2
    assert run.records() == [
        {"step": 1, "phase": "identität", "loss": 0.5},
        {"step": 2, "phase": "two\nlines", "loss": 0.25},
    ]


def test_numbers_that_are_not_finite_stay_valid_json(run: RunFolder) -> None:
    run.log({"loss": math.nan, "up": math.inf, "down": -math.inf, "step": 3})
    assert strict(run.metrics.read_text()) == {"loss": None, "up": None, "down": None, "step": 3}
    assert run.records() == [{"loss": None, "up": None, "down": None, "step": 3}]


def test_a_torn_last_line_is_left_out_and_mended_on_resume(run: RunFolder) -> None:
    run.log({"step": 1})
    with run.metrics.open("ab") as file:
        file.write(b'{"step": 2, "lo')
    assert run.records() == [{"step": 1}] and run.lines == 1
    resumed = RunFolder.open(run.path, ABOUT, resume=True)
    resumed.log({"step": 2})
    assert resumed.records() == [{"step": 1}, {"step": 2}]


def test_a_damaged_line_amid_the_log_is_told(run: RunFolder) -> None:
    run.metrics.write_bytes(b'{"step": 1}\nnonsense\n{"step": 3}\n')
    with pytest.raises(SfumatoError, match=r"metrics\.jsonl' is damaged"):
        run.records()


@pytest.mark.parametrize(("lines", "left"), [(0, 0), (2, 2), (3, 3), (9, 3)])
def test_rewind_keeps_the_first_lines(run: RunFolder, lines: int, left: int) -> None:
    for step in range(3):
        run.log({"step": step})
    run.rewind(lines)
    assert run.records() == [{"step": step} for step in range(left)]
    run.log({"step": 99})
    assert run.lines == left + 1


def test_rewind_drops_a_torn_line_and_does_without_a_log(run: RunFolder) -> None:
    run.rewind(5)
    assert not run.metrics.exists()
    run.metrics.write_bytes(b'{"step": 1}\n{"st')
    run.rewind(1)
    assert run.metrics.read_bytes() == b'{"step": 1}\n'


def test_an_interrupted_rewind_keeps_the_whole_log(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in range(3):
        run.log({"step": step})
    before = snapshot(run.path)
    monkeypatch.setattr(Path, "write_bytes", interrupted(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run.rewind(1)
    assert snapshot(run.path) == before


# checkpoints


def trained(seed: int) -> tuple[torch.nn.Module, torch.optim.Adam]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    step(model, optimizer)
    return model, optimizer


def step(model: torch.nn.Module, optimizer: torch.optim.Adam) -> torch.Tensor:
    optimizer.zero_grad()
    loss = model(torch.randn(8, 3)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def test_a_training_goes_on_from_its_checkpoint_as_if_never_stopped(run: RunFolder) -> None:
    model, optimizer = trained(0)
    state = {
        "models": {"f_A": model.state_dict()},
        "optimizers": [optimizer.state_dict()],
        "phase": "minimax",
        "step": 1,
    }
    run.save_checkpoint({**state, "random": torch.get_rng_state(), "best": None, "done": False, "loss": math.inf})
    expected = [step(model, optimizer) for _ in range(3)]

    model, optimizer = trained(1)
    loaded = run.load_checkpoint("cpu")
    assert loaded is not None
    assert (loaded["phase"], loaded["step"], loaded["best"], loaded["done"]) == ("minimax", 1, None, False)
    assert loaded["loss"] == math.inf
    model.load_state_dict(loaded["models"]["f_A"])
    optimizer.load_state_dict(loaded["optimizers"][0])
    torch.set_rng_state(loaded["random"])
    assert [step(model, optimizer) for _ in range(3)] == expected


def test_a_checkpoint_comes_back_on_the_device_asked_for(run: RunFolder) -> None:
    run.save_checkpoint({"deep": {"weight": torch.ones(2)}})
    loaded = run.load_checkpoint(torch.device("meta"))
    assert loaded is not None and loaded["deep"]["weight"].device.type == "meta"


def test_an_interrupted_save_keeps_the_old_checkpoint(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    run.save_checkpoint({"step": 1})
    before = snapshot(run.path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", interrupted(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            run.save_checkpoint({"step": 2})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", interrupted(OSError(28, "No space left on device")))
        with pytest.raises(SfumatoError, match=r"checkpoint.pt' \(No space left on device\): free some space"):
            run.save_checkpoint({"step": 2})
    assert snapshot(run.path) == before
    assert run.load_checkpoint("cpu") == {"step": 1}


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


@pytest.mark.parametrize("by", ["torch", "pickle"])
def test_a_checkpoint_runs_no_code(run: RunFolder, tmp_path: Path, by: str) -> None:
    state = {"step": 1, "trap": Trap(str(tmp_path / "sprung"))}
    if by == "torch":
        run.save_checkpoint(state)
    else:
        run.checkpoint.write_bytes(pickle.dumps(state, protocol=2))
    with pytest.raises(SfumatoError, match="cannot read the checkpoint"):
        run.load_checkpoint("cpu")
    assert not (tmp_path / "sprung").exists()


def test_a_checkpoint_that_cannot_be_read_is_told_in_one_line(run: RunFolder) -> None:
    run.save_checkpoint({"weight": torch.ones(100)})
    whole = run.checkpoint.read_bytes()
    for content in (b"", b"nonsense", whole[: len(whole) // 2]):
        run.checkpoint.write_bytes(content)
        with pytest.raises(SfumatoError, match="put a good copy in its place, or remove it and --resume") as caught:
            run.load_checkpoint("cpu")
        assert "\n" not in str(caught.value)
    torch.save([1, 2], run.checkpoint)
    with pytest.raises(SfumatoError, match="cannot read the checkpoint"):
        run.load_checkpoint("cpu")


def test_a_full_device_is_not_blamed_on_the_file(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.cuda.OutOfMemoryError("out of memory")

    run.save_checkpoint({"step": 1})
    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        run.load_checkpoint("cpu")


# pictures and result


def test_a_strip_lays_frames_side_by_side_and_clips_below_each_other(run: RunFolder) -> None:
    colours = torch.tensor([[200, 0, 0], [0, 200, 0], [0, 0, 200]], dtype=torch.uint8)
    before = colours[:, :, None, None].expand(3, 3, 4, 5)
    after = torch.zeros(2, 3, 4, 5, dtype=torch.uint8)
    path = run.save_strip("step-7", [before, after])
    assert path == run.path / "frames" / "step-7.png"
    with Image.open(path) as picture:
        assert picture.mode == "RGB"
        assert picture.size == (3 * 5 + 2 * 2, 2 * 4 + 2)
        assert [picture.getpixel((x, 0)) for x in (0, 4, 7, 14)] == [
            (200, 0, 0), (200, 0, 0), (0, 200, 0), (0, 0, 200),
        ]  # fmt: skip
        assert [picture.getpixel(at) for at in ((5, 0), (6, 3), (0, 4), (0, 5), (14, 6))] == [(255, 255, 255)] * 5
        assert [picture.getpixel(at) for at in ((0, 6), (11, 9))] == [(0, 0, 0)] * 2
    run.save_strip("step-8", [after])
    assert len(list(run.frames.iterdir())) == 2


def test_a_strip_wants_stored_pixels(run: RunFolder) -> None:
    for clip in (torch.zeros(2, 3, 4, 5), torch.zeros(2, 4, 5, 3, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="uint8 clips"):
            run.save_strip("bad", [clip])
    assert not run.frames.exists()


def test_a_result_is_whole_and_valid_json(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    run.save_result({"accuracy": 0.5, "losses": [math.nan, {"deep": (math.inf, 1)}]})
    assert run.read_result() == {"accuracy": 0.5, "losses": [None, {"deep": [None, 1]}]}
    assert strict(run.result.read_text()).items() >= run.read_result().items()
    before = snapshot(run.path)
    monkeypatch.setattr(Path, "write_bytes", interrupted(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run.save_result({"accuracy": 0.9})
    assert snapshot(run.path) == before


def test_a_result_that_was_edited_or_is_none_is_refused_in_one_line(run: RunFolder) -> None:
    with pytest.raises(SfumatoError, match="holds no finished run: go on with --resume"):
        run.read_result()
    run.save_result({"trained_parameters": 1000})
    stored = strict(run.result.read_text())
    again = "remove that folder and train again, or choose another --out"
    cases = {
        json.dumps({**stored, "trained_parameters": 10}): "was changed after it was written: its checksum is another",
        json.dumps({"trained_parameters": 10}): "has no checksum: it was edited, or is from before there were any;",
        "[]": "is damaged:", "{": "is damaged:",
    }  # fmt: skip
    for content, complaint in cases.items():
        run.result.write_text(content)
        with pytest.raises(SfumatoError, match=rf"result.json' {complaint}.* {again}$"):
            run.read_result()


def test_the_anonymizer_has_its_folder(run: RunFolder) -> None:
    assert run.anonymizer == run.path / "anonymizer"


def test_what_is_pinned_must_be_found_again(tmp_path: Path) -> None:
    run = RunFolder.open(tmp_path / "run", ABOUT, resume=False)
    run.pin("clips", "abc")
    run.pin("clips", "abc")
    assert run.about()["clips"] == "abc"
    again = RunFolder.open(tmp_path / "run", ABOUT, resume=True)
    with pytest.raises(SfumatoError, match="the clips are not those that the run in"):
        again.pin("clips", "abd")
    assert again.about()["clips"] == "abc"
