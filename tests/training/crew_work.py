"""What the processes of test_processes.py do, in a module of its own so that spawned processes can import it by name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import parent_process
from os import getpid, kill
from pathlib import Path
from signal import SIGINT

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.errors import SfumatoError
from sfumato.recognizers.layers import ClipNorm
from sfumato.training.phases import Phase, Player, Timing
from sfumato.training.processes import (
    average_gradients,
    current,
    gather,
    mean_over_crew,
    same_everywhere,
    synchronise_norms,
)
from sfumato.training.run import RunFolder

Facts = dict[str, Tensor]


class Net(nn.Module):
    """Clips (N, 3, T, H, W) to class logits (N, 4) and unit projections (N, 5); one layer is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.video = nn.Sequential(nn.Conv3d(3, 4, 3, bias=False), nn.BatchNorm3d(4), nn.ReLU())
        self.frame = nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU())
        self.action = nn.Linear(6, 4)
        self.projection = nn.Linear(6, 5)
        self.unused = nn.Linear(2, 2)

    def forward(self, clips: Tensor) -> tuple[Tensor, Tensor]:
        features = self.frame(self.video(clips).mean(2)).mean((2, 3))
        return self.action(features), F.normalize(self.projection(features), dim=1)


def nt_xent(first: Tensor, second: Tensor) -> Tensor:
    """−log of the positive's share among all others, temperature ½: row i of one view and of the other are the pair."""
    count = len(first)
    both = torch.cat([first, second])
    similarity = (both @ both.T / 0.5).masked_fill(torch.eye(2 * count, dtype=torch.bool), -torch.inf)
    return F.cross_entropy(similarity, torch.arange(2 * count).roll(count))


