from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfumato.video import VideoWriter

FRAMES = 12


def write_video(path: Path, grey: int, frames: int = FRAMES) -> Path:
    """A tiny video that starts at that grey and grows brighter by 8 from frame to frame."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with VideoWriter(path, 25, (32, 48)) as writer:
        for n in range(frames):
            writer.write(np.full((32, 48, 3), grey + 8 * n, np.uint8))
    return path


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with clips/0.mp4 … clips/11.mp4, a short one, and one that is no video."""
    root = tmp_path_factory.mktemp("videos")
    for n in range(12):
        write_video(root / "clips" / f"{n}.mp4", grey=10 * n)
    write_video(root / "short.mp4", grey=0, frames=3)
    (root / "broken.mp4").write_bytes(b"this is no video" * 40)
    return root
