"""One rank of a calibration of the interconnect:

    python -m perfkit.devices.links.time_collectives STORE RANK RANKS DEVICE [--short] [--gpus=0,2]

Rank 0 prints what it took, as JSON. Gloo on a CPU, NCCL among GPUs, one a rank: those named by CUDA's numbers, or the
first ones.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import msgspec
import torch
import torch.distributed as dist
from torch.distributed import FileStore

from perfkit.devices.accelerator import get_accelerator, is_cpu
from perfkit.devices.ceilings.repeats import compute_quantile_rate
from perfkit.devices.links.collective_times import CollectiveTimes

_ELEMENT = 4  # bytes of fp32
_WINDOW_S = 1e-3  # calls that are shorter are made several times before the clock is read again
_MOST_CALLS = 64
_QUANTILE = 0.99
_GPUS = "--gpus="


class LinkEffort(NamedTuple):
    """Effort of a link measurement: repeats, limits on seconds and windows, and message sizes in bytes."""

    repeats: int
    budget_s: float
    windows: int
    sizes: tuple[int, ...]


# To 16 MiB, and to 256 MiB among GPUs, whose links are full only then.
SHORT = {"cpu": LinkEffort(5, 0.005, 30, tuple(4**power for power in range(5, 13)))}
SHORT["cuda"] = SHORT["cpu"]._replace(sizes=tuple(4**power for power in range(5, 15)))
FULL = {device: effort._replace(repeats=7, budget_s=0.05, windows=100) for device, effort in SHORT.items()}


Call = Callable[[], object]


# Training uses the sum, and other operators take other paths: NCCL's NVLS, which adds in NVSwitch, takes fp32 with the
# sum alone (`ncclNvlsSupported`).
_OPERATOR = dist.ReduceOp.SUM


def _prepare_all_reduce(elements: int, device: torch.device) -> Call:
    """All-reduce zeros: the sum replaces the message, and other numbers would grow from call to call to infinity.
    Neither NCCL nor Gloo compresses or inspects data, so zeros take as long."""
    message = torch.zeros(elements, device=device)
    return lambda: dist.all_reduce(message, op=_OPERATOR)


def _prepare_all_gather(elements: int, device: torch.device) -> Call:
    whole, part = _make_random(elements, device), _make_random(elements // dist.get_world_size(), device)
    return lambda: dist.all_gather_into_tensor(whole, part)


def _prepare_reduce_scatter(elements: int, device: torch.device) -> Call:
    whole, part = _make_random(elements, device), _make_random(elements // dist.get_world_size(), device)
    return lambda: dist.reduce_scatter_tensor(part, whole, op=_OPERATOR)  # `whole` stays


def _prepare_all_to_all(elements: int, device: torch.device) -> Call:
    sent, received = _make_random(elements, device), _make_random(elements, device)
    return lambda: dist.all_to_all_single(received, sent)


def _prepare_send(elements: int, device: torch.device) -> Call:
    """Every rank sends to the next one while it receives from the one before, as nccl-tests' sendrecv does."""
    sent, received = _make_random(elements, device), _make_random(elements, device)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    to, of = (rank + 1) % ranks, (rank - 1) % ranks

    def exchange() -> None:
        both = [dist.P2POp(dist.isend, sent, to), dist.P2POp(dist.irecv, received, of)]
        for work in dist.batch_isend_irecv(both):
            work.wait()

    return exchange


# By the names of `perfkit.cost.calls.collective.CollectiveType`; of an element count, the call that is timed.
COLLECTIVES: dict[str, Callable[[int, torch.device], Call]] = {
    "all-reduce": _prepare_all_reduce,
    "all-gather": _prepare_all_gather,
    "reduce-scatter": _prepare_reduce_scatter,
    "all-to-all": _prepare_all_to_all,
    "send": _prepare_send,
}


def measure_collectives(device: torch.device, effort: LinkEffort) -> list[CollectiveTimes]:
    """All collectives at all sizes, round by round, so that the repeats of each are spread over time.

    Every rank has to call this.
    """
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(effort.repeats):
        for name, prepared in COLLECTIVES.items():
            for size in effort.sizes:
                ranks = dist.get_world_size()
                elements = -(-size // _ELEMENT // ranks) * ranks  # every rank's part is equally large
                best = _measure_best(prepared(elements, device), effort, device)
                times.setdefault((name, elements * _ELEMENT), []).append(best)
    return [CollectiveTimes(collective=name, bytes=size, repeats_s=tuple(best)) for (name, size), best in times.items()]


def _measure_best(call: Call, effort: LinkEffort, device: torch.device) -> float:
    """Seconds of a call in the best windows; a window ends when the last rank is done."""
    call()
    first = min(_reduce_longest([_time_window(call, 1, device) for _ in range(2)], device))
    calls = max(1, min(_MOST_CALLS, int(_WINDOW_S / first)))
    windows = max(3, min(effort.windows, int(effort.budget_s / (first * calls))))
    longest = _reduce_longest([_time_window(call, calls, device) for _ in range(windows)], device)
    return 1 / compute_quantile_rate(longest, float(calls), _QUANTILE)


def _time_window(call: Call, calls: int, device: torch.device) -> float:
    dist.barrier()
    if is_cpu(device):
        start = perf_counter()
        for _ in range(calls):
            call()
        return perf_counter() - start
    begun, done = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun.record()
    for _ in range(calls):
        call()
    done.record()
    torch.cuda.synchronize(device)
    return float(begun.elapsed_time(done)) / 1e3


def _reduce_longest(seconds: list[float], device: torch.device) -> list[float]:
    """The longest over the ranks, on every rank."""
    longest = torch.tensor(seconds, dtype=torch.float64, device=device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    return longest.tolist()


def _make_random(elements: int, device: torch.device) -> torch.Tensor:
    return torch.rand(elements, device=device)


def main(
    store: str, rank: int, ranks: int, kind: str, effort: LinkEffort, gpus: Sequence[int] = ()
) -> list[CollectiveTimes]:
    torch.set_num_threads(1)
    accelerator = get_accelerator(kind)
    device = torch.device(kind)
    if accelerator.has_own_memory:
        device = torch.device(kind, gpus[rank] if gpus else rank)
        accelerator.runtime.set_device(device)
    dist.init_process_group(accelerator.backend, store=FileStore(store, ranks), rank=rank, world_size=ranks)
    try:
        return measure_collectives(device, effort)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    place, number, size, of, *options = sys.argv[1:]
    named = next((option.removeprefix(_GPUS) for option in options if option.startswith(_GPUS)), "")
    result = main(
        str(Path(place)),
        int(number),
        int(size),
        of,
        (SHORT if "--short" in options else FULL)[of],
        [int(gpu) for gpu in named.split(",") if gpu],
    )
    if number == "0":
        sys.stdout.buffer.write(msgspec.json.encode(result))
