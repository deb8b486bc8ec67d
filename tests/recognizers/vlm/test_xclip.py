"""X-CLIP gives what `transformers` gives, and no checkpoint is half loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.recognizers.vlm import load_vlm

from .checkpoints import PROMPTS, videos, write_clip, write_xclip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_xclip(tmp_path)


def reference(folder: Path, mean: list[float], std: list[float]) -> tuple[Any, Any, Tensor]:
    """The model as `transformers` loads it, what its tokenizer makes of the prompts, and normalised pixels."""
    from transformers import CLIPTokenizer, XCLIPModel

    tokens = CLIPTokenizer.from_pretrained(folder)(PROMPTS, padding=True, return_tensors="pt")
    pixels = (videos() - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    return XCLIPModel.from_pretrained(folder).eval(), tokens, pixels


IMAGENET = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@torch.no_grad()
def test_zero_shot_is_the_models_own(folder: Path) -> None:
    theirs, tokens, pixels = reference(folder, *IMAGENET)
    expected = theirs(pixel_values=pixels, **tokens)
    ours = load_vlm(f"xclip:{folder}")
    torch.testing.assert_close(ours.zero_shot(videos(), PROMPTS), expected.logits_per_video, rtol=1e-4, atol=1e-4)

    patch, frame, video = ours.embed_video(videos())
    torch.testing.assert_close(F.normalize(video, dim=1), expected.video_embeds)
    seen = expected.vision_model_output
    torch.testing.assert_close(patch.flatten(0, 1), seen.last_hidden_state[:, 1:])
    torch.testing.assert_close(frame.flatten(0, 1), seen.pooler_output)


@torch.no_grad()
def test_prompts_are_specific_to_the_video(folder: Path) -> None:
    ours = load_vlm(f"xclip:{folder}")
    embeddings, text = ours.embed_video(videos()), ours.embed_text(PROMPTS)
    plain = ours.scale * F.normalize(embeddings.video, dim=1) @ F.normalize(text, dim=1).T
    assert (ours.match(embeddings, text) - plain).abs().max() > 0.1


@torch.no_grad()
def test_pixels_are_normalised_as_the_checkpoint_says(folder: Path) -> None:
    said = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_mean": said[0], "image_std": said[1]}))
    theirs, tokens, pixels = reference(folder, *said)
    expected = theirs(pixel_values=pixels, **tokens).logits_per_video
    torch.testing.assert_close(load_vlm(f"xclip:{folder}").zero_shot(videos(), PROMPTS), expected, rtol=1e-4, atol=1e-4)

    (folder / "preprocessor_config.json").write_text(json.dumps({"image_mean": 0.5}))
    with pytest.raises(SfumatoError, match="no mean and deviation for three colours"):
        load_vlm(f"xclip:{folder}")


def test_the_number_of_frames_is_the_checkpoints(tmp_path: Path) -> None:
    model = load_vlm(f"xclip:{write_xclip(tmp_path, num_frames=4)}")
    assert model.clip == (4, 32, 32)
    assert model.embed_video(videos(frames=4)).frame.shape[:2] == (2, 4)
    with pytest.raises(SfumatoError, match=r"\(4, 3, 32, 32\), not \(8, 3, 32, 32\)"):
        model.embed_video(videos())


def test_half_precision_on_disk_is_full_precision_here(folder: Path) -> None:
    path = folder / "model.safetensors"
    save_file({name: value.half() for name, value in load_file(path).items()}, path, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float16", "torch_dtype": "float16"}))
    assert {value.dtype for value in load_vlm(f"xclip:{folder}").parameters()} == {torch.float32}


def lose_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["mit.position_embedding"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def change_config(part: str, **values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config[part].update(values)
        (folder / "config.json").write_text(json.dumps(config))

    return change


def grow_vocabulary(folder: Path) -> None:
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({**vocabulary, "zz": len(vocabulary)}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lose_weights, "lack mit.position_embedding: name a checkpoint that holds the whole model"),
        (lambda folder: (folder / "model.safetensors").write_text("nothing"), "cannot read the model"),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot read the model"),
        (lambda folder: (folder / "config.json").unlink(), "cannot read '.*config.json'"),
        (lambda folder: (folder / "config.json").write_text("{"), "is not valid JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "holds no JSON object"),
        (lambda folder: (folder / "merges.txt").unlink(), "has no tokenizer"),
        (lambda folder: (folder / "vocab.json").unlink(), "has no tokenizer"),
        (lambda folder: (folder / "vocab.json").write_text("{"), "cannot read the tokenizer"),
        (grow_vocabulary, "the tokenizer in '.*' knows 59 tokens, its text model 58"),
        (change_config("vision_config", image_size=40), "40×40 cannot be cut into patches of 16×16"),
        (change_config("vision_config", image_size=[32, 32]), "cannot read the model"),
        (change_config("vision_config", hidden_size=32), "cannot read the model"),
    ],
)
def test_damaged_checkpoints_are_refused(folder: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(folder)
    with pytest.raises(SfumatoError, match=message) as caught:
        load_vlm(f"xclip:{folder}")
    assert "\n" not in str(caught.value)


def test_another_kind_of_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="a model of type 'clip', not 'xclip'"):
        load_vlm(f"xclip:{write_clip(tmp_path)}")


def test_a_prompt_that_is_too_long_is_refused_not_cut(folder: Path) -> None:
    model = load_vlm(f"xclip:{folder}")
    with pytest.raises(SfumatoError, match=r"'jumps jumps .*…' has 52 tokens, and the text model reads 30"):
        model.embed_text(["a person", "jumps " * 10])


class Payload:
    """Unpickling this writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.write_text, (self.target, "the file ran code")


def test_trap_10_a_checkpoint_cannot_run_code(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({**weights, "payload": Payload(folder / "ran")}, folder / "pytorch_model.bin")
    with pytest.raises(SfumatoError, match="cannot read the model"):
        load_vlm(f"xclip:{folder}")
    assert not (folder / "ran").exists()


def test_hub_ids_work_through_the_same_call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def snapshot_download(hub_id: str, allow_patterns: list[str]) -> str:
        asked.append((hub_id, allow_patterns))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    found = load_vlm("xclip:someone/tiny").zero_shot(videos(), PROMPTS)
    assert torch.equal(found, load_vlm(f"xclip:{folder}").zero_shot(videos(), PROMPTS))
    assert asked == [("someone/tiny", ["*.json", "*.txt", "*.safetensors"])]

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")  # as older checkpoints are
    (folder / "model.safetensors").unlink()
    assert torch.equal(load_vlm("xclip:someone/tiny").zero_shot(videos(), PROMPTS), found)
    assert asked[1:] == [("someone/tiny", ["*.json", "*.txt", "*.safetensors"]), ("someone/tiny", ["*.bin"])]


@pytest.mark.parametrize("error", [ConnectionError("offline"), ValueError("bad id")])
def test_an_unreachable_hub_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def snapshot_download(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(SfumatoError, match="'some/where' is no folder here and could not be had"):
        load_vlm("xclip:some/where")


def test_folders_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(SfumatoError, match=f"there is no folder '{name}'"):
            load_vlm(f"xclip:{name}")
