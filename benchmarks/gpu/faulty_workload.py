"""A small workload in which rank 1 fails at its third loss, while rank 0 goes on to the all-reduce of its gradients."""

import os
import signal
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from perfkit import Workload

FAILS_AT = 3  # losses; perfkit has then recorded collectives of two steps
HANGS_S = 1000.0
NUMBERS = {"0": 2**22, "1": 2**20}  # of the tensors that the ranks reduce, by rank: NCCL waits for the rest


def _hang() -> None:
    time.sleep(HANGS_S)


def _end_by_signal() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


RANK_1: dict[str, Callable[[], None]] = {"hung": _hang, "killed": _end_by_signal}


def build(fault: str) -> Workload:
    """The workload with `hung`, `killed` or `shape`: the ranks then reduce tensors of different sizes."""
    rank = os.environ["RANK"]
    calls = 0

    def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == FAILS_AT and fault == "shape":
            dist.all_reduce(torch.ones(NUMBERS[rank], device=batch["x"].device))
        elif calls == FAILS_AT and rank == "1":
            RANK_1[fault]()
        output: torch.Tensor = model(batch["x"])
        return output.square().mean()

    return Workload(
        name="faulty",
        unit="samples",
        units_per_batch=4,
        build_model=lambda: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1)),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.randn(4, 8, generator=generator)},
        loss=loss,
    )
