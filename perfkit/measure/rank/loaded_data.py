"""The batches a run trains on: a pool made before any measuring, cycled through."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from perfkit.instruments.training.tensors import get_address
from perfkit.workloads.workload import Batch, Workload, check_batch, count_samples, join_batches, split_batch

POOL_BATCHES = 16
POOL_BYTES = 256 * 2**20


class StepBatches(Protocol):
    """The batches of each step."""

    def step(self, index: int, microbatches: int) -> Iterable[Batch]:
        """The microbatches of optimizer step `index`."""
        ...


class BatchSource(StepBatches, Protocol):
    """Source of batches: made before the first step (`BatchPool`) or in every step (`LoadedBatches`)."""

    @property
    def nbytes(self) -> int:
        """Bytes of all that are kept, in main memory."""
        ...

    def addresses(self) -> frozenset[int]:
        """Addresses of the storages of all batches that are kept."""
        ...

    def rewind(self, index: int) -> None:
        """Give optimizer step `index` the first batch again: warm-up takes more steps in some variants than in others,
        and a pass has to meet the same batches in all.
        """
        ...

    def suspend(self) -> None:
        """Let nothing work on batches until `resume`."""
        ...

    def resume(self) -> None: ...


@dataclass(frozen=True)
class Microbatches:
    """So many microbatches, each made when the step comes to it."""

    count: int
    made: Callable[[], Iterator[Batch]]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Batch]:
        return self.made()


def make_microbatches(batches: StepBatches, index: int, accumulation: int, parts: int) -> Microbatches:
    """The microbatches of optimizer step `index`: each batch in equal parts."""

    def parts_of_batches() -> Iterator[Batch]:
        for batch in batches.step(index, accumulation):
            yield from split_batch(batch, parts)

    return Microbatches(accumulation * parts, parts_of_batches)


class BatchPool:
    """Host batches that depend on seed, ranks and index alone, so that every variant trains on the same data.

    Of several ranks the batches are joined to one, in their order.

    At most `most` different batches, fewer where they would exceed `POOL_BYTES`. Floating-point inputs are cast to the
    parameters' dtype. For a GPU they are pinned.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        seed: int,
        ranks: Sequence[int],
        dtype: torch.dtype,
        pinned: bool,
        most: int = POOL_BATCHES,
    ) -> None:
        first = _make_batch(workload, seed, ranks, 0, dtype, pinned)
        size = sum(tensor.nbytes for tensor in first.values()) // len(ranks)  # the total of one-rank runs
        count = max(1, min(most, POOL_BYTES // max(1, size)))
        self._batches = [
            first,
            *(_make_batch(workload, seed, ranks, index, dtype, pinned) for index in range(1, count)),
        ]
        self._first = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all batches, in main memory."""
        return sum(tensor.nbytes for batch in self._batches for tensor in batch.values())

    def addresses(self) -> frozenset[int]:
        """Addresses of the storages of all batches."""
        return frozenset(get_address(tensor.untyped_storage()) for batch in self._batches for tensor in batch.values())

    def step(self, index: int, microbatches: int) -> list[Batch]:
        """The microbatches of optimizer step `index`."""
        first = (index - self._first) * microbatches
        return [self._batches[(first + offset) % len(self._batches)] for offset in range(microbatches)]

    def rewind(self, index: int) -> None:
        """Give optimizer step `index` the first batch."""
        self._first = index

    def weigh_steps(self, count: int, microbatches: int) -> list[tuple[int, int]]:
        """The first of the steps from 0 on with batches of the same shapes, each with the number of such steps among
        `count`."""
        shapes = [get_shapes(batch) for batch in self._batches]
        numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes))}
        kinds = [numbers[shape] for shape in shapes]
        steps: dict[tuple[int, ...], list[int]] = {}
        for step in range(count):
            first = step * microbatches
            parts = tuple(kinds[(first + offset) % len(kinds)] for offset in range(microbatches))
            steps.setdefault(parts, []).append(step)
        return [(alike[0], len(alike)) for alike in steps.values()]

    def suspend(self) -> None:
        """All are made."""

    def resume(self) -> None:
        """As above."""


def _make_batch(
    workload: Workload, seed: int, ranks: Sequence[int], index: int, dtype: torch.dtype, pinned: bool
) -> Batch:
    make, made_by = workload.make_batch, f"make_batch of {workload.name}"
    assert make is not None
    batches = (make(torch.Generator().manual_seed(compute_data_seed(seed, rank, index))) for rank in ranks)
    cast = cast_batch(join_batches([check_batch(batch, made_by) for batch in batches]), dtype)
    return {name: tensor.pin_memory() for name, tensor in cast.items()} if pinned else cast


def compute_data_seed(seed: int, rank: int, index: int) -> int:
    """Distinct for every (seed, rank, index): ranks and indices stay far below the factors."""
    return (seed * 4096 + rank) * 65536 + index


def cast_batch(batch: Batch, dtype: torch.dtype) -> Batch:
    """The batch with floating-point tensors in the parameters' dtype."""
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in batch.items()}


def get_shapes(batch: Batch) -> tuple[tuple[str, torch.Size], ...]:
    """The shape of each tensor of a batch."""
    return tuple((name, tensor.shape) for name, tensor in sorted(batch.items()))


def collect_batch_facts(batch: Batch) -> dict[str, float]:
    """`batch_size`, the samples of a batch, and `sequence_length`, the second dimension of its tables of integers.

    Each is left out where the tensors do not agree on one.
    """
    lengths = {tensor.shape[1] for tensor in batch.values() if tensor.dim() == 2 and not tensor.is_floating_point()}
    samples = count_samples(batch)
    facts = {"batch_size": samples, "sequence_length": lengths.pop() if len(lengths) == 1 else None}
    return {name: float(value) for name, value in facts.items() if value is not None}
