"""f_E: frozen video encoders, a clip to one vector; published ones, our own recognizers, and vision-language models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sfumato.anonymizers.streaming import resized
from sfumato.errors import SfumatoError
from sfumato.recognizers import RECOGNIZERS, level_of, load_weights, make_recognizer
from sfumato.recognizers.base import IMAGENET, Clip, Pixels, VideoRecognizer
from sfumato.recognizers.published import load_model, named_folder, read_object, read_pixels
from sfumato.recognizers.vlm import VideoLanguageModel, load_vlm
from sfumato.recognizers.weights import checksum
from sfumato.writing import read_checked, write_model


class Encoder(nn.Module, ABC):
    """Clips (B, T, 3, H, W), RGB in [0, 1], to features (B, D), D = `width`. Nothing in it learns, whatever `.train()` says.

    clip: the (T, H, W) it was made for: frames are resized to it (bilinear, antialiased), their number must fit.
    """

    width: int
    clip: Clip

    def __init__(self) -> None:
        super().__init__()
        self.eval().requires_grad_(False)

    @abstractmethod
    def encode(self, video: Tensor) -> Tensor:
        """(B, T, 3, H, W) in [0, 1] of exactly `clip` to (B, D)."""

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, 3, any H, any W) in [0, 1] to (B, D)."""
        frames, height, width = self.clip
        if video.ndim != 5 or video.shape[1:3] != (frames, 3):
            raise SfumatoError(
                f"this encoder takes clips of {frames} frames of 3 colours, not {tuple(video.shape[1:])}",
                "cut the videos into clips that fit",
            )
        fitting = resized(video.flatten(0, 1), (height, width)).clamp(0, 1)
        return self.encode(fitting.unflatten(0, video.shape[:2]))

    def train(self, mode: bool = True) -> Encoder:
        """Stays in eval mode: frozen means frozen."""
        return super().train(False)

    def fingerprint(self) -> str:
        """Of its weights and of the pixels it wants: features of other weights are other features.

        >>> load_encoder("videomae-base").fingerprint()  # doctest: +SKIP
        """
        return checksum(self)


def static_clips(frames: Tensor, length: int) -> Tensor:
    """Pictures as clips in which nothing moves: (B, 3, H, W) to (B, length, 3, H, W).

    >>> static_clips(torch.rand(2, 3, 8, 8), 16).shape
    torch.Size([2, 16, 3, 8, 8])
    """
    return frames[:, None].expand(-1, length, -1, -1, -1)


def load_encoder(source: str) -> Encoder:
    """`FOLDER` or a Hugging Face Hub id of VideoMAE, V-JEPA 2, TimeSformer or ViViT, or of an encoder that was
    trained here (`save_encoder`), or the name of one that comes with the project; `NAME:FILE`, a recognizer with its
    weights; a vision-language model as `load_vlm` names it.

    >>> load_encoder("MCG-NJU/videomae-base").width  # doctest: +SKIP
    768
    >>> load_encoder("r3d-18:r3d_18.pth").width  # doctest: +SKIP
    512
    """
    name, colon, file = source.partition(":")
    if colon and name in RECOGNIZERS:
        return RecognizerEncoder(name, Path(file))
    if colon and name in ("xclip", "actionclip"):
        return LanguageEncoder(load_vlm(source))
    folder = find_encoder(source)
    config = read_object(folder / "config.json")
    kind = config.get("model_type")
    if "encoder" in config:
        return _load_own(folder, config)
    if "vlm" in config or kind in ("xclip", "clip"):  # of the last two it says how to name them
        return LanguageEncoder(load_vlm(folder))
    if kind not in FAMILIES:
        raise SfumatoError(f"'{source}' holds a model of type '{kind}'", f"encoders are of type {', '.join(FAMILIES)}")
    return PublishedEncoder(folder, FAMILIES[kind])


def find_encoder(source: str) -> Path:
    """The folder of that name, on the shelf or anywhere else, or the Hub's files brought here.

    >>> find_encoder("encoder")  # doctest: +SKIP
    PosixPath('weights/encoder')
    """
    return named_folder(source, "encoder")


class RecognizerEncoder(Encoder):
    """What the head of a video recognizer sees. Frames are 112×112, 16 to a clip, unless told otherwise.

    >>> RecognizerEncoder("r3d-18", Path("r3d_18.pth"))  # doctest: +SKIP
    """

    def __init__(self, name: str, weights: Path, clip: Clip = (16, 112, 112), **options: Any) -> None:
        super().__init__()
        if level_of(name) != "video":
            raise SfumatoError(f"'{name}' looks at frames, not at clips", "choose a video recognizer")
        recognizer = make_recognizer(name, 1, clip=clip, **options)
        assert isinstance(recognizer, VideoRecognizer)
        load_weights(recognizer, weights, new_head=True)
        for parameter in recognizer.head.parameters():  # at random, and no part of the features: it must not name them
            nn.init.zeros_(parameter)
        self.network, self.clip, self.width = recognizer, clip, recognizer.feature_width
        self.eval().requires_grad_(False)

    def encode(self, video: Tensor) -> Tensor:
        """What the recognizer's head would see."""
        return self.network.features(video)


