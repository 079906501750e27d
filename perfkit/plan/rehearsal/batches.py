"""Makes batches of fake tensors: from the workload, or like the first of its DataLoader."""

from collections.abc import Iterator, Sequence

import torch

from perfkit.core.spec import RunSpec
from perfkit.cost.torch_dispatch import disable_modes
from perfkit.instruments.training.tensors import get_address, get_torch_dtype
from perfkit.measure.rank.loaded_batches import LoadedBatches
from perfkit.measure.rank.loaded_data import BatchPool
from perfkit.workloads.loaders import LoaderChanges
from perfkit.workloads.workload import Batch, Workload


class RepeatedBatch:
    """Batches with the shapes of a DataLoader's first one, which is actually loaded in this process."""

    def __init__(self, workload: Workload, spec: RunSpec, rank: int) -> None:
        with disable_modes():
            loaded = LoadedBatches(
                workload,
                seed=spec.seed,
                rank=rank,
                dtype=get_torch_dtype(spec.dtype),
                loading=LoaderChanges(options={"num_workers": 0}),
            )
            (first,) = loaded.step(0, 1)
        self.loaded: Batch = first
        self._batch = {
            name: torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            for name, tensor in first.items()
        }

    @property
    def nbytes(self) -> int:
        """0: each step loads its own batches."""
        return 0

    def addresses(self) -> frozenset[int]:
        """Addresses of the batch's storages."""
        return frozenset(get_address(tensor.untyped_storage()) for tensor in self._batch.values())

    def step(self, _index: int, microbatches: int) -> list[Batch]:
        """The step's microbatches."""
        return [self._batch] * microbatches


Batches = BatchPool | RepeatedBatch


def make_batches(workload: Workload, spec: RunSpec, ranks: Sequence[int], steps: int) -> Batches:
    """The batches of so many steps of a rank of a run, or of several as one, made while tensors have no contents."""
    if workload.make_loader is not None:
        return RepeatedBatch(workload, spec, ranks[0])
    most = steps * spec.accumulation
    return BatchPool(workload, seed=spec.seed, ranks=ranks, dtype=get_torch_dtype(spec.dtype), pinned=False, most=most)


def pair_with_real_batches(
    batches: Batches, workload: Workload, spec: RunSpec, ranks: Sequence[int], steps: int
) -> Iterator[tuple[Batch, Batch]]:
    """Pair the batches of so many steps, which have no contents, with those of a run."""
    if isinstance(batches, RepeatedBatch):
        yield batches.step(0, 1)[0], batches.loaded
        return
    with disable_modes():
        real = make_batches(workload, spec, ranks, steps)
    for step in range(steps):
        yield from zip(batches.step(step, spec.accumulation), real.step(step, spec.accumulation), strict=True)
