"""Builds a workload's DataLoader, unchanged or with other options, and detects randomness in its batches."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.workloads.workload import Batch, Workload

# Attributes of a DataLoader to keep, besides those that select the samples of a batch.
_KEPT = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "in_order",
)
_WITHOUT_WORKERS: Mapping[str, Any] = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "multiprocessing_context": None,
    "timeout": 0,
}


@dataclass
class LoaderChanges:
    """Changes of a workload's DataLoader: `arguments` go to its `make_loader` besides the generator, `options` replace
    the DataLoader's own."""

    arguments: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def build_loader(workload: Workload, generator: torch.Generator, loading: LoaderChanges) -> DataLoader[Any]:
    """Build the workload's DataLoader with changes.

    Raises `UsageError` if `make_loader` returns something else, and `UnavailableError` if it does not take the
    arguments, or the DataLoader is of a custom class that cannot be rebuilt.
    """
    make = workload.make_loader
    assert make is not None, "only asked for where the workload has a DataLoader"
    lacking = [name for name in loading.arguments if not _can_take(make, name)]
    if lacking:
        raise UnavailableError(f"make_loader of {workload.name} takes no {' or '.join(lacking)}")
    loader = make(generator, **loading.arguments)
    if not isinstance(loader, DataLoader):
        raise UsageError(
            f"make_loader of {workload.name} returned a {type(loader).__name__}; expected a torch.utils.data.DataLoader"
        )
    return rebuild_loader(loader, loading.options)


def _can_take(function: Callable[..., object], name: str) -> bool:
    parameters = inspect.signature(function).parameters
    return name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def rebuild_loader(loader: DataLoader[Any], options: Mapping[str, Any]) -> DataLoader[Any]:
    """Rebuild a DataLoader with the same samples, batches and order, and these options.

    Raises `UnavailableError` for a custom class, which may take other arguments or do more than torch's.
    """
    if not options:
        return loader
    if type(loader) is not DataLoader:
        raise UnavailableError(
            f"the workload's loader is a {type(loader).__name__}; only torch's own DataLoader can be rebuilt "
            "with other options"
        )
    kept = {name: getattr(loader, name) for name in _KEPT}
    if options.get("num_workers", loader.num_workers) == 0:
        kept |= _WITHOUT_WORKERS
    return DataLoader(loader.dataset, **_get_sampling(loader), **{**kept, **options})


def _get_sampling(loader: DataLoader[Any]) -> dict[str, Any]:
    if isinstance(loader.dataset, IterableDataset):
        return {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    if loader.batch_sampler is None:
        return {"batch_size": None, "sampler": loader.sampler}
    return {"batch_sampler": loader.batch_sampler}


def is_random(loader: DataLoader[Any]) -> bool:
    """True if the same samples differ when requested again.

    They then depend on random numbers of the process that makes them, and differ in another process.
    """
    with torch.random.fork_rng(devices=[]):
        first, again = _load_first_batch_twice(loader)
    return not _is_equal(first, again)


def has_equal_first_batch(loader: DataLoader[Any], other: DataLoader[Any]) -> bool:
    """True if the first batches of both are equal, given the same random numbers of torch."""
    batches = []
    for side in (loader, other):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            batches.append(next(iter(rebuild_loader(side, {"num_workers": 0}))))
    return _is_equal(*batches)


def _is_equal(batch: Batch, other: Batch) -> bool:
    return batch.keys() == other.keys() and all(torch.equal(batch[name], other[name]) for name in batch)


def _load_first_batch_twice(loader: DataLoader[Any]) -> tuple[Batch, Batch]:
    if isinstance(loader.dataset, IterableDataset):
        here = rebuild_loader(loader, {"num_workers": 0})
        return next(iter(here)), next(iter(here))
    if loader.batch_sampler is None:
        index = next(iter(loader.sampler))
        return loader.collate_fn(loader.dataset[index]), loader.collate_fn(loader.dataset[index])
    indices = next(iter(loader.batch_sampler))
    first, again = ([loader.dataset[index] for index in indices] for _ in range(2))
    return loader.collate_fn(first), loader.collate_fn(again)


def start_epoch(loader: DataLoader[Any], epoch: int) -> None:
    """Tell its dataset and samplers which time they are gone through, as training loops do: `set_epoch`."""
    for part in (loader.dataset, loader.sampler, loader.batch_sampler):
        set_epoch = getattr(part, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
