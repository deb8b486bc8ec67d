"""X-CLIP, as `transformers` builds it: CLIP whose frames send each other messages, and prompts that look at the clip.

Ni et al., "Expanding Language-Image Pretrained Models for General Video Recognition", ECCV 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from sfumato.recognizers.base import IMAGENET
from sfumato.recognizers.vlm.base import VideoEmbeddings, VideoLanguageModel, recompute
from sfumato.recognizers.vlm.published import Tokenizer, load_model, local_folder, read_pixels


class XCLIP(VideoLanguageModel):
    """A published X-CLIP, frozen. `source` is a checkpoint's folder or its id on the Hugging Face Hub.

    >>> XCLIP("microsoft/xclip-base-patch16").clip  # doctest: +SKIP
    (8, 224, 224)
    """

    def __init__(self, source: str | Path) -> None:
        from transformers import XCLIPModel

        folder = local_folder(source)
        model = load_model(XCLIPModel, folder)
        vision = model.config.vision_config
        side, patch = vision.image_size, vision.patch_size
        # Unlike CLIP it was trained on pixels normalised as for ImageNet; its preprocessor says the same.
        super().__init__((vision.num_frames, side, side), patch, read_pixels(folder, IMAGENET))
        self.model = model
        self.tokenizer = Tokenizer(folder, model.config.text_config)
        recompute(model.vision_model.encoder.layers)
        self.summary = (
            f"X-CLIP, {vision.num_frames} frames of {side}×{side} in patches of {patch}, video-specific prompts"
        )
        self.freeze()

    @property
    def scale(self) -> Tensor:
        scale: Tensor = self.model.logit_scale.exp()
        return scale

    def encode_video(self, pixels: Tensor) -> VideoEmbeddings:
        seen = self.model.vision_model(pixel_values=pixels.flatten(0, 1))
        frame = seen.pooler_output.unflatten(0, pixels.shape[:2])
        patch = seen.last_hidden_state[:, 1:].unflatten(0, pixels.shape[:2])
        return VideoEmbeddings(patch, frame, self.model.mit(self.model.visual_projection(frame))[1])

    def encode_text(self, prompts: Sequence[str]) -> Tensor:
        read = self.model.text_model(**self.tokenizer(prompts).to(self.mean.device))
        text: Tensor = self.model.text_projection(read.pooler_output)
        return text

    def match(self, embeddings: VideoEmbeddings, text: Tensor) -> Tensor:
        """Logits (B, P). Every prompt first looks at the clip's patches, averaged over time, and is shifted by them."""
        patches = self.model.prompts_visual_layernorm(embeddings.patch) @ self.model.prompts_visual_projection
        prompts = text.expand(len(patches), -1, -1)
        prompts = prompts + self.model.prompts_generator(prompts, patches.mean(1))
        return self.scale * F.cosine_similarity(embeddings.video.float()[:, None], prompts.float(), dim=2)
