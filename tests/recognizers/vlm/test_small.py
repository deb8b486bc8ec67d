"""The small model: it learns what is seen and how it moves, its sizes are the agreed ones, it is saved whole or not at all."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.objectives.alignment import alignment
from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig, fill_prompts, load_vlm, save_vlm, words_of

from .checkpoints import PROMPTS, videos, write_clip, write_small, write_xclip

CAPTIONS = fill_prompts("a {} wall", ["red brightening", "red darkening", "blue brightening", "blue darkening"])
TINY = SmallVLMConfig(
    (4, 16, 16), words_of(CAPTIONS), width=32, depth=1, temporal_depth=1, text_width=32, text_depth=1, embedding=32
)


def walls(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Clips (count, 4, 3, 16, 16) of a red or blue wall that grows brighter or darker, and the number of their caption.

    How bright one frame is says nothing about what comes next.
    """
    generator = torch.Generator().manual_seed(seed)
    which = torch.randint(0, 4, (count,), generator=generator)
    colour = torch.tensor([[1.0, 0.2, 0.2], [1.0, 0.2, 0.2], [0.2, 0.2, 1.0], [0.2, 0.2, 1.0]])[which]
    rise = 0.1 * (torch.arange(4) - 1.5) * (1 - 2 * (which % 2))[:, None]
    light = 0.5 + 0.2 * torch.rand(count, 1, generator=generator) + rise
    noise = 0.05 * torch.rand(count, 4, 3, 16, 16, generator=generator)
    return (light[:, :, None, None, None] * colour[:, None, :, None, None] + noise).clamp(0, 1), which


