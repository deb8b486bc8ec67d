"""How fast do clips come off the disk? Clips per second and core: straight from files, and prepared in several formats.

    python benchmarks/decode_speed.py --data ../shared/data/lsa64-b20 --out benchmarks/results/decode_speed_cpu.json

A clip is 16 frames spread over its video, 16×112×112 or 16×224×224 uint8. `files` decodes the originals; `cache` is the clip
cache and `shards` the JPEG shards as they are used; the others are what these two were chosen from: whole videos as raw arrays,
as H.264 whose every frame is a key frame, and as H.264 the way `sfumato data prepare` writes it. Each format is read by one
process per core, every reader going over the clips for some seconds after one round of warming up: the files are then in the
system's own cache, so this is the work of the CPU, not of the disk. By division: how many cores feed one H200-class GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.commands.prepare import Shrinking, shrink
from sfumato.datasets.clip_cache import ClipCache
from sfumato.datasets.decoding import frames_at
from sfumato.datasets.shard_writing import PlannedClip, ShardWriter
from sfumato.datasets.shards import ShardDataset
from sfumato.evaluation.provenance import commit, versions
from sfumato.training.device import hardware
from sfumato.video import clip_indices, count_frames, find_videos, read_clip

FRAMES = 16
# Side of the clip: short side of what is prepared. Training clips per second of one GPU: R3D-18 and ViT-S, about.
SIZES = {112: 128, 224: 256}
GPU_EATS = {"r3d-18": 500, "vit-s": 2000}
Reader = Callable[[int], Tensor]


def spread(path: Path) -> list[int]:
    """16 frames over the whole video, as data sets of files cut their clips."""
    count = count_frames(path)
    return [int(i) for i in clip_indices(count, FRAMES, max(1, count // FRAMES), "uniform")[0]]


def resized(pictures: np.ndarray, size: int) -> Tensor:
    """uint8 (T, H, W, 3) to (T, 3, size, size)."""
    return F.interpolate(torch.from_numpy(pictures).permute(0, 3, 1, 2), (size, size), mode="bilinear", antialias=True)


def write_key_frames(path: Path, target: Path, side: int) -> None:
    """H.264 of key frames only, in the encoder's setting for fast decoding."""
    frames = list(frames_at(path, side))
    with av.open(str(target), "w") as container:
        stream: Any = container.add_stream("libx264", rate=30, options={"crf": "19", "g": "1", "tune": "fastdecode"})
        (stream.height, stream.width), stream.pix_fmt = (s - s % 2 for s in frames[0].shape[:2]), "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame[: stream.height, : stream.width].copy())))
        container.mux(stream.encode(None))


def read_key_frames(path: Path, wanted: Sequence[int], size: int) -> Tensor:
    """Only the packets that are wanted go through the decoder."""
    reformatter, chosen = av.video.reformatter.VideoReformatter(), set(wanted)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        packets = [p for number, p in enumerate(container.demux(stream)) if number in chosen or not p.size]
        frames = [frame for packet in packets for frame in packet.decode()]
    pictures = [reformatter.reformat(f, width=size, height=size, format="rgb24").to_ndarray() for f in frames]
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()


def prepare(videos: Sequence[Path], size: int, folder: Path) -> dict[str, float]:
    """Every format into a folder of its own; how many kilobytes a clip takes in each."""
    side = SIZES[size]
    for name in ("raw", "key-frames", "h264"):
        (folder / name).mkdir(parents=True)
    cache = ClipCache(folder / "cache")
    for path in videos:
        np.save(folder / "raw" / f"{path.stem}.npy", np.stack(list(frames_at(path, side))))
        write_key_frames(path, folder / "key-frames" / f"{path.stem}.mp4", side)
        shrink(Shrinking(path, folder / "h264" / f"{path.stem}.mp4"), side, None)
        cache.read(path, spread(path), (size, size))
    known = {"recording": "", "action": 0, "person": -1, "attributes": {}, "split": {}}
    labels = {
        "actions": ["any"],
        "persons": [],
        "phrases": ["any"],
        "labelled": {},
        "attributes": [],
        "mirror_safe": False,
    }
    planned = [PlannedClip(path, {"source": path.name, **known}) for path in videos]
    writer = ShardWriter(folder / "shards", planned, labels, short_side=side, fps=None, shards=1)
    writer.write(workers=1, strict=True, tell=print, progress=lambda done, total: None)
    formats = [path for path in folder.iterdir() if path.is_dir()]
    sizes = {path.name: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in formats}
    sizes["files"] = sum(path.stat().st_size for path in videos)
    return {name: total / len(videos) / 1000 for name, total in sizes.items()}


