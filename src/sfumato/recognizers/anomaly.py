"""MGFN: which part of a video is out of the ordinary, learnt from labels of whole videos alone.

After Chen et al., "MGFN: Magnitude-Contrastive Glance-and-Focus Network for Weakly-Supervised Video Anomaly Detection",
AAAI 2023; SPLAVU's utility head for anomalies (its Appendix B.5, SPEC.md section 7). A video is 32 segments. The longer a
segment's feature, its *magnitude*, the more it stands for its video: the few longest ones give the video's score.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.recognizers.layers import TransformerLayer, initialise_transformer

SEGMENTS = 32  # T
TOP = 3  # k: how many segments speak for their video
AMPLIFICATION = 0.1  # α of the feature amplification mechanism
NEIGHBOURS = 2  # a focus block sees as many segments on either side: a kernel of 5
GROWTH = 4  # of the feed-forward parts
DROPOUT = 0.7  # before the score, in training
MARGIN = 200.0
SMOOTHNESS_WEIGHT = 8e-4  # λ_1
SPARSITY_WEIGHT = 8e-3  # λ_2
CONTRAST_WEIGHT = 0.001  # λ_3
APART_WEIGHT = 0.001  # of L_an beside L_a and L_n: the margin's square is 40,000, theirs begin near 0


class Segments(NamedTuple):
    """What MGFN says of every segment: its score in (0, 1), and the magnitude of its feature; both (B, 32)."""

    scores: Tensor
    magnitudes: Tensor


class MGFN(nn.Module):
    """Features (B, S, D) of S clips in time order to a score for each of 32 segments; D = `width`.

    A stage of glance blocks, then two of focus blocks; `widths` and `depths` are the channels and the number of blocks of
    each. Nothing is normalised over the batch, so that a video's answer is its own, in training too (but for dropout).

    >>> MGFN(256)(torch.rand(2, 50, 256)).scores.shape
    torch.Size([2, 32])
    """

    def __init__(
        self, width: int, widths: tuple[int, int, int] = (64, 128, 1024), depths: tuple[int, int, int] = (3, 3, 2)
    ) -> None:
        super().__init__()
        self.width = width
        self.amplify = FeatureAmplification(width)
        stages: list[nn.Module] = []
        before = width
        for kind, channels, depth in zip((GlanceBlock, FocusBlock, FocusBlock), widths, depths, strict=True):
            stages += [
                _Convolution(before, channels, 3 if kind is GlanceBlock else 1),
                *(kind(channels) for _ in range(depth)),
            ]
            before = channels
        self.stages = nn.Sequential(*stages)
        self.norm = nn.LayerNorm(widths[-1])
        self.head = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(widths[-1], 1))
        initialise_transformer(self)
        self._begin_plain()

    def _begin_plain(self) -> None:
        """Attention and feed-forward parts add nothing at first: the longest features are then those of the input.

        Otherwise chance decides which segments speak for their video, and training often does not come back from that.
        """
        for block in self.stages:
            if isinstance(block, _Block):
                nn.init.zeros_(block.attention.project.weight)
                nn.init.zeros_(block.narrow.convolve.weight)

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Segments:
        """(B, S, D) to 32 scores and magnitudes a video; what stands where `mask` (B, S) is False has no influence."""
        if features.ndim != 3 or features.shape[-1] != self.width:
            raise SfumatoError(
                f"features of shape {tuple(features.shape)} do not fit an anomaly detector of width {self.width}",
                "give (videos, clips, width), from the encoder it was trained with",
            )
        hidden = self.norm(self.stages(self.amplify(resample(features, mask))))
        scores = torch.sigmoid(self.head(hidden).float())[..., 0]
        # After the norm all begin about equally long, and L_a and L_n near 0. Before it, they soon outweigh all else: the
        # network then evens the lengths out, and normal segments speak for anomalous videos.
        return Segments(scores, magnitude(hidden))


class FeatureAmplification(nn.Module):
    """FAM: F + α · Conv1D(M), the features with a share of their own magnitudes M, convolved over time.

    >>> FeatureAmplification(256)(torch.rand(2, 32, 256)).shape
    torch.Size([2, 32, 256])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolve = _Convolution(1, width, 3)

    def forward(self, features: Tensor) -> Tensor:
        """(B, T, D) to the same."""
        amplified: Tensor = features + AMPLIFICATION * self.convolve(magnitude(features)[..., None])
        return amplified


