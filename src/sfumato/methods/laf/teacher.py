"""The frozen vision-language model that stands in for all labels: found by name, and refused where clips do not fit it."""

from __future__ import annotations

import math

import torch

from sfumato.errors import SfumatoError, counted
from sfumato.recognizers.vlm import VideoLanguageModel, load_vlm
from sfumato.training.bank import Bank

LARGE = 20_000_000  # weights; what a smaller model computes on the way fits beside it


def load_teacher(name: str) -> VideoLanguageModel:
    """The model that `--set vlm=` names, frozen.

    >>> load_teacher("xclip:microsoft/xclip-base-patch16").clip  # doctest: +SKIP
    (8, 224, 224)
    """
    if not name:
        raise SfumatoError(
            "no vision-language model is named",
            "add --set vlm=vlm (ships, for theatre:small), vlm=FOLDER, vlm=xclip:FOLDER_OR_ID or vlm=actionclip:…",
        )  # fmt: skip
    vlm = load_vlm(name)
    vlm.checkpointing = sum(weights.numel() for weights in vlm.parameters()) >= LARGE  # to compute all twice is slow
    return vlm


def require_shape(vlm: VideoLanguageModel, clip: tuple[int, int, int], name: str) -> None:
    """Refuse a model made for other clips than those (frames, height, width) of the data of that name.

    >>> require_shape(load_teacher("vlm"), (8, 64, 64), "theatre:small")
    """
    if vlm.clip != tuple(clip):
        wanted, side, breadth = vlm.clip
        frames, height, width = clip
        raise SfumatoError(
            f"the vision-language model takes {counted(wanted, 'frame')} of {side}×{breadth}, and the clips of {name} have "
            f"{frames} of {height}×{width}",
            "name a model made for such clips, or clips made for it (such as manifest:index.csv?frames=8&size=224)",
        )


@torch.no_grad()
def require_fit(vlm: VideoLanguageModel, bank: Bank, device: torch.device) -> None:
    """Refuse a model made for other clips than the bank's, or one whose embeddings are not laid out as L_action takes them.

    >>> require_fit(load_teacher("runs/vlm"), banks.action, CPU)  # doctest: +SKIP
    """
    frames, _, height, width = bank.pixels.shape[1:]
    require_shape(vlm, (frames, height, width), bank.name)
    found = vlm.embed_video(bank.pixels[:1].to(device).float() / 255)
    depth = found.frame.shape[-1]
    expected = {"patch": (1, frames, math.prod(vlm.grid), depth), "frame": (1, frames, depth)}
    for level, shape in expected.items():
        given = tuple(getattr(found, level).shape)
        if given != shape:
            raise SfumatoError(
                f"the vision-language model's {level} embeddings of one clip are {given}, not {shape}",
                "use a model with one [CLS] token for every frame and one token for every patch",
            )
