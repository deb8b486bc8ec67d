"""How long a recipe takes, and how much memory: an estimate, from multiply-adds counted on networks without weights.

One setting was measured: SPAct's game with U-Net 32, R3D-18 and ResNet-50 on an H200, in clips a second. Its multiply-adds,
counted in the same way, give the rate; another GPU is taken to be faster or slower as its data sheet says. Reading and
decoding videos is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.anonymizers.masked_transformer import MaskedTransformer
from sfumato.anonymizers.tubelets import Tubelets
from sfumato.methods.spact.config import SPActConfig
from sfumato.recognizers import level_of, make_recognizer
from sfumato.registry import unknown_name
from sfumato.training.frame_game import make_frame_network
from sfumato.training.opponents import Lineup, make_opponent
from sfumato.training.room import SHARE

# benchmarks/results/train_speed_h200.json: at batch 32, clips of 16×112×112, a clip in either step of the game counts one.
MEASURED_CLIPS, MEASURED_BATCH = 383.37, 32
MEASURED = SPActConfig(
    anonymizer="unet", width=32, levels=0, cell=1, grey=False, sparsity_weight=0, utility_dilated=True,
    utility_update="alternate", budget_update="updated", budget_norm="batch", batch=MEASURED_BATCH,
    privacy_batch=MEASURED_BATCH,
)  # fmt: skip
# Dense bf16 (of the older two fp16) in 10^12 operations a second, and memory in GB, as their data sheets say.
GPUS = {
    "h200": (989.0, 141), "h100": (989.0, 80), "a100": (312.0, 80), "l40s": (362.0, 48), "a5000": (111.0, 24),
    "4090": (165.0, 24), "v100": (125.0, 32), "t4": (65.0, 16),
}  # fmt: skip
# Frozen networks that cannot be built without their files, multiply-adds as published: ViT-B/16 on a frame of 224×224.
FRAME_OF_VIT_B = 17.6e9
WIDTH_OF_VIDEOMAE_B = 768
BACKWARD = 3  # a pass forth and back costs about three forth
STEP = 2e-3  # seconds a step of a small network takes at least, to start its kernels: a rule of thumb, not measured
GB = 1e9
ADAM = 16  # bytes for each parameter: itself, its gradient and two averages


class Clip(NamedTuple):
    """Frames and side of a clip."""

    frames: int
    side: int


@dataclass(frozen=True)
class Network:
    """A network that takes part. work: multiply-adds of one input, of so many `frames`; kept: bytes that its backward pass
    needs of one input."""

    role: str
    name: str
    parameters: int
    work: float
    kept: float
    frames: int = 1


@dataclass(frozen=True)
class Estimate:
    """hours: by phase; memory: bytes by what takes them; measured_on: what the rate was taken from."""

    networks: tuple[Network, ...]
    hours: dict[str, float]
    memory: dict[str, float]
    gpu: str


def gpu_named(device: str) -> str:
    """The GPU of our table that `--device` means: its name, or the one in this machine; else the one that was measured.

    >>> gpu_named("a100")
    'a100'
    """
    if device in GPUS:
        return device
    if device not in ("auto", "cpu") and not device.startswith("cuda"):
        raise unknown_name("GPU", device, ["auto", "cpu", "cuda", *GPUS])
    if device != "cpu" and torch.cuda.is_available():
        found = torch.cuda.get_device_name().lower()
        return next((name for name in GPUS if name in found), "h200")
    return "h200"


def fits(size: float, gpu: str) -> bool:
    """Whether clips that take so many bytes, with what is needed beside them, are held on an empty GPU.

    >>> fits(100e9, "h200"), fits(100e9, "a100")
    (True, False)
    """
    return size <= SHARE * GPUS[gpu][1] * GB


def speed(gpu: str) -> float:
    """Multiply-adds a second that a training gets out of a GPU."""
    return _measured_speed() * GPUS[gpu][0] / GPUS["h200"][0]


@lru_cache
def _measured_speed() -> float:
    clip = Clip(16, 112)
    work = {n.role: n for n in game_networks("spact", MEASURED, clip, clip, 20, 0)}
    # The measured game took its views for f_B from the same clips, frame by frame.
    iteration = _game_work(MEASURED, work, clip, clip)["minimax"]
    return iteration * MEASURED_CLIPS / (2 * MEASURED_BATCH)


def count(role: str, name: str, module: nn.Module, *inputs: Tensor) -> Network:
    """A module on the meta device and what one pass over these inputs costs.

    >>> count("f_A", "linear", nn.Linear(4, 8, device="meta"), torch.empty(1, 4, device="meta")).work
    32.0
    """
    kept = 0.0

    def add(_: nn.Module, __: Any, output: Any) -> None:
        nonlocal kept
        if isinstance(output, Tensor):
            kept += 2 * output.numel()  # bf16

    leaves = [part for part in module.modules() if not any(True for _ in part.children())]
    hooks = [leaf.register_forward_hook(add) for leaf in leaves]
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        module.eval()(*inputs)
    for hook in hooks:
        hook.remove()
    frames = inputs[0].shape[1] if inputs[0].ndim == 5 else 1
    parameters = sum(p.numel() for p in module.parameters())
    return Network(role, name, parameters, counter.get_total_flops() / 2, kept, frames)


def _pixels(frames: int, side: int) -> Tensor:
    return torch.empty(1, frames, 3, side, side, device="meta")


@lru_cache  # most judgements of a recipe are by the same two
def recognizer(role: str, name: str, outputs: int, clip: Clip, **options: Any) -> Network:
    """A recognizer; one that looks at frames is counted on one frame."""
    frames = 1 if level_of(name) == "frame" else clip.frames
    with torch.device("meta"):
        made = make_recognizer(name, outputs, clip=(frames, clip.side, clip.side), **options)
        return count(role, name, made, _pixels(frames, clip.side))


def game_networks(
    method: str, config: Any, clip: Clip, views: Clip, actions: int, attributes: int
) -> tuple[Network, ...]:
    """f_A, f_T and every f_B of an adversarial method, in the sizes it is set to. f_A on one frame, or on a clip."""
    with torch.device("meta"):
        if method == "stprivacy":
            made: nn.Module = Tubelets(
                embedding=config.embedding, duration=config.duration, frames=clip.frames, size=clip.side,
                frame_step=1, alpha=1.0, two_pass=False, anonymize=True, sparsify=False,
            )  # fmt: skip
            shown = _pixels(clip.frames, clip.side)
        else:
            made, shown = make_frame_network(config, clip.side, clip.frames, 1), _pixels(1, clip.side)
        found = [count("f_A", getattr(config, "anonymizer", "tubelets"), made, shown)]
        dilated = {"dilated_last_stage": True} if config.utility_dilated else {}
        found.append(recognizer("f_T", config.utility, actions, clip, width=config.utility_width, **dilated))
        for name in config.networks() if config.budget_update != "none" else ():
            frames = 1 if level_of(name) == "frame" else views.frames
            heads = (2,) * max(1, attributes)
            lineup = Lineup(config.budget, name, config.budget_norm, (frames, views.side, views.side), heads)
            opponent = make_opponent(lineup)
            counted = count("f_B", name, opponent.network, _pixels(frames, views.side))
            found.append(replace(counted, parameters=sum(p.numel() for p in opponent.parameters())))
    return tuple(found)


def _game_work(c: Any, networks: Mapping[str, Network], clip: Clip, views: Clip) -> dict[str, float]:
    """Multiply-adds of one step of each phase. f_A counts frames, but for tubelets, which count clips."""
    whole = c.__class__.__name__.startswith("STPrivacy")
    first, utility = networks["f_A"], networks["f_T"]
    on_clip = first.work * (1 if whole else clip.frames)
    budget = networks.get("f_B")
    seen = views.frames if budget is not None and level_of(budget.name) == "video" else 1
    on_view = (first.work if whole else first.work * seen) if budget else 0.0
    reads = budget.work if budget else 0.0
    learn = c.batch * (on_clip + BACKWARD * utility.work) + 2 * c.privacy_batch * (on_view + BACKWARD * reads)
    move = BACKWARD * (c.batch * (on_clip + utility.work) + 2 * c.privacy_batch * (on_view + reads))
    audit = 4 * c.privacy_batch * (on_view + BACKWARD * reads)
    return {"begin": BACKWARD * c.batch * on_clip, "opponents": learn, "minimax": move + learn, "audit": audit}


def game_estimate(
    method: str, config: Any, clip: Clip, views: Clip, videos: Mapping[str, int], gpu: str, actions: int, attributes: int
) -> Estimate:  # fmt: skip
    """Of spact, vita, tedspad, penalty and stprivacy. videos: how many train f_A ("action"), and f_B ("privacy")."""
    networks = game_networks(method, config, clip, views, actions, attributes)
    by_role: dict[str, Network] = {}
    for network in networks:  # several f_B are one that costs as much
        old = by_role.get(network.role)
        by_role[network.role] = network if old is None else _together(old, network)
    work = _game_work(config, by_role, clip, views)
    begin = getattr(config, "reconstruction_steps", getattr(config, "initialisation_steps", 0))
    steps = {"begin": begin, "opponents": config.opponent_steps, "minimax": config.steps, "audit": config.audit_steps}
    hours = {phase: steps[phase] * work[phase] / speed(gpu) / 3600 for phase in steps}
    whole = method == "stprivacy"
    pixels = 3 * clip.frames * clip.side**2 * videos["action"] + 3 * views.frames * views.side**2 * videos["privacy"]
    kept = config.batch * ((1 if whole else clip.frames) * by_role["f_A"].kept + by_role["f_T"].kept)
    memory = {
        "clips": float(pixels), "networks": float(ADAM * sum(n.parameters for n in networks)), "a step": float(kept),
    }  # fmt: skip
    return Estimate(networks, hours, memory, gpu)


def _together(one: Network, other: Network) -> Network:
    return replace(
        one, parameters=one.parameters + other.parameters, work=one.work + other.work, kept=one.kept + other.kept
    )


def laf_estimate(config: Any, clip: Clip, videos: int, gpu: str) -> Estimate:
    """Of LaF-Privacy: the frozen model sees every clip twice, once with a way back; its layers are computed again there."""
    with torch.device("meta"):
        made = MaskedTransformer(
            embedding=config.embedding, depth=config.depth, patch=config.patch, frames=clip.frames, size=clip.side,
            frame_step=1, masked=False, ratio=0.0, temperature=config.temperature,
        )  # fmt: skip
        first = count("f_A", "masked transformer", made, _pixels(*clip))
    teacher = clip.frames * FRAME_OF_VIT_B * (clip.side / 224) ** 2
    step = config.batch * (BACKWARD * first.work + (1 + BACKWARD + 1) * teacher)
    hours = {"reconstruct": config.reconstruction_steps * config.batch * BACKWARD * first.work / speed(gpu) / 3600}
    hours |= {part.name: part.steps * step / speed(gpu) / 3600 for part in config.parts()}
    memory = {
        "clips": 3.0 * clip.frames * clip.side**2 * videos, "networks": float(ADAM * first.parameters),
        "a step": config.batch * first.kept,
    }  # fmt: skip
    return Estimate((first,), hours, memory, gpu)


def splavu_estimate(config: Any, videos: int, clips: int, gpu: str) -> Estimate:
    """Of SPLAVU on features of so many clips that are there; the heads of detection and anomaly are not counted."""
    width = WIDTH_OF_VIDEOMAE_B
    with torch.device("meta"):
        tokens = config.pieces(width) if config.attend == "feature" else 1
        made = LatentAdapter(width, config.layers, config.heads, config.attend, config.feed_forward, tokens)
        # An MLP picks true clips out by their mask, which on the meta device has no values: its layers alone.
        alone = nn.Sequential(*made.layers) if config.attend == "none" else made
        first = count("f_A", "adapter", alone, torch.empty(1, *(() if config.attend == "none" else (1,)), width))
    steps = config.epochs * -(-videos // config.batch)
    step = BACKWARD * (config.batch + 2 * config.privacy_batch) * first.work
    hours = {"anonymize": steps * max(STEP, step / speed(gpu)) / 3600}
    memory = {"features": 3.0 * 4 * width * clips, "networks": float(ADAM * first.parameters)}
    return Estimate((first,), hours, memory, gpu)


def judge_hours(exams: Sequence[tuple[Network, int]], anonymized: float, *, epochs: int, gpu: str) -> float:
    """Of one anonymizer before the judge. exams: a network, and how many inputs it learns from in an epoch.

    anonymized: multiply-adds of passing every clip through f_A.

    >>> judge_hours([], speed("h200") * 3600, epochs=1, gpu="h200")
    1.0
    """
    learned = sum(BACKWARD * epochs * inputs * network.work for network, inputs in exams)
    return (learned + anonymized) / speed(gpu) / 3600