class _Block(nn.Module):
    """A convolution over time, attention, and a feed-forward part, each residual."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shortcut = _Convolution(channels, channels, 3)  # SCC
        self.attention = TransformerLayer(channels, growth=0)
        self.narrow = _Convolution(GROWTH * channels, channels, 1)
        self.feed = nn.Sequential(
            nn.LayerNorm(channels), _Convolution(channels, GROWTH * channels, 1), nn.GELU(), self.narrow
        )

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Three of (B, heads, T, C/heads) to one such: over all segments."""
        return F.scaled_dot_product_attention(query, key, value)

    def forward(self, segments: Tensor) -> Tensor:
        """(B, T, C) to the same."""
        segments = segments + self.shortcut(segments)
        segments = self.attention(segments, self.attend)
        fed: Tensor = self.feed(segments)
        return segments + fed


class GlanceBlock(_Block):
    """Every segment looks at all others, to learn what is ordinary in this video.

    >>> GlanceBlock(64)(torch.rand(2, 32, 64)).shape
    torch.Size([2, 32, 64])
    """


class FocusBlock(_Block):
    """Every segment looks at its neighbours: a self-attentional convolution (SAC).

    As in a convolution each of the five places has a learnt weight, one for each head; as in attention the kernel is made
    from the features it is laid over. Both make one softmax over the neighbours that are there.

    >>> FocusBlock(64)(torch.rand(2, 32, 64)).shape
    torch.Size([2, 32, 64])
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.kernel = nn.Parameter(torch.zeros(self.attention.heads, 2 * NEIGHBOURS + 1))

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Three of (B, heads, T, C/heads) to one such: over the neighbours."""
        places = torch.arange(query.shape[2], device=query.device)
        distance = places - places[:, None]
        weights = self.kernel[:, distance.clamp(-NEIGHBOURS, NEIGHBOURS) + NEIGHBOURS]  # (heads, T, T)
        weights = weights.masked_fill(distance.abs() > NEIGHBOURS, -torch.inf).to(query.dtype)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=weights)