def test_it_learns_to_tell_captions_apart() -> None:
    torch.manual_seed(0)
    model = SmallVLM(TINY)
    clips, which = walls(512, seed=1)
    new_clips, new_which = walls(200, seed=2)

    def accuracy() -> float:
        with torch.no_grad():
            return (model.zero_shot(new_clips, CAPTIONS).argmax(1) == new_which).float().mean().item()

    assert accuracy() < 0.6
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    first_scale = model.scale.item()
    for step in range(60):
        batch = torch.arange(32 * step, 32 * step + 32) % len(clips)
        text = model.embed_text([CAPTIONS[number] for number in which[batch].tolist()])
        loss = alignment(model.embed_video(clips[batch]).video, text, model.scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert accuracy() > 0.95
    assert model.scale.item() != first_scale


def test_every_parameter_learns_until_it_is_frozen() -> None:
    torch.manual_seed(0)
    model = SmallVLM(TINY).train()
    assert model.training
    clips, which = walls(6, seed=0)
    text = model.embed_text([CAPTIONS[number] for number in which.tolist()])
    embeddings = model.embed_video(clips)
    alignment(embeddings.video, text, model.scale).backward()
    assert [name for name, value in model.named_parameters() if value.grad is None or not value.grad.any()] == []
    assert not any(value.requires_grad for value in model.freeze().parameters())
    assert not model.train().training


def test_sizes_are_the_agreed_ones() -> None:
    config = SmallVLMConfig((8, 64, 64), ("a",))
    with torch.device("meta"):
        model = SmallVLM(config)
    state = model.state_dict()
    convolutions = [
        tuple(value.shape) for name, value in state.items() if name.startswith("frames.stem") and value.ndim == 4
    ]
    assert convolutions == [(24, 6, 4, 4), (48, 24, 4, 4), (96, 48, 4, 4), (192, 96, 4, 4), (192, 192, 1, 1)]
    assert len(model.frames.layers) == 6
    assert len(model.text.layers) == 4 and model.text.word.weight.shape == (3 + 1, 128)
    assert model.scale.shape == ()


def test_the_scale_begins_and_ends_as_clips_does() -> None:
    model = SmallVLM(TINY)
    assert model.scale.item() == pytest.approx(1 / 0.07)
    torch.nn.init.constant_(model.log_scale, 9.0)
    assert model.scale.item() == 100


def test_time_has_an_order() -> None:
    torch.manual_seed(0)
    model = SmallVLM(TINY)
    clips, _ = walls(2, seed=0)
    forward, backward = model.embed_video(clips), model.embed_video(clips.flip(1))
    assert (forward.video - backward.video).abs().max() > 1e-3


def test_frames_see_themselves_and_what_comes_next_and_patches_lie_as_in_the_frame() -> None:
    torch.manual_seed(0)
    model = SmallVLM(replace(TINY, clip=(4, 32, 48), width=192))
    assert model.grid == (2, 3)
    clip = torch.rand(1, 1, 3, 32, 48).expand(1, 4, 3, 32, 48)
    changed = clip.clone()
    changed[0, 2, :, 18:30, 18:30] = 1.0  # frame 2, inside the second row's second patch
    before, after = model.embed_video(clip), model.embed_video(changed)
    moved = (before.patch - after.patch).norm(dim=3)[0]
    assert moved[0].max() == 0 and moved[3].max() == 0
    assert moved[1].min() > 0 and moved[2].min() > 0
    # Where a patch lies is where its token begins, before attention spreads everything.
    first = [model.frames.stem(torch.cat((each[0, 2:3], torch.zeros(1, 3, 32, 48)), 1)) for each in (clip, changed)]
    assert (first[0] - first[1]).norm(dim=1).flatten().argmax() == 4


def test_unknown_words_are_reported_and_all_alike() -> None:
    model = SmallVLM(TINY)
    with pytest.warns(UserWarning, match="count as <unk>: green, yellow"):
        text = model.embed_text(["a green wall", "a yellow wall"])
    assert torch.equal(text[0], text[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.embed_text(["a red wall"])


def test_what_was_saved_comes_back_frozen(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SmallVLM(TINY)
    clips, _ = walls(2, seed=0)
    loaded = load_vlm(save_vlm(model, tmp_path / "new" / "folder"))
    assert isinstance(loaded, SmallVLM) and loaded.config == TINY and loaded.frozen and not loaded.training
    assert torch.equal(loaded.zero_shot(clips, CAPTIONS), model.zero_shot(clips, CAPTIONS))
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["config.json", "model.safetensors"]


def test_weights_of_another_save_are_refused(tmp_path: Path) -> None:
    torch.manual_seed(0)
    one, other = (save_vlm(SmallVLM(TINY), tmp_path / name) for name in ("one", "other"))
    (one / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    with pytest.raises(SfumatoError, match=r"is not the file that config\.json was saved with"):
        load_vlm(one)
    (one / "model.safetensors").unlink()
    with pytest.raises(SfumatoError, match=r"cannot read '.*model\.safetensors'"):
        load_vlm(one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"clip": [4, 16, 16]}}, "has no list of words"),
        ({"settings": {"clip": [4, 16, 16], "words": ["a"], "colour": 3}}, "not those of a small model"),
        ({"settings": {"words": ["a"]}}, "not those of a small model"),
        ({"settings": {"clip": 4, "words": ["a"]}}, "not those of a small model"),
        ({"settings": {"clip": [4, 16], "words": ["a"]}}, "is no clip"),
        ({"settings": {"clip": [4, 16, 20], "words": ["a"]}}, "16×20 cannot be cut into patches of 16×16"),
        ({"settings": {"clip": [4, 16, 16], "words": ["a"], "depth": 0}}, "depth = 0 makes no model"),
        ({"settings": {"clip": [4, 16, 16], "words": ["a"], "width": "wide"}}, "width = wide makes no model"),
        ({"settings": {"clip": [4, 16, 16], "words": ["a"], "depth": 1}}, "do not fit its config.json"),
        ({"settings": {"clip": [4, 16, 16], "words": ["a b"]}}, "not one lower-case word"),
        ({"weights_sha256": None}, "does not describe a small vision-language model"),
        ({"vlm": "large"}, "does not describe a small vision-language model"),
    ],
)
def test_settings_that_are_none(tmp_path: Path, change: dict[str, object], message: str) -> None:
    config = json.loads((save_vlm(SmallVLM(TINY), tmp_path) / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(SfumatoError, match=message):
        load_vlm(tmp_path)


def test_names_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(SfumatoError, match="no family of vision-language models 'x-clip': did you mean 'xclip'"):
        load_vlm("x-clip:somewhere")
    with pytest.raises(SfumatoError, match="there is no folder"):
        load_vlm(tmp_path / "nowhere")
    with pytest.raises(SfumatoError, match=r"there is no folder 'vml': .*; here by name: vlm, vlm-other"):
        load_vlm("vml")
    with pytest.raises(SfumatoError, match="is a published checkpoint: name it as xclip:"):
        load_vlm(write_xclip(tmp_path / "x"))
    with pytest.raises(SfumatoError, match="is a published checkpoint: name it as actionclip:"):
        load_vlm(write_clip(tmp_path / "c"))


@pytest.mark.parametrize("name", ["xclip:", "actionclip:", "xclip"])
def test_a_family_without_a_checkpoint_is_not_the_folder_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make = write_clip if name.startswith("a") else write_xclip
    monkeypatch.chdir(make(tmp_path))
    with pytest.raises(
        SfumatoError, match=f"'{name}' names no checkpoint: give {name.rstrip(':')}:FOLDER, or an id as in"
    ):
        load_vlm(name)


def test_only_the_small_model_is_saved(tmp_path: Path) -> None:
    model = load_vlm(f"xclip:{write_xclip(tmp_path / 'x')}")
    with pytest.raises(SfumatoError, match="only the small model is saved"):
        save_vlm(model, tmp_path / "y")
    (tmp_path / "file").touch()
    with pytest.raises(SfumatoError, match="cannot write to"):
        save_vlm(SmallVLM(TINY), tmp_path / "file")


def test_a_loaded_model_reads_its_own_words(tmp_path: Path) -> None:
    assert load_vlm(write_small(tmp_path)).zero_shot(videos(1), PROMPTS).shape == (1, 3)