def reader(name: str, videos: Sequence[Path], size: int, folder: Path) -> Reader:
    """What gives clip number n in that format."""
    wanted = [spread(path) for path in videos]
    square = (size, size)
    if name == "shards":
        data = ShardDataset(f"{folder / 'shards'}?size={min(size, SIZES[size])}&frames={FRAMES}")
        return lambda n: data._read(data.packed[n], 1)[0]  # one clip in this thread: `clips` has threads of its own
    if name == "cache":
        cache = ClipCache(folder / "cache")
        return lambda n: cache.read(videos[n], wanted[n], square)
    if name == "raw":
        stored = [folder / "raw" / f"{path.stem}.npy" for path in videos]
        return lambda n: resized(np.load(stored[n], mmap_mode="r")[wanted[n]], size)
    if name == "key-frames":
        return lambda n: read_key_frames(folder / "key-frames" / f"{videos[n].stem}.mp4", wanted[n], size)
    if name == "h264":
        return lambda n: read_clip(folder / "h264" / f"{videos[n].stem}.mp4", wanted[n], square)
    return lambda n: read_clip(videos[n], wanted[n], square)


def rate(barrier: Any, name: str, videos: Sequence[Path], size: int, folder: Path, seconds: float, out: Any) -> None:
    """Clips per second of one process, all processes reading at once."""
    torch.set_num_threads(1)
    read = reader(name, videos, size, folder)
    for n in range(len(videos)):
        assert read(n).shape == (FRAMES, 3, size, size)
    barrier.wait()
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        read(done % len(videos))
        done += 1
    out.put(done / (time.perf_counter() - started))


def measure(name: str, videos: Sequence[Path], size: int, folder: Path, cores: int, seconds: float) -> float:
    """Clips per second of that many processes together."""
    context = multiprocessing.get_context("spawn")
    barrier, out = context.Barrier(cores), context.Queue()
    work = partial(context.Process, target=rate)
    processes = [work(args=(barrier, name, videos, size, folder, seconds, out)) for _ in range(cores)]
    for process in processes:
        process.start()
    total = sum(out.get(timeout=600) for _ in processes)
    for process in processes:
        process.join()
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of real videos")
    parser.add_argument("--clips", type=int, default=100, help="so many of them, evenly chosen")
    parser.add_argument("--seconds", type=float, default=5, help="of every measurement")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--note", default="", help="what else to say about the run, such as that the machine was busy")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    every = find_videos(args.data)
    videos = every[:: max(1, len(every) // args.clips)][: args.clips]
    rows = []
    for size, side in SIZES.items():
        with tempfile.TemporaryDirectory() as temporary:
            kilobytes = prepare(videos, size, Path(temporary))
            for name in ("files", "h264", "key-frames", "shards", "raw", "cache"):
                found = measure(name, videos, size, Path(temporary), args.cores, args.seconds)
                feeds = {gpu: round(eats / (found / args.cores), 1) for gpu, eats in GPU_EATS.items()}
                row = {"size": size, "short_side": side, "format": name, "clips_per_second": found}
                rows.append({**row, "kilobytes_per_clip": kilobytes[name], "cores_per_gpu": feeds})
                per_gpu = ", ".join(f"{cores:g} cores feed {gpu}" for gpu, cores in feeds.items())
                print(
                    f"16×{size}×{size} {name}: {found:.0f} clips/s, {kilobytes[name]:.0f} kB a clip; {per_gpu}",
                    flush=True,
                )
    about = {
        "cores": args.cores,
        "clips": len(videos),
        "seconds": args.seconds,
        "gpu_eats": GPU_EATS,
        "note": args.note,
    }
    made_with = {
        "hardware": hardware(torch.device("cpu")),
        "commit": commit(),
        "versions": versions() | {"av": av.__version__},
    }
    if args.out:
        args.out.write_text(
            json.dumps({"data": args.data.name, "by_format": rows, **about, **made_with}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
