"""What the CLIP family shares: a published checkpoint's two models and its tokenizer.

`transformers` makes a tokenizer of two tokens where a checkpoint has none, which would give embeddings that mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.recognizers.base import Pixels
from sfumato.recognizers.published import read_pixels
from sfumato.recognizers.vlm.base import VideoLanguageModel, recompute


class Tokenizer:
    """CLIP's tokenizer out of the checkpoint's own files: prompts to what a text model takes.

    >>> Tokenizer(Path("xclip-base-patch16"), model.config.text_config)(["a person waves"])  # doctest: +SKIP
    """

    def __init__(self, folder: Path, text: Any) -> None:
        from transformers import CLIPTokenizerFast

        if not any(
            all((folder / f).is_file() for f in files) for files in (["tokenizer.json"], ["vocab.json", "merges.txt"])
        ):
            raise SfumatoError(
                f"'{folder}' has no tokenizer", "put its tokenizer.json, or vocab.json and merges.txt, there"
            )
        try:
            self.tokenizer = CLIPTokenizerFast.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # as with the weights
            raise SfumatoError(f"cannot read the tokenizer in '{folder}'", "download it again") from error
        self.longest: int = text.max_position_embeddings
        if len(self.tokenizer) > text.vocab_size:
            raise SfumatoError(
                f"the tokenizer in '{folder}' knows {len(self.tokenizer)} tokens, its text model {text.vocab_size}",
                "use the tokenizer that belongs to the model",
            )

    def rows(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """The numbers of each prompt's tokens, without padding."""
        return [tuple(self.tokenizer(prompt).input_ids) for prompt in prompts]

    def __call__(self, prompts: Sequence[str]) -> Any:
        for prompt, row in zip(prompts, self.rows(prompts), strict=True):
            if (length := len(row)) > self.longest:
                raise SfumatoError(
                    f"the prompt '{prompt[:40]}…' has {length} tokens, and the text model reads {self.longest}",
                    "shorten it",
                )
        return self.tokenizer(list(prompts), padding=True, return_tensors="pt")


class PublishedModel(VideoLanguageModel):
    """What the CLIP family shares: frames through CLIP's vision model, prompts through its text model."""

    def __init__(self, folder: Path, model: Any, frames: int, pixels: Pixels) -> None:
        vision = model.config.vision_config
        super().__init__((frames, vision.image_size, vision.image_size), vision.patch_size, read_pixels(folder, pixels))
        self.model = model
        self.tokenizer = Tokenizer(folder, model.config.text_config)
        recompute(model.vision_model.encoder.layers)

    @property
    def scale(self) -> Tensor:
        scale: Tensor = self.model.logit_scale.exp()
        return scale

    def encode_frames(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, 3, H, W) to patches (B, T, N, D) and frames (B, T, D)."""
        seen = self.model.vision_model(pixel_values=pixels.flatten(0, 1))
        patch, frame = seen.last_hidden_state[:, 1:], seen.pooler_output
        return patch.unflatten(0, pixels.shape[:2]), frame.unflatten(0, pixels.shape[:2])

    def encode_text(self, prompts: Sequence[str]) -> Tensor:
        read = self.model.text_model(**self.tokenizer(prompts).to(self.mean.device))
        text: Tensor = self.model.text_projection(read.pooler_output)
        return text

    def tokens(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """The numbers of the tokens; parts of words, so that every word is known."""
        return self.tokenizer.rows(prompts)
