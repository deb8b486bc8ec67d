"""Anonymizers by name, from folders and from the Hub."""

from __future__ import annotations

import errno
import json
import pickle
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from torch import Tensor, nn

from sfumato.anonymizers import (
    ANONYMIZERS,
    Anonymizer,
    Knob,
    fingerprint,
    label,
    load,
    parse_name,
    register,
    save,
    shelf,
    untrained,
)
from sfumato.anonymizers.storage import described, knobs_of
from sfumato.errors import SfumatoError

ALPHA = Knob("alpha", 0.7, low=0.0, high=1.0, summary="how much is kept")


class Tinted(Anonymizer):
    """A learned anonymizer in small: weights, a knob, and one setting of each other type."""

    name, summary = "tinted", "for the tests"
    knobs = (ALPHA,)

    def __init__(self, alpha: float = 0.7, width: int = 2, mode: str = "soft", two_pass: bool = False) -> None:
        super().__init__()
        self.alpha, self.width, self.mode, self.two_pass = ALPHA.check(alpha), width, mode, two_pass
        self.mix = nn.Conv2d(3, 3, width)
        self.shared = self.mix  # weights that appear twice, as tied ones do

    def settings(self) -> dict[str, float | int | str | bool]:
        return {"alpha": self.alpha, "width": self.width, "mode": self.mode, "two_pass": self.two_pass}

    def forward(self, video: Tensor) -> Tensor:
        return (video * self.alpha * self.mix.weight.mean().sigmoid()).clamp(0, 1)


@pytest.fixture(autouse=True)
def _tinted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ANONYMIZERS, "_entries", dict(ANONYMIZERS._entries))
    register(Tinted)
    torch.manual_seed(0)


def rewrite(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("name", [*ANONYMIZERS.names(), "tinted"])
def test_what_is_saved_is_what_is_loaded(name: str, tmp_path: Path) -> None:
    anonymizer = untrained(name)
    again = load(save(anonymizer, tmp_path / "a" / "b"))
    assert type(again) is type(anonymizer)
    assert again.settings() == anonymizer.settings()
    assert fingerprint(again) == fingerprint(anonymizer)
    assert label(again) == label(anonymizer)
    assert not anonymizer.training
    assert not again.training


def test_folders_keep_settings_and_let_only_knobs_be_moved(tmp_path: Path) -> None:
    folder = save(load("tinted", alpha=0.5, width=3, mode="hard", two_pass=True), tmp_path / "it")
    saved = {"alpha": 0.5, "width": 3, "mode": "hard", "two_pass": True}
    assert load(str(folder)).settings() == saved
    assert load(folder, strength=0.9).settings() == saved | {"alpha": 0.9}
    assert load(f"{folder}:alpha=.25").settings() == saved | {"alpha": 0.25}
    with pytest.raises(SfumatoError, match=r"'width' of .* cannot be set: what can: alpha"):
        load(folder, width=2)


def test_saving_again_replaces_and_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a model card")
    save(load("tinted"), tmp_path)
    second = load("tinted")
    save(second, tmp_path)
    assert fingerprint(load(tmp_path)) == fingerprint(second)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "config.json", "model.safetensors"]


