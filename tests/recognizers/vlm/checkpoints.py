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
    "hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3, "image_size": SIDE,
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


def in_openais_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A CLIP of `transformers` under the names of OpenAI's own code, put together by hand."""
    found = {
        "logit_scale": state["logit_scale"],
        "visual.class_embedding": state["vision_model.embeddings.class_embedding"],
        "visual.positional_embedding": state["vision_model.embeddings.position_embedding.weight"],
        "visual.conv1.weight": state["vision_model.embeddings.patch_embedding.weight"],
        "visual.proj": state["visual_projection.weight"].T,
        "token_embedding.weight": state["text_model.embeddings.token_embedding.weight"],
        "positional_embedding": state["text_model.embeddings.position_embedding.weight"],
        "text_projection": state["text_projection.weight"].T,
    }
    parts = {
        "attn.out_proj": "self_attn.out_proj", "ln_1": "layer_norm1", "ln_2": "layer_norm2", "mlp.c_fc": "mlp.fc1",
        "mlp.c_proj": "mlp.fc2",
    }  # fmt: skip
    for kind in ("weight", "bias"):
        found[f"visual.ln_pre.{kind}"] = state[f"vision_model.pre_layrnorm.{kind}"]
        found[f"visual.ln_post.{kind}"] = state[f"vision_model.post_layernorm.{kind}"]
        found[f"ln_final.{kind}"] = state[f"text_model.final_layer_norm.{kind}"]
        for theirs, ours, layers in (
            ("visual.transformer", "vision_model", VISION["num_hidden_layers"]),
            ("transformer", "text_model", TEXT["num_hidden_layers"]),
        ):
            for number in range(layers):
                into, layer = f"{theirs}.resblocks.{number}.", f"{ours}.encoder.layers.{number}."
                three = [state[f"{layer}self_attn.{part}_proj.{kind}"] for part in "qkv"]
                found[f"{into}attn.in_proj_{kind}"] = torch.cat(three)
                found |= {f"{into}{a}.{kind}": state[f"{layer}{b}.{kind}"] for a, b in parts.items()}
    assert sum(value.numel() for value in found.values()) == sum(value.numel() for value in state.values())
    return found


def write_original(folder: Path, temporal: bool = True) -> Path:
    """The file of ActionCLIP's authors, its CLIP unlike the folder's before; and the same as `transformers` would have it."""
    from transformers import CLIPModel

    model = CLIPModel.from_pretrained(folder)
    torch.manual_seed(2)
    for weights in model.parameters():  # biases and norms too
        weights.data += 0.1 * torch.randn_like(weights)
    model.save_pretrained(folder)
    fusion = write_temporal(folder) if temporal else {}
    told = {"epoch": 9, "model_state_dict": in_openais_names(model.state_dict()), "fusion_model_state_dict": fusion}
    torch.save(
        {**told, "optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 5e-6}]}}, folder / "actionclip.pt"
    )
    return folder / "actionclip.pt"


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
