"""Training on several processes: each takes its share of the batch, and together they do what one process would do.

What is minimised is the mean of the processes' losses. A mean over one's own share (cross-entropy over samples) needs
nothing further; a loss in which samples meet (the negatives of NT-Xent, a mean over the known labels only) is computed
by every process on gathered tensors. `average_gradients` then gives each the gradient of one process with the whole
batch. In a single process everything here leaves things as they are.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from sfumato.errors import SfumatoError
from sfumato.writing import write_whole

CPU = torch.device("cpu")
GRACE_SECONDS = 30  # what interrupted processes have to end their step and save before they are ended
MISTAKE = "mistake.json"  # where a process leaves the SfumatoError that ended it, for the parent to raise

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Crew:
    """Which of how many processes this is.

    >>> Crew(rank=1, size=2).main
    False
    """

    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files and speaks to the user."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """This process's contiguous part of a global batch, (N, ...) → (N / size, ...).

        >>> Crew(rank=1, size=2).share(torch.arange(4))
        tensor([2, 3])
        """
        if len(rows) % self.size:
            raise SfumatoError(
                f"a batch of {len(rows)} cannot be shared evenly among {self.size} processes",
                f"use a multiple of {self.size}",
            )
        each = len(rows) // self.size
        return rows[self.rank * each : (self.rank + 1) * each]


def current() -> Crew:
    """This process's place among those that `launch` started; alone, rank 0 of 1.

    >>> current()
    Crew(rank=0, size=1)
    """
    if dist.is_available() and dist.is_initialized() and not _ALONE.get():
        return Crew(dist.get_rank(), dist.get_world_size())
    return Crew()


_ALONE = ContextVar("alone", default=False)


@contextmanager
def alone() -> Iterator[None]:
    """While it lasts this process does everything by itself: nothing is shared, gathered or averaged.

    >>> with alone(): current()
    Crew(rank=0, size=1)
    """
    token = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(token)


def device_of(crew: Crew, device: torch.device) -> torch.device:
    """Where this process computes: of several on CUDA, rank r has GPU r to itself; CPU processes share the CPU.

    >>> device_of(Crew(rank=1, size=2), torch.device("cpu"))
    device(type='cpu')
    """
    if crew.size == 1 or device.type != "cuda":
        return device
    gpus = torch.cuda.device_count()
    if crew.size > gpus:
        raise SfumatoError(
            f"{crew.size} processes need {crew.size} GPUs, and this machine has {gpus}",
            f"use --devices {max(1, gpus)}, or --device cpu",
        )
    return torch.device("cuda", crew.rank)


class _Gather(torch.autograd.Function):
    """Every process's rows forward; backward, what all processes' losses together ask of this process's rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        rows = rows.contiguous()
        parts = [torch.empty_like(rows) for _ in range(current().size)]
        dist.all_gather(parts, rows)
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        # The sum, not the mean: the division by the number of processes is that of average_gradients.
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return current().share(total)


def gather(x: Tensor) -> Tensor:
    """The rows of all processes in rank order, (N, ...) → (size·N, ...), N being the same everywhere; differentiable.

    Gradients are those of the sum of the processes' losses, so that their average over the processes is that of the
    mean loss, whether the processes compute the same loss on what they gathered or each a loss of its own.

    >>> gather(torch.zeros(3, 8)).shape
    torch.Size([3, 8])
    """
    if current().size == 1:
        return x
    gathered: Tensor = _Gather.apply(x)
    return gathered


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Put the mean over processes in the place of every gradient, in one exchange; call it before the optimizer's step.

    A process that has no gradient for a parameter counts as zero; where no process has one, there is none afterwards.

    >>> average_gradients(nn.Linear(2, 2).parameters())
    """
    crew, every = current(), list(parameters)
    if crew.size == 1 or not every:
        return
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in every]
    # Whether anybody has a gradient travels along, one number per parameter.
    known = gradients[0].new_tensor([p.grad is not None for p in every])
    flat = torch.cat([*(gradient.reshape(-1) for gradient in gradients), known])
    dist.all_reduce(flat)
    flat /= crew.size
    *means, known = flat.split([*(p.numel() for p in every), len(every)])
    for parameter, mean, anybody in zip(every, means, known, strict=True):
        if parameter.grad is not None:
            parameter.grad.copy_(mean.view_as(parameter))
        elif anybody:
            parameter.grad = mean.view_as(parameter).to(parameter.dtype, copy=True)


def mean_over_crew(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The mean over processes of each single number, for the log; the same names in the same order everywhere.

    >>> mean_over_crew({"action": torch.tensor(0.5)})
    {'action': tensor(0.5000)}
    """
    crew = current()
    values = {name: value.detach() for name, value in values.items()}
    if crew.size == 1 or not values:
        return values
    together = torch.stack(list(values.values()))
    dist.all_reduce(together)
    return dict(zip(values, together / crew.size, strict=True))


