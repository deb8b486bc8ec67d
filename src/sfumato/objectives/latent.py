"""SPLAVU's latent consistency: anonymized features stay near the encoder's own."""

from __future__ import annotations

from torch import Tensor


def latent_consistency(features: Tensor, anonymized: Tensor, mask: Tensor | None = None) -> Tensor:
    """L_LC (eq. 6): the mean over D of (f_E(x) − f_A(f_E(x)))², averaged over the clips that are there.

    features, anonymized: (B, S, D); mask: bool (B, S), all where it is left out. A scalar.

    >>> latent_consistency(torch.zeros(1, 1, 2), torch.tensor([[[1.0, 3.0]]])).item()
    5.0
    """
    apart = (features - anonymized).square().mean(-1)
    if mask is None:
        return apart.mean()
    return apart.masked_fill(~mask, 0).sum() / mask.sum().clamp(min=1)
