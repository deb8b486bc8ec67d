"""LaF-Privacy's losses (its section 3.4, which numbers no equation): look different, mean the same, show little.

L_total = λ_action·L_action − λ_vis·L_visual + λ_mask·L_mask (3.4.4). **L_visual has a minus**: it is the difference that is
wanted, and is to be made large. Everything else here is to be made small.

X is the video, X' what the anonymizer makes of it, M the mask at full resolution, 1 where a patch is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.objectives.ssim import ssim

VISUAL_KINDS = ("mse+ssim", "ssim", "mse", "l1+ssim")
LEVELS = ("patch", "frame", "video")
NOTHING = 1e-6  # the least that a mask adds up to: nothing is divided by 0


def masked_mse(video: Tensor, output: Tensor, mask: Tensor) -> Tensor:
    """MSE_mask(X, X', M) of section 3.4.1: Σ M·(X − X')² / Σ M in each clip, then the mean over clips.

    video, output: (B, T, 3, H, W); mask: M (B, T, 1, H, W), one value for the three colours, which count as three in Σ M
    too. Only kept patches count: one that is black is hidden already, and earns nothing. The paper's M is binary here, so
    that no gradient goes through it, and that is what to give: a soft M with its gradient would be taught to keep the
    patches that are changed most. A clip without a kept pixel counts 0.

    >>> masked_mse(torch.ones(1, 1, 3, 2, 2), torch.full((1, 1, 3, 2, 2), 0.5), torch.ones(1, 1, 1, 2, 2)).item()
    0.25
    """
    return _masked_mean((video.float() - output.float()) ** 2, mask)


def masked_l1(video: Tensor, output: Tensor, mask: Tensor) -> Tensor:
    """The same with |X − X'|, for the ablation L1+SSIM (section 4.5.1).

    >>> masked_l1(torch.ones(1, 1, 3, 2, 2), torch.full((1, 1, 3, 2, 2), 0.5), torch.ones(1, 1, 1, 2, 2)).item()
    0.5
    """
    return _masked_mean((video.float() - output.float()).abs(), mask)


def visual_loss(
    video: Tensor,
    output: Tensor,
    mask: Tensor,
    kind: str = "mse+ssim",
    *,
    pixel_weight: float = 1.0,
    ssim_weight: float = 1.0,
) -> Tensor:
    """L_visual of section 3.4.1, **to be maximised**: λ_mse·MSE_mask(X, X', M) + λ_ssim·(1 − SSIM(X, X')).

    How different X' looks: 0 where nothing was changed. On [0, 1] it has an end, 1 for MSE and L1 and 2 for 1 − SSIM, so
    that maximising it cannot run away. SSIM sees whole frames: there black patches do count as different.
    video, output, mask: as for `masked_mse`; kind: "mse+ssim" (the paper's), "ssim", "mse" or "l1+ssim" (Table 2);
    pixel_weight: λ_mse, also L1's; ssim_weight: λ_ssim.

    >>> loss = action - 0.5 * visual_loss(video, output, mask)
    """
    if kind not in VISUAL_KINDS:
        raise SfumatoError(f"there is no visual loss '{kind}'", f"use one of {', '.join(VISUAL_KINDS)}")
    parts = kind.split("+")
    loss = torch.zeros((), device=video.device)
    if "mse" in parts:
        loss = loss + pixel_weight * masked_mse(video, output, mask)
    if "l1" in parts:
        loss = loss + pixel_weight * masked_l1(video, output, mask)
    if "ssim" in parts:
        loss = loss + ssim_weight * (1 - ssim(video, output).mean())
    return loss


def mask_loss(mask: Tensor) -> Tensor:
    """L_mask of section 3.4.3, to be minimised: the mean of |M|, how much of a clip is shown; 1 for all of it.

    mask: with its gradient, (B, T, N) or at full resolution, which comes to the same, since patches are equally large. As
    scores are taken from their frame's mean, it cannot push them all down, and pushes nothing where they are equal: it
    makes them uneven, a few far above the mean and most a little below. Of the literal softmax over a frame's N patches
    it is 1/N, whatever they are, and has no gradient. Appendix B.4's loss of a fixed ratio α, the mean over frames of
    (share − α)², is `sparsification_loss([mask], α)`.

    >>> mask_loss(torch.tensor([[[1.0, 0.5, 0.0, 0.0]]])).item()
    0.375
    """
    return mask.float().abs().mean()


def embedding_loss(
    raw: Mapping[str, Tensor], anonymised: Mapping[str, Tensor], levels: Collection[str] = LEVELS
) -> Tensor:
    """L_action of section 3.4.2, to be minimised: the sum over `levels` of the MSE between y_X and y_X'.

    raw, anonymised: a frozen vision-language model's embeddings of X and of X' by level, each pair of one shape: "patch"
    (y^patch), "frame" (y^cls, the [CLS] token of each frame) and "video" (y^video). The raw ones are the goal and get no
    gradient. levels: those that count; leaving one out is an ablation of Table 2.

    >>> embedding_loss({"video": torch.zeros(1, 4)}, {"video": torch.full((1, 4), 0.5)}, levels=["video"]).item()
    0.25
    """
    if not levels or not set(levels) <= set(LEVELS):
        raise SfumatoError(f"{list(levels)} are no levels of embeddings", f"name some of {', '.join(LEVELS)}")
    return torch.stack([_mse(raw[level], anonymised[level]) for level in sorted(set(levels))]).sum()


def _mse(goal: Tensor, found: Tensor) -> Tensor:
    if goal.shape != found.shape:  # which PyTorch would stretch one to the other
        raise ValueError(f"embeddings of {tuple(goal.shape)} and of {tuple(found.shape)} cannot be compared")
    return F.mse_loss(found.float(), goal.detach().float())


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of (B, ...) under a mask in each clip, then over clips."""
    weights = mask.float().expand_as(values).flatten(1)
    return ((values.flatten(1) * weights).sum(1) / weights.sum(1).clamp(min=NOTHING)).mean()
