"""X-CLIP, as `transformers` builds it: CLIP whose frames send each other messages, and prompts that look at the clip.

Ni et al., "Expanding Language-Image Pretrained Models for General Video Recognition", ECCV 2022.
"""

from __future__ import annotations

from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from sfumato.errors import counted
from sfumato.recognizers.base import IMAGENET
from sfumato.recognizers.published import load_model, local_folder
from sfumato.recognizers.vlm.base import VideoEmbeddings
from sfumato.recognizers.vlm.published import PublishedModel


class XCLIP(PublishedModel):
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
        super().__init__(folder, model, vision.num_frames, IMAGENET)
        seen = f"{counted(vision.num_frames, 'frame')} of {side}×{side} in patches of {patch}"
        self.summary = f"X-CLIP, {seen}, video-specific prompts"
        self.freeze()

    def encode_video(self, pixels: Tensor) -> VideoEmbeddings:
        patch, frame = self.encode_frames(pixels)
        return VideoEmbeddings(patch, frame, self.model.mit(self.model.visual_projection(frame))[1])

    def match(self, embeddings: VideoEmbeddings, text: Tensor) -> Tensor:
        """Logits (B, P). Every prompt first looks at the clip's patches, averaged over time, and is shifted by them."""
        patches = self.model.prompts_visual_layernorm(embeddings.patch) @ self.model.prompts_visual_projection
        prompts = text.expand(len(patches), -1, -1)
        prompts = prompts + self.model.prompts_generator(prompts, patches.mean(1))
        return self.scale * F.cosine_similarity(embeddings.video.float()[:, None], prompts.float(), dim=2)
