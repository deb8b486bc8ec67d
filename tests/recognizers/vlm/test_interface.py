"""What holds for every vision-language model: shapes, frozen by one bit, gradients to the pixels, one clip at a time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.recognizers import vlm
from sfumato.recognizers.vlm import VideoEmbeddings, VideoLanguageModel, fill_prompts, fill_templates, require_distinct

from .checkpoints import PROMPTS, SIDE, SPACE, WIDTH, videos


def total(embeddings: VideoEmbeddings) -> Tensor:
    """One number in which every embedding has a part."""
    return torch.stack([part.square().mean() for part in embeddings]).sum()


def test_one_interface(model: VideoLanguageModel) -> None:
    patch, frame, video = model.embed_video(videos())
    text = model.embed_text(PROMPTS)
    assert model.clip == (8, SIDE, SIDE) and model.grid == (2, 2)
    assert patch.shape == (2, 8, 4, WIDTH) and frame.shape == (2, 8, WIDTH) and video.shape == (2, SPACE)
    assert text.shape == (3, SPACE)
    logits = model.zero_shot(videos(), PROMPTS)
    assert logits.shape == (2, 3)
    assert torch.equal(model.match(model.embed_video(videos()), text), logits)
    assert logits.abs().max() <= model.scale * (1 + 1e-6)
    assert logits.std() > 1e-4  # neither all clips nor all prompts are one
    assert "8 frames" in model.summary and "\n" not in model.summary


def test_frozen_by_one_bit(model: VideoLanguageModel) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    anonymizer = nn.Conv3d(3, 3, 1)
    started = anonymizer.weight.detach().clone()
    together = nn.ModuleDict({"anonymizer": anonymizer, "model": model})
    together.train()
    model.train()
    model.requires_grad_(True)
    optimizer = torch.optim.SGD(
        [p for p in together.parameters() if p.requires_grad], 0.5, momentum=0.9, weight_decay=0.1
    )

    clip = videos()
    changed = anonymizer(clip.transpose(1, 2)).transpose(1, 2)
    logits = model.zero_shot(changed, PROMPTS)
    (total(model.embed_video(changed)) + logits.square().mean()).backward()
    optimizer.step()

    assert not torch.equal(anonymizer.weight, started)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in model.parameters())


def test_it_stays_in_eval_mode(model: VideoLanguageModel) -> None:
    first = model.zero_shot(videos(), PROMPTS)
    nn.Sequential(model).train()
    assert not any(module.training for module in model.modules())
    assert torch.equal(model.zero_shot(videos(), PROMPTS), first)  # dropout would show


def gradient(model: VideoLanguageModel, checkpointing: bool) -> tuple[Tensor, int]:
    """The gradient of all embeddings and logits at the pixels, and how many numbers the graph kept for it."""
    kept = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel()
        return tensor

    clip = videos().requires_grad_()
    model.checkpointing = checkpointing
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            embeddings = model.embed_video(clip)
            loss = total(embeddings) + model.match(embeddings, model.embed_text(PROMPTS)).square().mean()
        loss.backward()
    finally:
        model.checkpointing = True
    assert clip.grad is not None
    return clip.grad, kept


def test_gradients_reach_every_pixel_and_checkpointing_only_saves_memory(model: VideoLanguageModel) -> None:
    assert model.checkpointing
    saved, little = gradient(model, checkpointing=True)
    plain, much = gradient(model, checkpointing=False)
    assert (saved != 0).float().mean() > 0.99
    torch.testing.assert_close(saved, plain, rtol=1e-5, atol=1e-6 * plain.abs().max().item())
    assert little < 0.6 * much


def test_the_gradient_is_that_of_the_pixels(model: VideoLanguageModel) -> None:
    clip, generator = videos(1), torch.Generator().manual_seed(5)
    direction = torch.randn(clip.shape, generator=generator)
    direction /= direction.norm()
    moving = clip.clone().requires_grad_()
    total(model.embed_video(moving)).backward()
    assert moving.grad is not None
    step = 0.05
    with torch.no_grad():
        ahead, behind = (total(model.embed_video(clip + sign * step * direction)) for sign in (1, -1))
    slope = (ahead - behind) / (2 * step)
    assert (moving.grad * direction).sum().item() == pytest.approx(slope.item(), rel=0.05, abs=1e-5)


def test_trap_4_a_clip_does_not_know_its_batch_mates(model: VideoLanguageModel) -> None:
    clips = videos(3)
    together, alone = model.embed_video(clips), model.embed_video(clips[1:2])
    for many, one in zip(together, alone, strict=True):
        torch.testing.assert_close(many[1:2], one, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        model.zero_shot(clips, PROMPTS)[1:2], model.zero_shot(clips[1:2], PROMPTS), rtol=1e-4, atol=1e-4
    )
    # Nor a prompt the other prompts, however long these are.
    torch.testing.assert_close(model.embed_text(PROMPTS)[:1], model.embed_text(PROMPTS[:1]), rtol=1e-4, atol=1e-5)


def test_trap_1_frames_keep_their_own_colours(model: VideoLanguageModel) -> None:
    clips = videos()
    changed = clips.clone()
    changed[1, 5] = changed[1, 5].flip(0)  # red and blue of one frame change places
    before, after = model.embed_video(clips), model.embed_video(changed)
    moved = (after.frame - before.frame).norm(dim=2) / before.frame.norm(dim=2)
    assert moved[1, 5] > 1e-3
    # The frame before may move as far, where a model sees how frames change.
    assert moved[1, 4:6].max() == moved.max() and moved[1, 5] > moved[1, [0, 1, 2, 3, 6, 7]].max()
    assert moved[0].max() == 0


@pytest.mark.parametrize(
    ("shape", "named"),
    [
        # Two clips of four frames are eight frames: X-CLIP would take them for one clip.
        ((2, 4, 3, SIDE, SIDE), r"\(8, 3, 32, 32\), not \(4, 3, 32, 32\)"),
        ((1, 16, 3, SIDE, SIDE), r"not \(16, 3, 32, 32\)"),
        ((1, 8, 3, SIDE, 2 * SIDE), r"not \(8, 3, 32, 64\)"),
        ((1, 3, 8, SIDE, SIDE), r"not \(3, 8, 32, 32\)"),
        ((8, 3, SIDE, SIDE), r"not \(3, 32, 32\)"),
    ],
)
def test_clips_that_do_not_fit_are_refused(model: VideoLanguageModel, shape: tuple[int, ...], named: str) -> None:
    with pytest.raises(SfumatoError, match=named):
        model.embed_video(torch.rand(shape))
    with pytest.raises(SfumatoError, match=named):
        model.zero_shot(torch.rand(shape), PROMPTS)


@pytest.mark.parametrize("prompts", [[], "a person waves"])
def test_prompts_are_a_list_of_sentences(model: VideoLanguageModel, prompts: list[str]) -> None:
    with pytest.raises(SfumatoError, match="no prompts"):
        model.embed_text(prompts)


def test_a_grey_of_the_mean_is_nought_inside(model: VideoLanguageModel) -> None:
    mean = model.mean.expand(1, 8, 3, SIDE, SIDE)
    found, expected = model.embed_video(mean), model.encode_video(torch.zeros(1, 8, 3, SIDE, SIDE))
    torch.testing.assert_close(found.video, expected.video)
    brighter = model.embed_video(mean + model.std)
    torch.testing.assert_close(brighter.video, model.encode_video(torch.ones(1, 8, 3, SIDE, SIDE)).video)


def test_cosines_are_computed_in_float32(model: VideoLanguageModel) -> None:
    embeddings, text = model.embed_video(videos()), model.embed_text(PROMPTS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = model.match(embeddings, text)
    assert cast.dtype == torch.float32
    if "video-specific" not in model.summary:  # X-CLIP computes its prompts there, in the precision asked for
        assert torch.equal(cast, model.match(embeddings, text))


def test_fill_prompts() -> None:
    assert fill_prompts("a person {}, {}", ["waves", "{} jumps"]) == [
        "a person waves, waves",
        "a person {} jumps, {} jumps",
    ]
    assert fill_prompts("{}", []) == []
    with pytest.raises(SfumatoError, match="'a person' has no place for the label"):
        fill_prompts("a person", ["waves"])
    with pytest.raises(SfumatoError, match="'Brush  hair' and 'brush hair' are the same"):
        fill_prompts("a person {}", ["Brush  hair", "wave", "brush hair"])
    with pytest.raises(SfumatoError, match="empty"):
        fill_prompts("a person {}", ["wave", " "])


def test_fill_templates() -> None:
    assert fill_templates(["a {}", "b {}"], ["x", "y"]) == [["a x", "a y"], ["b x", "b y"]]
    with pytest.raises(SfumatoError, match=r"the templates 'a {}' and ' A {}' are the same: give every template once"):
        fill_templates(["a {}", "b {}", " A {}"], ["x"])
    with pytest.raises(SfumatoError, match="the template 'b' has no place"):
        fill_templates(["a {}", "b"], ["x"])


def test_prompts_that_a_model_reads_alike_are_refused(model: VideoLanguageModel) -> None:
    require_distinct(model, PROMPTS)
    assert model.unknown_words(PROMPTS) == ()
    with pytest.raises(SfumatoError) as error:
        require_distinct(model, [*PROMPTS, "a  person JUMPS", PROMPTS[0]])
    assert error.value.what == "the vision-language model cannot tell 'a person jumps' from 'a  person JUMPS'"
    assert "describe the actions" in error.value.next_step


@pytest.mark.parametrize("model", ["small"], indirect=True)
def test_words_that_a_model_does_not_know_are_named_where_they_make_prompts_alike(model: VideoLanguageModel) -> None:
    require_distinct(model, ["a person kick", "a kick person", "someone pull", "waves"])  # unknown, and yet different
    with pytest.raises(
        SfumatoError, match="'a person kick' from 'a person pull', for it does not know the words kick, pu"
    ):
        require_distinct(model, ["a person waves", "a person kick", "a person pull", "a person push"])
    many = [f"a person word{letter}" for letter in "abcdefghijklmnop"]
    with pytest.raises(SfumatoError, match=r"the words worda, .*, wordl and 4 more: describe"):
        require_distinct(model, many)


@pytest.mark.parametrize("path", sorted(Path(vlm.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_heavy_libraries_are_loaded_only_when_needed(path: Path) -> None:
    named = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
    roots = {(getattr(node, "module", None) or node.names[0].name).partition(".")[0] for node in named}
    assert roots & {"transformers", "safetensors", "huggingface_hub"} == set()


def test_scale_times_cosine(model: VideoLanguageModel) -> None:
    if "video-specific" in model.summary:
        pytest.skip("X-CLIP's prompts depend on the clip: see test_xclip.py")
    video, text = model.embed_video(videos()).video, model.embed_text(PROMPTS)
    expected = model.scale * F.normalize(video, dim=1) @ F.normalize(text, dim=1).T
    torch.testing.assert_close(model.zero_shot(videos(), PROMPTS), expected)