class _CrewNorm(_BatchNorm):
    """Batch normalisation whose statistics in train mode are those of all processes' batches together."""

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, ...) → the same shape, N being the same in every process."""
        crew = current()
        if crew.size == 1 or not self.training:
            return super().forward(x)
        self._check_input_dim(x)
        values = x.to(torch.promote_types(x.dtype, torch.float32))
        variance, mean = torch.var_mean(values, [0, *range(2, x.ndim)], correction=0)
        means, variances = gather(torch.stack([mean, variance])[None]).unbind(1)  # (size, C) each
        # Total variance: the mean of the variances plus the variance of the means. Unlike E[x²] − E[x]² it loses no
        # digits where the mean is large.
        mean, variance = means.mean(0), variances.mean(0) + means.var(0, correction=0)
        self._remember(mean.detach(), variance.detach(), crew.size * x.numel() // x.shape[1])

        scale = (variance + self.eps).rsqrt()
        if self.affine:
            scale = scale * self.weight
        shift = self.bias - mean * scale if self.affine else -mean * scale
        along_channels = (-1, *(1 for _ in range(2, x.ndim)))
        return (values * scale.view(along_channels) + shift.view(along_channels)).to(x.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics as torch does: by `momentum`, or to the mean of all batches where that is None."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        momentum = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance * (count / (count - 1)), momentum)


class CrewBatchNorm1d(_CrewNorm, nn.BatchNorm1d):
    """`nn.BatchNorm1d` over all processes."""


class CrewBatchNorm2d(_CrewNorm, nn.BatchNorm2d):
    """`nn.BatchNorm2d` over all processes."""


class CrewBatchNorm3d(_CrewNorm, nn.BatchNorm3d):
    """`nn.BatchNorm3d` over all processes."""


_ACROSS: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: CrewBatchNorm1d,
    nn.BatchNorm2d: CrewBatchNorm2d,
    nn.BatchNorm3d: CrewBatchNorm3d,
}


def synchronise_norms(module: M) -> M:
    """`module` itself, every batch norm in it now taking its statistics over all processes.

    Parameters, buffers and `state_dict` keys stay the same objects and names, so that optimizers and checkpoints made
    before or after fit.

    >>> list(synchronise_norms(nn.BatchNorm2d(4, affine=False)).state_dict())
    ['running_mean', 'running_var', 'num_batches_tracked']
    """
    if current().size > 1:
        for norm in module.modules():
            # Only how the forward pass computes differs, no attribute: the object may change its class.
            norm.__class__ = next((across for kind, across in _ACROSS.items() if isinstance(norm, kind)), type(norm))
    return module


@torch.no_grad()
def same_everywhere(module: nn.Module) -> None:
    """Give every process the parameters and buffers of rank 0.

    >>> same_everywhere(nn.Linear(2, 2))
    """
    if current().size == 1:
        return
    for tensor in chain(module.parameters(), module.buffers()):
        whole = tensor.contiguous()  # a channels-last weight is not, and only contiguous tensors travel
        dist.broadcast(whole, src=0)
        tensor.copy_(whole)


def any_of_crew(asked: bool) -> bool:
    """Whether any process says so; all must ask at the same moment, and all get the same answer.

    >>> any_of_crew(True)
    True
    """
    if current().size == 1:
        return asked
    told = torch.tensor(int(asked))
    dist.all_reduce(told, dist.ReduceOp.MAX)
    return bool(told)


def launch(work: Callable[..., None], devices: int, *args: Any, device: torch.device = CPU) -> None:
    """Call `work(*args)` in `devices` processes that know each other, and return when all are done.

    With one device the call happens in this process. Otherwise `work` must be importable by its name, and asks
    `current()` who it is and `device_of(current(), device)` where to compute. A SfumatoError in any process is raised
    here; an interrupt reaches every process once, and those that do not end in time are ended.

    >>> launch(print, 1, "hello")
    hello
    """
    if devices < 1:
        raise SfumatoError(f"training cannot run on {devices} devices", "use --devices 1 or more")
    if devices == 1:
        work(*args)
        return
    device_of(Crew(devices - 1, devices), device)  # too few GPUs are told before anything starts
    threads = max(1, torch.get_num_threads() // devices)
    # Where one process fails torch ends the others and says so; the error itself is what the user should read.
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        crew = mp.spawn(_member, (devices, folder, threads, device, work, args), nprocs=devices, join=False)
        try:
            while not crew.join():
                pass  # each return tells that one more process is done
        except KeyboardInterrupt:
            _interrupt(crew.processes)
            raise
        except (mp.ProcessRaisedException, mp.ProcessExitedException):
            if (folder / MISTAKE).exists():
                raise SfumatoError(*json.loads((folder / MISTAKE).read_bytes())) from None
            raise
        finally:
            for process in crew.processes:
                process.kill()
                process.join()


def _member(
    rank: int,
    size: int,
    folder: Path,
    threads: int,
    device: torch.device,
    work: Callable[..., None],
    args: tuple[Any, ...],
) -> None:
    """What a spawned process does: join the group, work, and leave a word in `folder` for the parent on a mistake."""
    signal.signal(signal.SIGINT, _interrupted)
    torch.set_num_threads(threads)
    if device.type == "cuda":
        torch.cuda.set_device(device_of(Crew(rank, size), device))
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    # Its functions hold on to the group that exists when they are imported, which the first optimizer does: the group
    # would outlive its end, and gloo's threads would abort the process on its way out. So they come before the group.
    import_module("torch.distributed.nn.functional")
    store = dist.FileStore(str(folder / "store"), size)  # a file needs no free port
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        work(*args)
    except SfumatoError as error:
        write_whole(folder / MISTAKE, json.dumps([error.what, error.next_step]).encode())
        raise
    finally:
        dist.destroy_process_group()


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C reaches a process from the terminal and from its parent: the second must not disturb what the first began."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _interrupt(processes: Iterable[BaseProcess]) -> None:
    """Hand Ctrl-C on to every process, and wait a while for them to end."""
    alive = [process for process in processes if process.is_alive()]
    for process in alive:
        if process.pid is not None:
            os.kill(process.pid, signal.SIGINT)
    deadline = time.monotonic() + GRACE_SECONDS
    for process in alive:
        process.join(max(0.0, deadline - time.monotonic()))