def test_a_save_cut_short_is_noticed_and_leaves_no_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(load("tinted"), tmp_path)
    write_bytes = Path.write_bytes

    def full_disk(self: Path, content: bytes) -> int:
        if "config" not in self.name:
            return write_bytes(self, content)
        write_bytes(self, content[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full_disk)
        with pytest.raises(SfumatoError, match="No space left on device"):
            save(load("tinted"), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    with pytest.raises(SfumatoError, match=r"not the file that config\.json was saved with"):
        load(tmp_path)


def test_save_refuses_a_file_in_the_way_and_what_could_not_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SfumatoError, match="cannot write"):
        save(load("blur"), tmp_path / "file")
    stranger = load("tinted")
    stranger.name = "stranger"
    with pytest.raises(SfumatoError, match="no anonymizer 'stranger'"):
        save(stranger, tmp_path / "other")


class Bomb:
    """Unpickling it creates the file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


def test_trap_10_a_pickle_smuggled_in_as_weights_runs_nothing(tmp_path: Path) -> None:
    folder, exploded = save(load("tinted"), tmp_path / "model"), tmp_path / "exploded"
    weights = folder / "model.safetensors"
    rewrite(folder, weights_sha256=None)  # whoever smuggles would mend the checksum
    torch.save(Bomb(exploded), weights)
    with pytest.raises(SfumatoError, match="not a safetensors file"):
        load(folder)
    weights.write_bytes(pickle.dumps(Bomb(exploded)))
    with pytest.raises(SfumatoError, match="not a safetensors file"):
        load(folder)
    assert not exploded.exists()
    pickle.loads(weights.read_bytes())  # noqa: S301 - the bomb was live
    assert exploded.exists()


@pytest.mark.parametrize("evil", ["os.system", "builtins:eval", "../../etc/passwd", "Tinted", "", "sfumato.cli"])
def test_config_can_name_registered_anonymizers_only(tmp_path: Path, evil: str) -> None:
    folder = save(load("tinted"), tmp_path)
    rewrite(folder, anonymizer=evil)
    with pytest.raises(SfumatoError, match="there is no anonymizer"):
        load(folder)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"path": "x"}, "no setting 'path'.*alpha, width, mode, two_pass"),
        ({"self": 1}, "no setting 'self'"),
        ({"alpha": "0.5"}, "alpha = '0.5' is not a number"),
        ({"alpha": True}, "alpha = True is not a number"),
        ({"alpha": None}, "alpha = None is not a number"),
        ({"alpha": float("nan")}, "alpha is not finite"),
        ({"alpha": float("inf")}, "alpha is not finite"),
        ({"alpha": 10**400}, "alpha is not finite"),
        ({"alpha": 1.5}, "alpha = 1.5 is out of range: use 0 to 1"),
        ({"width": 2.5}, "width = 2.5 is not a whole number"),
        ({"mode": 3}, "mode = 3 does not fit"),
        ({"two_pass": 1}, "two_pass = 1 does not fit: give true or false"),
    ],
)
def test_bad_settings_in_a_config_are_named(tmp_path: Path, settings: dict[str, Any], complaint: str) -> None:
    folder = save(load("tinted"), tmp_path)
    rewrite(folder, settings=settings)
    with pytest.raises(SfumatoError, match=complaint):
        load(folder)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "null", '{"anonymizer": "blur"}', '{"settings": {}}'])
def test_broken_configs_are_refused(tmp_path: Path, text: str) -> None:
    folder = save(load("blur"), tmp_path)
    (folder / "config.json").write_text(text)
    with pytest.raises(SfumatoError, match=r"not valid JSON|does not describe an anonymizer"):
        load(folder)


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = save(load("tinted"), tmp_path)
    rewrite(folder, settings={"width": 5})
    with pytest.raises(SfumatoError, match="do not fit tinted"):
        load(folder)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_incomplete_folders_are_refused(tmp_path: Path, missing: str) -> None:
    folder = save(load("tinted"), tmp_path)
    (folder / missing).unlink()
    with pytest.raises(SfumatoError, match=f"cannot read '.*{missing}'"):
        load(folder)


def test_hub_ids_are_loaded_like_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = load("tinted", alpha=0.5)
    folder = save(original, tmp_path)
    asked: list[Any] = []

    def snapshot_download(hub_id: str, allow_patterns: list[str]) -> str:
        asked.append((hub_id, allow_patterns))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert fingerprint(load("someone/tinted")) == fingerprint(original)
    assert load("someone/tinted:alpha=.1").settings()["alpha"] == 0.1
    assert asked == [("someone/tinted", ["config.json", "model.safetensors"])] * 2


@pytest.mark.parametrize("error", [ConnectionError("offline"), FileNotFoundError("nothing"), ValueError("bad id")])
def test_an_unreachable_hub_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def snapshot_download(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(SfumatoError, match="'some/where' is no folder here and could not be had"):
        load("some/where")


def test_names_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="no anonymizer 'blurr': did you mean 'blur'"):
        load("blurr")
    with pytest.raises(SfumatoError, match="there is no folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "clip.mp4").write_text("")
    with pytest.raises(SfumatoError, match="is a file"):
        load(tmp_path / "clip.mp4")


def test_names_carry_settings() -> None:
    assert parse_name("downsample") == ("downsample", {})
    assert parse_name("downsample:factor=16") == ("downsample", {"factor": 16.0})
    assert parse_name("tinted:alpha=1e-1, mode=hard,two_pass=True") == (
        "tinted",
        {"alpha": 0.1, "mode": "hard", "two_pass": True},
    )
    assert load("downsample:factor=16").settings() == {"factor": 16.0}
    assert load("tinted:width=4,mode=hard").settings()["width"] == 4


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("blur:", "'' in 'blur:' is no setting"),
        ("blur:sigma", "'sigma' in 'blur:sigma' is no setting"),
        ("blur:sigma=", "is no setting"),
        ("blur:=4", "is no setting"),
        ("blur:sigma=1,sigma=2", "'sigma' is set twice"),
        ("blur:radius=4", "blur has no setting 'radius': its settings: sigma"),
        ("blur:sigma=much", "blur: sigma = 'much' is not a number"),
        ("blur:sigma=nan", "blur: sigma is not finite"),
        ("blur:sigma=1e9", "sigma = 1e.09 is out of range"),
        ("identity:sigma=1", "identity has no setting 'sigma': its settings: none"),
    ],
)
def test_bad_settings_in_a_name_are_named(text: str, complaint: str) -> None:
    with pytest.raises(SfumatoError, match=complaint):
        load(text)


def test_strength_moves_the_first_knob() -> None:
    assert load("downsample", strength=16).settings() == {"factor": 16.0}
    with pytest.raises(SfumatoError, match="identity has no strength"):
        load("identity", strength=2)


@pytest.mark.parametrize(
    "text", ["identity", "downsample", "downsample:factor=16", "downsample:factor=2.5", "pixelate:block=3"]
)
def test_labels_of_weightless_anonymizers_load_again(text: str) -> None:
    assert label(load(text)) == text
    assert fingerprint(load(label(load(text)))) == fingerprint(load(text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("blur", "blur (sigma=8)"),
        ("downsample:factor=16", "downsample (factor=16)"),
        ("noisy-features:kept=2", "noisy-features (noise=0.5, kept=2)"),
        ("weak-blur-people", "weak-blur-people (kernel=13, margin=0.02)"),
        ("identity", "identity"),
    ],
)
def test_a_reader_is_told_every_knob(text: str, told: str) -> None:
    assert described(load(text)) == told


def test_knobs_of_saved_weights_stand_as_they_were_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "WEIGHTS", tmp_path)
    network = untrained("tubelets", embedding=8, depth=1, patch=8, size=16, alpha=0.5)
    network.title = "veil"
    save(network, tmp_path / "veil")
    assert [(knob.name, knob.default) for knob in knobs_of("veil")] == [("alpha", 0.5)]
    assert [(knob.name, knob.default) for knob in knobs_of("blur")] == [("sigma", 8)]
    again = load("veil", strength=0.25)
    assert described(again) == f"veil@{fingerprint(again)[:8]} (alpha=0.25)"


def test_what_weights_were_made_for_is_read_from_their_card(tmp_path: Path) -> None:
    folder = save(untrained("unet", width=4), tmp_path / "f_a")
    assert load(folder).made_for == ""
    (folder / "README.md").write_text("# f_a\n\nHides drawn\npeople\x1b[2J. And more.\n")
    assert load(folder).made_for == "Hides drawn people[2J."  # nothing that would clear a terminal


def test_labels_leave_defaults_out_and_tell_weights_apart() -> None:
    assert label(load("downsample:factor=4")) == "downsample"
    first, second = load("tinted", two_pass=True), load("tinted", two_pass=True)
    assert label(first).startswith("tinted:two_pass=true@")
    assert label(first) != label(second)


def test_fingerprints_tell_names_settings_and_weights_apart() -> None:
    model = load("tinted")
    prints = [fingerprint(load(name)) for name in ("blur", "blur:sigma=4", "pixelate")] + [fingerprint(model)]
    with torch.no_grad():
        model.mix.bias[0] += 1e-3
    prints.append(fingerprint(model))
    assert len(set(prints)) == 5
    assert fingerprint(load("blur")) == fingerprint(load("blur", strength=8))
    assert fingerprint(load("tinted").half()) != fingerprint(load("tinted"))


def test_an_argument_without_a_default_cannot_be_registered() -> None:
    class Needy(Tinted):
        name = "needy"

        def __init__(self, width: int) -> None:
            super().__init__(width=width)

    with pytest.raises(TypeError, match="width needs a default"):
        register(Needy)


def test_trained_weights_go_by_their_title(tmp_path: Path) -> None:
    model = load("tinted", alpha=0.5, two_pass=True)
    model.title = "spact"
    again = load(save(model, tmp_path))
    assert again.title == "spact"
    assert label(again) == f"spact:alpha=0.5@{fingerprint(model)[:8]}"
    assert fingerprint(again) == fingerprint(load(tmp_path))


@pytest.mark.parametrize("title", ["../evil", "two words", 3, "x" * 41])
def test_a_title_is_a_plain_word(tmp_path: Path, title: Any) -> None:
    save(load("tinted"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"title": title}))
    with pytest.raises(SfumatoError, match="no plain word"):
        load(tmp_path)