class _Convolution(nn.Module):
    """A convolution over time of (B, T, before) to (B, T, after), channels last as attention wants them."""

    def __init__(self, before: int, after: int, kernel: int) -> None:
        super().__init__()
        self.convolve = nn.Conv1d(before, after, kernel, padding=kernel // 2)

    def forward(self, segments: Tensor) -> Tensor:
        convolved: Tensor = self.convolve(segments.transpose(1, 2)).transpose(1, 2)
        return convolved


def resample(features: Tensor, mask: Tensor | None = None, segments: int = SEGMENTS) -> Tensor:
    """The clips (B, S, D) of each video as (B, segments, D): n clips are cut at ⌊i·n/segments⌋ and averaged between.

    Where there are fewer clips than segments, a segment without a clip of its own repeats the one that begins there.
    mask: bool (B, S), False where there is no clip.

    >>> resample(torch.tensor([[[1.0], [2.0], [4.0]]]), segments=2)
    tensor([[[1.],
             [3.]]])
    """
    if mask is None:
        mask = torch.ones(features.shape[:2], dtype=torch.bool, device=features.device)
    count = mask.sum(1)
    if not count.all():
        empty = int(count.argmin())
        raise SfumatoError(f"video {empty} of the batch has no clip to look at", "leave videos without clips out")
    edges = torch.arange(segments + 1, device=mask.device) * count[:, None] // segments
    start = edges[:, :-1, None]
    end = torch.maximum(edges[:, 1:, None], start + 1)
    rank = (mask.cumsum(1) - 1)[:, None]  # among the clips that are there
    inside = mask[:, None] & (rank >= start) & (rank < end)  # (B, segments, S)
    there = features.masked_fill(~mask[..., None], 0)  # not a number times 0 is not a number
    return (inside / inside.sum(2, keepdim=True)).to(features.dtype) @ there


def spread_over_frames(scores: Tensor, frames: int) -> Tensor:
    """Scores (..., segments) to (..., frames): each frame has the score of the segment that its middle lies in.

    >>> spread_over_frames(torch.tensor([0.1, 0.9]), 5)
    tensor([0.1000, 0.1000, 0.9000, 0.9000, 0.9000])
    """
    if frames < 1:
        raise SfumatoError(f"scores cannot be spread over {frames} frames", "give the number of the video's frames")
    middles = 2 * torch.arange(frames, device=scores.device) + 1  # in half frames
    return scores[..., middles * scores.shape[-1] // (2 * frames)]


def magnitude(features: Tensor) -> Tensor:
    """M: the Euclidean length of every feature, (..., D) to float32 (...).

    >>> magnitude(torch.tensor([[3.0, 4.0]]))
    tensor([5.])
    """
    return torch.linalg.vector_norm(features.float(), dim=-1)


def top_by_magnitude(values: Tensor, magnitudes: Tensor, top: int = TOP) -> Tensor:
    """The mean of `values` over the `top` segments of largest magnitude: two of (B, T) to (B,).

    >>> top_by_magnitude(torch.tensor([[0.2, 0.9, 0.4]]), torch.tensor([[5.0, 1.0, 7.0]]), top=2)
    tensor([0.3000])
    """
    return values.gather(1, magnitudes.topk(top, dim=1).indices).mean(1)


def video_cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """L_sce (eq. 10): −y·log s − (1 − y)·log(1 − s), averaged over videos; scores in (0, 1) and labels 0 or 1, both (B,).

    >>> video_cross_entropy(torch.tensor([0.5]), torch.tensor([1]))  # log 2
    tensor(0.6931)
    """
    with torch.autocast(scores.device.type, enabled=False):
        return F.binary_cross_entropy(scores.float(), labels.float())


def temporal_smoothness(scores: Tensor) -> Tensor:
    """L_ts (eq. 11): the sum of squared steps from a segment to the next, averaged over the videos of scores (N, T).

    >>> temporal_smoothness(torch.tensor([[0.0, 1.0, 0.5]]))
    tensor(1.2500)
    """
    return scores.diff(dim=1).square().sum() / max(1, len(scores))


def sparsity(scores: Tensor) -> Tensor:
    """L_sp (eq. 12): the mean score of the segments (N, T) of anomalous videos: anomalies are rare; 0 without videos.

    A mean, not Sultani et al.'s sum, whose weight was a hundredth of 8e-3: times 32, it holds down all that is to rise.

    >>> sparsity(torch.tensor([[0.0, 1.0, 0.5]]))
    tensor(0.5000)
    """
    return scores.sum() / max(1, scores.numel())


def magnitudes_together(magnitudes: Tensor) -> Tensor:
    """L_a or L_n: (M − M')², averaged over all pairs of videos of one kind, (N,); 0 where there is no pair.

    >>> magnitudes_together(torch.tensor([1.0, 3.0]))
    tensor(4.)
    """
    count = len(magnitudes)
    squares = (magnitudes[:, None] - magnitudes).square()
    return squares.sum() / max(1, count * (count - 1))


def magnitudes_apart(anomalous: Tensor, normal: Tensor, margin: float = MARGIN) -> Tensor:
    """L_an: max(0, margin − |M_a − M_n|)², averaged over all pairs of an anomalous (N,) and a normal video (M,).

    Squared, as in contrastive losses since the first: the small weight that it has beside the others is for its square.

    >>> magnitudes_apart(torch.tensor([150.0]), torch.tensor([20.0]))
    tensor(4900.)
    """
    missing = (margin - (anomalous[:, None] - normal).abs()).clamp(min=0)
    return missing.square().sum() / max(1, missing.numel())


def magnitude_contrast(anomalous: Tensor, normal: Tensor, margin: float = MARGIN) -> Tensor:
    """L_mc (eq. 13): .001·L_an + L_a + L_n, of one magnitude for each video, (N,) and (M,).

    Kinds are drawn together and apart by how their magnitudes differ between videos, whatever the scene; none is told to
    be large or small.

    >>> magnitude_contrast(torch.tensor([150.0, 152.0]), torch.tensor([0.0]))  # .001 · (50² + 48²) / 2 + 2² + 0
    tensor(6.4020)
    """
    together = magnitudes_together(anomalous) + magnitudes_together(normal)
    return APART_WEIGHT * magnitudes_apart(anomalous, normal, margin) + together


def mgfn_loss(found: Segments, labels: Tensor) -> Tensor:
    """The whole loss (eq. 9): L_sce + 8e-4·L_ts + 8e-3·L_sp + .001·L_mc, for labels (B,), 1 where a video has an anomaly.

    Smoothness and sparsity are of anomalous videos alone. A batch should hold both kinds; without a pair L_mc has no say.

    >>> mgfn_loss(MGFN(256)(torch.rand(4, 50, 256)), torch.tensor([0, 0, 1, 1])).ndim
    0
    """
    anomalous = labels.bool()
    video_scores = top_by_magnitude(found.scores, found.magnitudes)
    video_magnitudes = top_by_magnitude(found.magnitudes, found.magnitudes)
    contrast = magnitude_contrast(video_magnitudes[anomalous], video_magnitudes[~anomalous])
    return (
        video_cross_entropy(video_scores, labels)
        + SMOOTHNESS_WEIGHT * temporal_smoothness(found.scores[anomalous])
        + SPARSITY_WEIGHT * sparsity(found.scores[anomalous])
        + CONTRAST_WEIGHT * contrast
    )