def train(dtype: torch.dtype) -> Facts:
    """Two steps of Adam on a batch of eight, shared: losses, gradients, and what the network is afterwards."""
    generator = torch.Generator().manual_seed(0)
    crew = current()
    torch.manual_seed(crew.rank)  # rank 0 starts as one process alone does; the others only through same_everywhere
    net = synchronise_norms(Net().to(dtype))
    same_everywhere(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    facts: Facts = {}
    for step in range(2):
        # The mean of each clip is its own, so that the halves of the batch have different statistics.
        views = torch.randn(2, 8, 3, 4, 6, 6, generator=generator) + torch.arange(8.0).view(8, 1, 1, 1, 1) / 4
        labels = torch.randint(4, (8,), generator=generator)
        (logits, first), (_, second) = (net(crew.share(view.to(dtype))) for view in views)
        losses = {
            "action": F.cross_entropy(logits, crew.share(labels)),
            "contrast": nt_xent(gather(first), gather(second)),
        }
        optimizer.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        average_gradients(net.parameters())
        optimizer.step()
        facts |= {f"loss {name} {step}": value for name, value in mean_over_crew(losses).items()}
        facts |= {f"gradient {n} {step}": p.grad.clone() for n, p in net.named_parameters() if p.grad is not None}
    return facts | {f"state {name}": value for name, value in net.state_dict().items()}


def normalise() -> Iterator[tuple[str, Tensor]]:
    """Every kind of norm by itself: outputs and input gradients of all rows, and what it remembers."""
    crew = current()
    norms: list[tuple[nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d, tuple[int, ...]]] = [
        (nn.BatchNorm1d(3, momentum=None), ()),
        (nn.BatchNorm2d(3, affine=False), (2, 3)),
        (nn.BatchNorm2d(3, track_running_stats=False), (2, 3)),
        (nn.BatchNorm3d(3, eps=0.1, momentum=0.5), (2, 3, 2)),
        (ClipNorm(3), (2, 3, 2)),
    ]
    for number, (norm, sides) in enumerate(norms):
        synchronise_norms(norm).double()
        generator = torch.Generator().manual_seed(number)
        for step in range(2):
            rows = torch.randn(6, 3, *sides, generator=generator, dtype=torch.float64) + 1e3 * (step + 1)
            weights = torch.randn(rows.shape, generator=generator, dtype=torch.float64)
            mine = crew.share(rows).clone().requires_grad_()
            out = norm(mine)
            (out * crew.share(weights)).sum().backward()  # a sum over all rows, so nothing is divided by the crew
            yield f"out {number} {step}", gather(out.detach())
            assert mine.grad is not None
            yield f"gradient {number} {step}", gather(mine.grad)
        yield from ((f"state {number} {name}", value) for name, value in norm.state_dict().items())
        norm.eval()
        if norm.track_running_stats:
            yield f"eval {number}", gather(norm(crew.share(rows)))


def by_hand() -> Facts:
    """Small exchanges whose outcome is known without computing."""
    crew = current()
    row = torch.tensor([[1.0 + crew.rank, -1.0]], requires_grad=True)
    everybody = gather(row)
    (everybody * torch.tensor([[10.0, 1.0], [20.0, 2.0]])).sum().backward()

    both, second_only, nobody = (nn.Parameter(torch.zeros(2, 1)) for _ in range(3))
    both.grad = torch.full((2, 1), 1.0 + 2 * crew.rank)
    if crew.rank == 1:
        second_only.grad = torch.full((2, 1), 4.0)
    average_gradients([nobody, both, second_only])
    assert nobody.grad is None and second_only.grad is not None and row.grad is not None

    norm = nn.BatchNorm2d(2)
    before = dict(norm.named_parameters())
    keys = list(norm.state_dict())
    synchronise_norms(norm)
    assert isinstance(norm, nn.BatchNorm2d) and type(norm) is not nn.BatchNorm2d
    assert list(norm.state_dict()) == keys and all(before[n] is p for n, p in norm.named_parameters())
    assert norm(torch.rand(2, 2, 3, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16

    layer = nn.Conv2d(2, 2, 2)
    layer.weight = nn.Parameter(torch.full((2, 2, 2, 2), crew.rank + 5.0).to(memory_format=torch.channels_last))
    layer.register_buffer("memory", torch.tensor(crew.rank + 1), persistent=False)
    same_everywhere(layer)
    return {
        "crew": torch.tensor([crew.rank, crew.size]),
        "labels": gather(torch.tensor([[crew.rank, 7], [8, 9]]).T),
        "gathered": everybody.detach(),
        "gradient": row.grad,
        "both": both.grad,
        "second only": second_only.grad,
        "mean": mean_over_crew({"loss": torch.tensor(1.0 + 2 * crew.rank, requires_grad=True)})["loss"],
        "broadcast": torch.stack([layer.weight.min(), layer.weight.max(), *layer.buffers()]).detach(),
    }


def study() -> Facts:
    """The trainings and norms, as one process or as part of a crew, under one name each."""
    parts = {
        "float64": train(torch.float64),
        "float32": train(torch.float32),
        "norm": dict(normalise()),
    }
    return {f"{part} {name}": value for part, facts in parts.items() for name, value in facts.items()}


def write(folder: Path) -> None:
    """Leave what each process found out in files of its own."""
    rank, threads = current().rank, torch.tensor(torch.get_num_threads())
    torch.set_num_threads(1)
    torch.save(study(), folder / f"study-{rank}.pt")
    torch.save(by_hand() | {"threads": threads}, folder / f"by-hand-{rank}.pt")


def fail() -> None:
    """Rank 1 makes a mistake; rank 0 waits for it in vain, and would then work on for ever."""
    if current().rank == 1:
        raise SfumatoError("the loss is not a number", "lower the learning rate")
    with suppress(RuntimeError):
        dist.barrier()
    time.sleep(600)


class Counted:
    """A training that only counts its steps; in the third rank 0 interrupts the parent, and every process a second time."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, number: int) -> dict[str, Tensor]:
        self.steps += 1
        parent = parent_process()
        if self.steps == 3 and current().main and parent is not None and parent.pid is not None:
            kill(parent.pid, SIGINT)
            kill(getpid(), SIGINT)
        time.sleep(0.02)
        return {}

    def watch(self) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, int]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.steps = state["steps"]

    def strip(self) -> list[Tensor]:
        return [torch.zeros(1, 3, 2, 2, dtype=torch.uint8)]


def play(folder: Path) -> None:
    """A phase of minutes, which is not saved before its end."""
    counted, run = Counted(), RunFolder(folder / "run")
    phase = Phase("long", 10**4, counted.step, counted.watch)
    try:
        Player([phase], counted, run, torch.device("cpu"), timing=Timing(10**6, 10**6, 10**6)).play()
    except KeyboardInterrupt:
        (folder / f"steps-{current().rank}").write_text(str(counted.steps))
        raise


def interrupted(folder: Path) -> None:
    """Once both work, rank 0 interrupts their parent; each saves, although its interrupt comes twice, as in a terminal."""
    try:
        dist.barrier()
        parent = parent_process()
        if current().main and parent is not None and parent.pid is not None:
            kill(parent.pid, SIGINT)
        time.sleep(600)
    except KeyboardInterrupt:
        kill(getpid(), SIGINT)
        (folder / f"saved-{current().rank}").touch()
        raise
