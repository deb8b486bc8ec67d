"""MoCo: InfoNCE against a queue of keys from a slowly following copy of the encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.objectives.contrastive import cosines, share_nearest


class KeyQueue(nn.Module):
    """The last `size` keys, each `width` wide: the negatives. Part of the state_dict, so that a resumed run has them.

    >>> queue = KeyQueue(4096, 128)
    >>> queue.push(keys, videos)                               # from earlier batches
    >>> loss, accuracy = queue.contrast(query, key, videos, 0.1)
    """

    keys: Tensor
    videos: Tensor
    filled: Tensor
    next: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(size, width))
        self.register_buffer("videos", torch.zeros(size, dtype=torch.long))  # of which video each key is
        self.register_buffer("filled", torch.tensor(0))  # how many of `keys` have been pushed yet
        self.register_buffer("next", torch.tensor(0))  # where the next key goes: the oldest one, once all are filled

    def contrast(self, query: Tensor, key: Tensor, videos: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """InfoNCE, and the share of queries that are nearest to their own key; chance is 1 / (1 + filled).

        query, key: (N, D), row i of both from the video of that number in `videos` (N,), whose older keys are no negatives.
        Only the query has a gradient: the key's encoder follows.
        """
        filled = int(self.filled)
        if filled == 0:
            raise SfumatoError("MoCo's queue is empty, so there are no negatives", "push a batch of keys first")
        positive = F.cosine_similarity(query.float(), key.detach().float(), dim=1)
        negatives = cosines(query, self.keys[:filled])
        negatives = negatives.masked_fill(videos[:, None] == self.videos[:filled], -torch.inf)
        similarities = torch.cat([positive[:, None], negatives], dim=1)
        positives = torch.zeros(len(query), dtype=torch.long, device=query.device)
        loss = F.cross_entropy(similarities / temperature, positives)
        return loss, share_nearest(similarities.detach(), positives)

    @torch.no_grad()
    def push(self, keys: Tensor, videos: Tensor) -> None:
        """Let keys (N, D) of those videos (N,) take the place of the oldest ones, round the end of the queue where needed."""
        size = len(self.keys)
        keys = F.normalize(keys[-size:].float(), dim=1)  # of more keys than there is room for, the newest stay
        places = (self.next + torch.arange(len(keys), device=self.keys.device)) % size
        self.keys[places], self.videos[places] = keys, videos[-size:]
        self.filled.add_(len(keys)).clamp_(max=size)
        self.next.add_(len(keys)).remainder_(size)


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, momentum: float) -> None:
    """Move every parameter of `target` a little towards `source`: θ_k ← m·θ_k + (1 − m)·θ_q. Buffers are copied.

    >>> follow(key_encoder, query_encoder, 0.999)
    """
    for slow, fast in zip(target.parameters(), source.parameters(), strict=True):
        slow.lerp_(fast, 1 - momentum)
    for copy, original in zip(target.buffers(), source.buffers(), strict=True):
        copy.copy_(original)
