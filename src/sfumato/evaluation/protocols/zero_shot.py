"""The *zero-shot* protocol (LaF-Privacy section 4.2): nobody learns what anonymized actions look like.

Anonymized video goes as it is into a frozen vision-language model, which compares it with one sentence per action. Privacy
is attacked as in the known protocol, by fresh attackers who do learn. The model may be another than the anonymizer was
trained with: that is the paper's cross-VLM setting (its Table 4).
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.anonymizers import label
from sfumato.anonymizers.base import Anonymizer
from sfumato.anonymizers.streaming import resized
from sfumato.datasets.base import Part, VideoDataset
from sfumato.errors import SfumatoError, counted
from sfumato.evaluation.admission import require_actions
from sfumato.evaluation.exam import Answers, Exam, asked, truth
from sfumato.evaluation.protocols.known import UTILITY, JudgeConfig, KnownProtocol
from sfumato.recognizers.vlm import VideoLanguageModel, fill_templates, load_vlm, require_distinct, told_unknown
from sfumato.recognizers.weights import checksum
from sfumato.training.device import autocast

TEMPLATES = ("a person {}",)  # unless others are given; theatre's phrases fit into it
BATCH = 16  # clips that the model sees at once


class ZeroShotProtocol(KnownProtocol):
    """The known protocol with a frozen vision-language model, `config.vlm`, in the place of the fresh f'_T.

    Of several templates in `config.prompts` the logits are averaged.
    """

    name = "zero-shot"

    def __init__(self, dataset: VideoDataset, config: JudgeConfig, **rest: Any) -> None:
        if not config.vlm:
            raise SfumatoError(
                "zero-shot needs a vision-language model",
                "name one by --vlm: vlm (ships, for theatre:small-unseen), xclip:FOLDER_OR_ID, actionclip:FOLDER_OR_ID, or "
                "the folder of a small one",
            )
        if dataset.several_actions:
            raise SfumatoError(
                f"a clip of {dataset.name} may show several actions, and zero-shot names one", "use the protocol known"
            )
        require_actions(dataset)  # before any of them is embedded
        self.templates = config.prompts or TEMPLATES
        prompts = fill_templates(self.templates, dataset.phrases())
        self.vlm = load_vlm(config.vlm)
        check_length(self.vlm, dataset)
        for sentences in prompts:
            require_distinct(self.vlm, sentences)
        with torch.inference_mode():
            # Embedded once, and before the model moves: what it makes of them also tells its tokenizer from others.
            self.text = torch.stack([self.vlm.encode_text(sentences) for sentences in prompts])
        self._digest = _digest(self.vlm, self.text)
        super().__init__(dataset, config, **rest)
        self.notes.append(
            f"the action is read zero-shot, without any training, by a {self.vlm.summary}; asked: "
            + ", ".join(f"'{template}'" for template in self.templates)
        )
        given, taken = (dataset.shape.height, dataset.shape.width), self.vlm.clip[1:]
        if given != taken:
            sizes = " and ".join("×".join(map(str, size)) for size in (given, taken))
            self.notes.append(
                f"the model's frames have another size than the clips' ({sizes}): they are resized for it"
            )
        if unknown := self.vlm.unknown_words([sentence for sentences in prompts for sentence in sentences]):
            self.notes.append(told_unknown(unknown))

    def recognizer(self, exam: Exam) -> str:
        return f"{self.vlm.summary} ({self._digest[:8]})" if exam == UTILITY else super().recognizer(exam)

    def _who(self, exam: Exam) -> dict[str, Any]:
        return {"zero-shot": self._digest} if exam == UTILITY else super()._who(exam)

    def _key(self, exam: Exam, anonymizer: Anonymizer, seed: int) -> Path:
        # Nothing is drawn at random where nothing is trained.
        return super()._key(exam, anonymizer, 0 if exam == UTILITY else seed)

    def _sit(self, exam: Exam, anonymizer: Anonymizer, pixels: Tensor, seed: int) -> Answers:
        if exam != UTILITY:
            return super()._sit(exam, anonymizer, pixels, seed)
        self.watch.status(f"{label(anonymizer)}: {exam.name}, zero-shot")
        started = time.perf_counter()

        def part(name: Part) -> tuple[np.ndarray, np.ndarray]:
            clips = asked(exam, self.dataset, name)
            shares = zero_shot(self.vlm, self.material.part(pixels, clips), self.text, self.device)
            return shares.numpy(), truth(exam, self.dataset.labels(clips)).numpy()

        return Answers(*part("val"), *part("test"), np.empty(0), time.perf_counter() - started)


def check_length(vlm: VideoLanguageModel, dataset: VideoDataset) -> None:
    """Refuse clips with more or fewer frames than the model takes; frames of another size are resized.

    >>> check_length(load_vlm("xclip:microsoft/xclip-base-patch16"), open_dataset("theatre:small"))  # doctest: +SKIP
    """
    shape, (frames, height, width) = dataset.shape, vlm.clip
    if shape.frames != frames:
        given = (shape.frames, 3, shape.height, shape.width)
        raise SfumatoError(
            f"the vision-language model takes clips of (frames, colours, height, width) {(frames, 3, height, width)}, "
            f"and those of {dataset.name} are {given}",
            f"give data in clips of {counted(frames, 'frame')}, or name a model made for {shape.frames}",
        )


@torch.inference_mode()
def zero_shot(vlm: VideoLanguageModel, pixels: Tensor, text: Tensor, device: torch.device) -> Tensor:
    """Probabilities (N, actions) on the CPU: logits averaged over templates, shares averaged over a video's views.

    pixels: uint8 (N, views, T, 3, H, W), brought to the size the model takes; text: (templates, actions, E).

    >>> zero_shot(vlm, clips.pixels, vlm.embed_text(prompts)[None], torch.device("cpu"))  # doctest: +SKIP
    """
    vlm, text = vlm.to(device), text.to(device)
    views, shares = pixels.flatten(0, 1), []
    for chunk in views.split(BATCH):
        frames = resized(chunk.to(device).flatten(0, 1).float() / 255, vlm.clip[1:]).clamp(0, 1)
        with autocast(device):
            seen = vlm.embed_video(frames.unflatten(0, chunk.shape[:2]))
            logits = torch.stack([vlm.match(seen, prompts).float() for prompts in text]).mean(0)
        shares.append(logits.softmax(1).cpu())
    return torch.cat(shares).unflatten(0, pixels.shape[:2]).mean(1)


def _digest(vlm: VideoLanguageModel, text: Tensor) -> str:
    """What the answers depend on: weights, the normalisation of pixels, and what became of the prompts."""
    found = hashlib.sha256(f"{vlm.summary} {vlm.clip} {checksum(vlm)}".encode())
    found.update(text.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
