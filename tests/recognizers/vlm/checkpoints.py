"""Tiny checkpoints as the published ones lie on a disk: configuration, weights, tokenizer. And tiny clips for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig, VideoLanguageModel, load_vlm, save_vlm
from sfumato.recognizers.vlm.actionclip import TemporalTransformer

SIDE, PATCH, WIDTH, SPACE = 32, 16, 24, 16
PROMPTS = ["a person waves", "a person jumps", "someone sits down slowly"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Every letter, inside and at the end of a word, a few that belong together, and the end of a text as the highest number.
MERGES = ["p e", "pe r", "w a", "o n</w>"]
VOCABULARY = [
    *LETTERS, *(f"{letter}</w>" for letter in LETTERS), *(m.replace(" ", "") for m in MERGES), "<|startoftext|>", "<|endoftext|>",
]  # fmt: skip
END = len(VOCABULARY) - 1

# Dropout, so that a model in training mode would be noticed.
TEXT: dict[str, Any] = {
    "vocab_size": len(VOCABULARY), "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "max_position_embeddings": 30, "attention_dropout": 0.5,
    "bos_token_id": END - 1, "eos_token_id": END, "pad_token_id": END,
}  # fmt: skip
VISION: dict[str, Any] = {
    "hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": SIDE,
    "patch_size": PATCH, "attention_dropout": 0.5,
}  # fmt: skip
MIT = {"mit_hidden_size": SPACE, "mit_intermediate_size": 32, "mit_num_hidden_layers": 1, "mit_num_attention_heads": 2}
FAMILIES = ["xclip", "actionclip", "mean pooling", "small"]


def videos(count: int = 2, frames: int = 8, seed: int = 0) -> Tensor:
    return torch.rand(count, frames, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))


def write_tokenizer(folder: Path) -> None:
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(VOCABULARY)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *MERGES, ""]))


def write_xclip(folder: Path, **vision: Any) -> Path:
    from transformers import XCLIPConfig, XCLIPModel

    torch.manual_seed(0)
    config = XCLIPConfig(
        text_config=TEXT, vision_config={**VISION, **MIT, "num_frames": 8, **vision}, projection_dim=SPACE,
        prompt_num_attention_heads=2, prompt_alpha=0.7,
    )  # fmt: skip
    model = XCLIPModel(config)
    torch.nn.init.normal_(model.mit.position_embedding)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def write_clip(folder: Path) -> Path:
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    CLIPModel(CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=SPACE)).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def write_temporal(folder: Path, prefix: str = "", positions: int = 12) -> dict[str, Tensor]:
    torch.manual_seed(1)
    state = TemporalTransformer(SPACE, layers=2, heads=2, positions=positions).state_dict()
    # Biases and norms too, so that each of them would be missed.
    state = {name: value + 0.1 * torch.randn_like(value) for name, value in state.items()}
    save_file({prefix + name: value for name, value in state.items()}, folder / "temporal.safetensors")
    return state


def write_small(folder: Path) -> Path:
    torch.manual_seed(0)
    words = ("a", "down", "jumps", "person", "sits", "slowly", "someone", "waves")
    config = SmallVLMConfig((8, SIDE, SIDE), words, width=WIDTH, depth=2, text_width=16, text_depth=1, embedding=SPACE)
    return save_vlm(SmallVLM(config), folder)


def load_family(family: str, folder: Path) -> VideoLanguageModel:
    """Written to the disk, and loaded by the call a user makes."""
    if family == "small":
        return load_vlm(write_small(folder))
    if family == "xclip":
        return load_vlm(f"xclip:{write_xclip(folder)}")
    write_clip(folder)
    if family == "actionclip":
        write_temporal(folder)
    return load_vlm(f"actionclip:{folder}")
