"""Batches that a workload's DataLoader makes during training, with observations of it."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import psutil
import torch
from torch.utils.data import DataLoader

from perfkit.core.errors import UnavailableError
from perfkit.instruments.batch_calls import count_batch_calls
from perfkit.measure.rank.loaded_data import cast_batch, compute_data_seed, get_shapes
from perfkit.workloads.loaders import LoaderChanges, build_loader, rebuild_loader, start_epoch
from perfkit.workloads.workload import Batch, Workload, check_batch, make_no_batch_error


class LoadedBatches:
    """The batches of a DataLoader in its order, from its beginning at step 0 on, epoch after epoch.

    What it draws at random follows from seed, rank and epoch alone, and leaves torch's generator of the process as it
    was: so that batches and training are the same with any number of workers, if the dataset's are.

    Attributes:
        waited_s: how long was waited for batches in all.
    """

    def __init__(self, workload: Workload, *, seed: int, rank: int, dtype: torch.dtype, loading: LoaderChanges) -> None:
        self.waited_s = 0.0
        self._workload = workload
        self._seed, self._rank = seed, rank
        self._dtype = dtype
        self._loading = loading
        self._batches: Iterator[Any] | None = None
        self._loader: DataLoader[Any] | None = None
        self._epoch = 0
        self._seen = {"loader_workers": 0.0, "loader_prefetched": 0.0, "loader_pinned": 0.0}
        self._processes: set[int] = set()
        self._shapes: set[object] = set()
        # Read before the process is pinned to cores: those are for training.
        self._cores = os.sched_getaffinity(0) if sys.platform == "linux" else None

    @property
    def nbytes(self) -> int:
        """None are kept."""
        return 0

    @property
    def varies(self) -> bool:
        """True if the batches that were loaded so far differ in shape."""
        return len(self._shapes) > 1

    def rewind(self, index: int) -> None:
        """Change nothing: to begin again starts worker processes, for which the first step would wait."""

    def addresses(self) -> frozenset[int]:
        """As above."""
        return frozenset()

    def step(self, index: int, microbatches: int) -> Iterator[Batch]:
        """The next microbatches, made on demand; those of step 0 are the first."""
        if index == 0:
            self.close()
        return (self._load_next() for _ in range(microbatches))

    def collect_facts(self, non_blocking: bool) -> dict[str, float]:
        """Collect facts about the DataLoader since its beginning, see `perfkit.FACTS`; `non_blocking`: how its batches
        were copied."""
        copies = {"nonblocking_copies": self._seen["loader_pinned"] if non_blocking else 0.0}
        lived_on = {"loader_processes": float(len(self._processes))} if self._epoch else {}
        return self._seen | copies | lived_on

    def count_batch_calls(self) -> dict[str, float]:
        """Result of `count_batch_calls`; empty if the DataLoader is of a custom class."""
        try:
            return count_batch_calls(rebuild_loader(self._make_loader(), {"num_workers": 0}))
        except UnavailableError:
            return {}

    def suspend(self) -> None:
        """Stop its worker processes while another variant's step is timed: they would take its CPU time."""
        self._signal_workers(psutil.Process.suspend)

    def resume(self) -> None:
        """Resume its worker processes."""
        self._signal_workers(psutil.Process.resume)

    def close(self) -> None:
        """End its worker processes; the next request starts from the beginning."""
        self.resume()
        self._batches = self._loader = None
        self._epoch = 0

    def _load_next(self) -> Batch:
        start = perf_counter()
        batch = None if self._batches is None else next(self._batches, None)
        if batch is None:
            batch = self._start_epoch(0 if self._batches is None else self._epoch + 1)
        self.waited_s += perf_counter() - start
        self._seen["loader_prefetched"] = max(self._seen["loader_prefetched"], self._count_in_flight())
        checked = check_batch(batch, f"make_loader of {self._workload.name}")
        if len(self._shapes) < 2:
            self._shapes.add(get_shapes(checked))
        return cast_batch(checked, self._dtype)

    def _start_epoch(self, epoch: int) -> object:
        """The first batch of an epoch. What is random in order and workers is drawn until then."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(compute_data_seed(self._seed, self._rank, epoch))
            if self._loader is None:
                self._loader = self._make_loader()
            start_epoch(self._loader, epoch)
            if epoch and self._loader.persistent_workers:
                # Restarted workers are seeded from the generator that may also determine the order.
                torch.empty((), dtype=torch.int64).random_(generator=self._loader.generator)
            self._batches = iter(self._loader)
            batch = next(self._batches, None)
        if batch is None:
            raise make_no_batch_error(self._workload)
        self._epoch = epoch
        self._observe_workers(batch)
        return batch

    def _make_loader(self) -> DataLoader[Any]:
        generator = torch.Generator().manual_seed(compute_data_seed(self._seed, self._rank, 0))
        return build_loader(self._workload, generator, self._loading)

    def _observe_workers(self, batch: object) -> None:
        """Once an epoch, and not in every step, whose time it would take."""
        alive = [worker for worker in self._get_workers() if worker.is_alive()]
        self._processes |= {worker.pid for worker in alive}
        self._seen["loader_workers"] = float(len(alive))
        if isinstance(batch, dict):
            self._seen["loader_pinned"] = float(
                all(value.is_pinned() for value in batch.values() if isinstance(value, torch.Tensor))
            )
        if self._cores is not None:
            for worker in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(worker.pid, self._cores)

    # torch reports neither of these otherwise.
    def _get_workers(self) -> list[Any]:
        return getattr(self._batches, "_workers", [])

    def _count_in_flight(self) -> float:
        return float(getattr(self._batches, "_tasks_outstanding", 0))

    def _signal_workers(self, what: Callable[[psutil.Process], None]) -> None:
        for worker in self._get_workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                what(psutil.Process(worker.pid))