def save_encoder(network: VideoRecognizer, name: str, options: Mapping[str, Any], folder: str | Path) -> Path:
    """Write the recognizer of that name, made with these options, into `folder` for `load_encoder`; returns the folder.

    >>> save_encoder(make_recognizer("tiny-video", 10, clip=(8, 64, 64)), "tiny-video", {}, "encoder")  # doctest: +SKIP
    """
    from safetensors.torch import save as to_bytes

    weights = to_bytes({name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()})
    about = {"encoder": name, "clip": list(network.clip), "options": dict(options)}
    return write_model(Path(folder), ("model.safetensors", "config.json"), about, weights)


def _load_own(folder: Path, config: Mapping[str, Any]) -> RecognizerEncoder:
    match config:
        case {
            "encoder": str(name),
            "clip": [int(t), int(h), int(w)],
            "options": dict(options),
            "weights_sha256": str(known),
        }:
            path = folder / "model.safetensors"
        case _:
            raise SfumatoError(f"'{folder / 'config.json'}' does not describe an encoder", "save it with save_encoder")
    read_checked(path, known, "config.json")
    return RecognizerEncoder(name, path, (t, h, w), **options)


class LanguageEncoder(Encoder):
    """The video embedding of a vision-language model, in the space of its sentences.

    X-CLIP's own comparison lets a sentence look at the clip's patches first; here there are none, it is compared as it is.

    >>> LanguageEncoder(load_vlm("runs/vlm")).read(["a person waves"]).shape  # doctest: +SKIP
    torch.Size([1, 128])
    """

    def __init__(self, model: VideoLanguageModel) -> None:
        super().__init__()
        self.model, self.clip = model.freeze(), model.clip
        self.width = self.read([""]).shape[1]

    def encode(self, video: Tensor) -> Tensor:
        """y^video."""
        return self.model.embed_video(video).video

    @torch.inference_mode()
    def read(self, sentences: Sequence[str]) -> Tensor:
        """P sentences to (P, D), comparable with features by their cosine."""
        return self.model.embed_text(sentences).float().cpu()


class Family(NamedTuple):
    """How a family of `transformers` is asked: its class, its clip, its input's name, how its tokens become one vector."""

    model: str
    clip: Callable[[Any], Clip]
    argument: str
    pool: Callable[[Tensor], Tensor]
    options: dict[str, Any]


def _square(frames: int, side: int | tuple[int, int]) -> Clip:
    height, width = side if isinstance(side, tuple | list) else (side, side)
    return frames, height, width


def _mean_token(tokens: Tensor) -> Tensor:
    return tokens.mean(1)


def _first_token(tokens: Tensor) -> Tensor:
    return tokens[:, 0]


# VideoMAE and V-JEPA 2 have no [CLS] token.
FAMILIES = {
    "videomae": Family(
        "VideoMAEModel", lambda c: _square(c.num_frames, c.image_size), "pixel_values", _mean_token, {}
    ),
    "vjepa2": Family(
        "VJEPA2Model", lambda c: _square(c.frames_per_clip, c.crop_size), "pixel_values_videos", _mean_token,
        {"skip_predictor": True},
    ),
    "timesformer": Family(
        "TimesformerModel", lambda c: _square(c.num_frames, c.image_size), "pixel_values", _first_token, {}
    ),
    "vivit": Family("VivitModel", lambda c: _square(c.num_frames, c.image_size), "pixel_values", _first_token, {}),
}  # fmt: skip


class PublishedEncoder(Encoder):
    """A published transformer. Its tokens are pooled: the [CLS] token where there is one, else the mean of all."""

    mean: Tensor
    std: Tensor

    def __init__(self, folder: Path, family: Family) -> None:
        import transformers

        super().__init__()
        self.family = family
        self.model = load_model(getattr(transformers, family.model), folder)
        self.clip, self.width = family.clip(self.model.config), int(self.model.config.hidden_size)
        pixels: Pixels = read_pixels(folder, IMAGENET)
        self.register_buffer("mean", torch.tensor(pixels.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(pixels.std).view(3, 1, 1), persistent=False)
        self.eval().requires_grad_(False)

    def encode(self, video: Tensor) -> Tensor:
        """Normalised, through the transformer, pooled."""
        pixels = (video - self.mean) / self.std
        return self.family.pool(self.model(**{self.family.argument: pixels}, **self.family.options).last_hidden_state)
