"""Memory and time of `anonymize_file` on a long video. The bound: 1.5 GB resident for 10 minutes of 640×360.

python benchmarks/anonymize_memory.py                                 # writes results/anonymize_memory.json
python benchmarks/anonymize_memory.py --minutes 0.5 --out short.json
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.anonymizers import load
from sfumato.anonymizers.streaming import anonymize_file
from sfumato.video import VideoWriter

HEIGHT, WIDTH, FPS = 360, 640, 30
BOUND_GB = 1.5


def make_video(path: Path, frames: int) -> None:
    """A bright disc that wanders over drifting stripes."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    with VideoWriter(path, FPS, (HEIGHT, WIDTH)) as writer:
        for number in range(frames):
            frame = np.repeat(((columns + 2 * number) // 16 % 2 * 60 + 60).astype(np.uint8)[..., None], 3, axis=2)
            centre = HEIGHT / 2 + 120 * np.sin(number / 40), WIDTH / 2 + 250 * np.cos(number / 55)
            frame[(rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < 40**2] = (230, 180, 150)
            writer.write(frame)


def measure(name: str, source: Path, target: Path, results: Any) -> None:
    """Anonymize in this process, which does nothing else, so that its peak is the peak of the work."""
    anonymizer = load(name)
    start = time.perf_counter()
    done = anonymize_file(anonymizer, source, target)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
    results.put({"frames": done.frames, "seconds": seconds, "fps": done.frames / seconds, "peak_rss_gb": peak / 1e9})


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--anonymizer", default="blur")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "anonymize_memory.json")
    options = parser.parse_args()
    spawning = multiprocessing.get_context("spawn")
    results = spawning.Queue()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.mp4", Path(folder) / "target.mp4"
        make_video(source, round(options.minutes * 60 * FPS))
        child = spawning.Process(target=measure, args=(options.anonymizer, source, target, results))
        child.start()
        child.join()
        if child.exitcode != 0:
            raise SystemExit("the measurement failed")
        measured = results.get()
    report = {
        "video": {"minutes": options.minutes, "height": HEIGHT, "width": WIDTH, "fps": FPS},
        "anonymizer": options.anonymizer,
        **{key: round(value, 3) for key, value in measured.items()},
        "bound_gb": BOUND_GB,
        "within_bound": measured["peak_rss_gb"] < BOUND_GB,
        "hardware": {"cpu": cpu_model(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("torch", "av", "numpy")}},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
