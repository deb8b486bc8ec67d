"""Weights from files: what fits is loaded, what does not is named, and no file runs code."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sfumato.errors import SfumatoError
from sfumato.recognizers import Recognizer, load_weights, make_recognizer


def tiny(outputs: int = 4, seed: int = 0) -> Recognizer:
    torch.manual_seed(seed)
    return make_recognizer("tiny-video", outputs, clip=(4, 16, 16), width=0.25)


def same(left: Recognizer, right: Recognizer, head: bool = True) -> bool:
    ours, theirs = left.state_dict(), right.state_dict()
    return all(torch.equal(ours[key], theirs[key]) for key in ours if head or not key.startswith("fc."))


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
def test_what_was_saved_comes_back(tmp_path: Path, suffix: str) -> None:
    saved, fresh, path = tiny(seed=1), tiny(seed=2), tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(saved.state_dict(), path)
    assert not same(saved, fresh)
    load_weights(fresh, path)
    assert same(saved, fresh)


@pytest.mark.parametrize("wrapper", ["state_dict", "model_state", "model"])
def test_a_training_checkpoint_is_unwrapped(tmp_path: Path, wrapper: str) -> None:
    saved, fresh, path = tiny(seed=1), tiny(seed=2), tmp_path / "checkpoint.pth"
    torch.save({"epoch": 3, wrapper: saved.state_dict()}, path)
    load_weights(fresh, path)
    assert same(saved, fresh)


def test_another_head_needs_to_be_asked_for(tmp_path: Path) -> None:
    saved, fresh, path = tiny(400, seed=1), tiny(4, seed=2), tmp_path / "k400.safetensors"
    save_file(saved.state_dict(), path)
    before = {key: value.clone() for key, value in fresh.state_dict().items()}
    with pytest.raises(SfumatoError, match=r"misshaped: fc.weight \(400, 48\) for \(4, 48\).*new_head=True"):
        load_weights(fresh, path)
    assert all(torch.equal(before[key], value) for key, value in fresh.state_dict().items())  # all or nothing

    load_weights(fresh, path, new_head=True)
    assert same(saved, fresh, head=False) is True
    assert not torch.equal(before["fc.weight"], fresh.state_dict()["fc.weight"])
    assert fresh.state_dict()["fc.weight"].shape == (4, 48)


def test_a_new_head_is_new_even_if_the_old_one_fits(tmp_path: Path) -> None:
    saved, fresh, path = tiny(seed=1), tiny(seed=2), tmp_path / "w.pt"
    torch.save(saved.state_dict(), path)
    load_weights(fresh, path, new_head=True)
    assert same(saved, fresh, head=False)
    assert not torch.equal(saved.state_dict()["fc.weight"], fresh.state_dict()["fc.weight"])


def test_missing_and_unexpected_names_are_named(tmp_path: Path) -> None:
    state = dict(tiny().state_dict())
    state["extra.weight"] = state.pop("body.0.weight")
    state = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(SfumatoError, match=r"\(missing: body.0.weight; unexpected: extra.weight\): make the recogn"):
        load_weights(tiny(), tmp_path / "w.pt")


def test_a_long_list_of_names_is_cut(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "w.pt")
    with pytest.raises(SfumatoError, match=r"body.1.running_mean, body.1.running_var and 17 more"):
        load_weights(tiny(), tmp_path / "w.pt")


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("none.pt", lambda path: None, "there is no file"),
        ("text.pt", lambda path: path.write_text("not weights"), "cannot read weights"),
        ("text.safetensors", lambda path: path.write_text("not weights"), "cannot read weights"),
        ("empty.pth", lambda path: path.write_bytes(b""), "cannot read weights"),
        ("list.pt", lambda path: torch.save([torch.ones(2)], path), "holds no state dict"),
        ("numbers.pt", lambda path: torch.save({"lr": 0.1}, path), "holds no state dict"),
    ],
)
def test_files_that_are_no_weights(tmp_path: Path, name: str, write: Callable[[Path], object], message: str) -> None:
    write(tmp_path / name)
    with pytest.raises(SfumatoError, match=message) as caught:
        load_weights(tiny(), tmp_path / name)
    assert "\n" not in str(caught.value)


class Payload:
    """Unpickling this writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.write_text, (self.target, "the file ran code")


@pytest.mark.parametrize("container", ["torch", "pickle"])
def test_trap_10_a_checkpoint_cannot_run_code(tmp_path: Path, container: str) -> None:
    target, path = tmp_path / "ran", tmp_path / "malicious.pt"
    content = {**tiny().state_dict(), "payload": Payload(target)}
    if container == "torch":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(SfumatoError, match="cannot read weights"):
        load_weights(tiny(), path)
    assert not target.exists()

    # The payload is live: an unguarded reader would have run it.
    with path.open("rb") as file:
        torch.load(file, weights_only=False) if container == "torch" else pickle.load(file)  # noqa: S301
    assert target.read_text() == "the file ran code"
