"""Frozen video vision-language models: X-CLIP, ActionCLIP, and a small one of our own, behind one interface."""

from __future__ import annotations

from sfumato.recognizers.vlm.actionclip import ActionCLIP
from sfumato.recognizers.vlm.base import VideoEmbeddings, VideoLanguageModel, told_unknown
from sfumato.recognizers.vlm.prompts import fill_prompts, fill_templates, require_distinct
from sfumato.recognizers.vlm.small import SmallVLM, SmallVLMConfig
from sfumato.recognizers.vlm.storage import find_vlm, load_vlm, save_vlm
from sfumato.recognizers.vlm.words import words_of
from sfumato.recognizers.vlm.xclip import XCLIP

__all__ = [
    "XCLIP",
    "ActionCLIP",
    "SmallVLM",
    "SmallVLMConfig",
    "VideoEmbeddings",
    "VideoLanguageModel",
    "fill_prompts",
    "fill_templates",
    "find_vlm",
    "load_vlm",
    "require_distinct",
    "save_vlm",
    "told_unknown",
    "words_of",
]
