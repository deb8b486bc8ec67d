"""The laptop networks: one sees motion, the other sees a frame."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sfumato.recognizers import Recognizer, make_recognizer


def squares(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Clips (N, 8, 3, 32, 32) of a square that goes left (0) or right (1), and which.

    The square starts anywhere and comes back in on the other side, so that a single frame says nothing.
    """
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randint(0, 2, (count,), generator=generator)
    start = torch.randint(0, 32, (count, 2), generator=generator)
    step = torch.arange(8) * 3
    columns = (start[:, :1] + (2 * direction[:, None] - 1) * step) % 32
    grid = torch.arange(32)
    across = (grid - columns[..., None]) % 32 < 8
    down = ((grid - start[:, 1:]) % 32 < 8)[:, None].expand(-1, 8, -1)
    square = (down[..., :, None] & across[..., None, :])[:, :, None].float()
    colour = 0.4 + 0.6 * torch.rand(count, 1, 3, 1, 1, generator=generator)
    noise = 0.1 * torch.rand(count, 8, 3, 32, 32, generator=generator)
    return (square * colour + noise).clamp(0, 1), direction


def train(recognizer: Recognizer, clips: Tensor, labels: Tensor, steps: int) -> None:
    optimizer = torch.optim.AdamW(recognizer.parameters(), 3e-3)
    # The rate must fall: running statistics lag behind weights that still move fast.
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, steps)
    for step in range(steps):
        batch = torch.arange(16 * step, 16 * step + 16) % len(clips)
        loss = F.cross_entropy(recognizer(clips[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    recognizer.eval()


@torch.no_grad()
def accuracy(recognizer: Recognizer, clips: Tensor, labels: Tensor) -> float:
    return (recognizer(clips).argmax(1) == labels).float().mean().item()


def test_tiny_video_learns_motion_and_one_frame_cannot() -> None:
    torch.manual_seed(0)
    clips, labels = squares(384, seed=1)
    new_clips, new_labels = squares(200, seed=2)

    video = make_recognizer("tiny-video", 2, clip=(8, 32, 32))
    train(video, clips, labels, steps=24)
    assert accuracy(video, new_clips, new_labels) > 0.95

    frame = make_recognizer("tiny-frame", 2, clip=(1, 32, 32))
    train(frame, clips[:, 4:5], labels, steps=24)
    assert 0.4 < accuracy(frame, new_clips[:, 4:5], new_labels) < 0.6


def test_tiny_frame_learns_what_a_frame_shows() -> None:
    torch.manual_seed(0)
    clips, _ = squares(320, seed=1)
    reddish = torch.arange(320) % 2
    tint = torch.tensor([[0.5, 0.5, 1.0], [1.0, 0.5, 0.5]])[reddish].view(-1, 1, 3, 1, 1)
    frames = (clips * tint)[:, :1]
    frame = make_recognizer("tiny-frame", 2, clip=(1, 32, 32))
    train(frame, frames[:256], reddish[:256], steps=48)
    assert accuracy(frame, frames[256:], reddish[256:]) > 0.9
