"""`data`: other ways of loading the workload's batches."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import torch
from torch.utils.data import DataLoader, IterableDataset

from perfkit.core.allocations import HOST, OTHER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import ParamValue
from perfkit.devices.accelerator import is_cpu
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import ESTIMATED, Counted, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanMode, PlanSupport, Purpose, Stage, Technique
from perfkit.workloads.loaders import LoaderChanges, build_loader, has_equal_first_batch, is_random


class Data(Technique):
    """Loads batches by other options of the DataLoader: in worker processes during the step, ahead of time, from pinned
    memory.

    It acts on `images` and on workloads with [`make_loader`](../workloads.md#a-dataloader-of-your-own), which gets
    `format` and `augment`. Shards are tar files that webdataset reads in order. Each worker needs a core; its CPU time
    is not in the report's. The share of the steps spent waiting for the loader is reported, but is no claim.

    Losses are the same with any number of workers. They are not comparable with `augment`, with a dataset that draws
    from its process's random numbers, and with several workers of an iterable dataset such as shards.
    """

    name: ClassVar[str] = "data"
    summary: ClassVar[str] = "load batches in worker processes, ahead of time, from pinned memory or packed shards"
    stage: ClassVar[Stage] = Stage.WORKLOAD
    purpose: ClassVar[Purpose] = Purpose.INPUT
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    advice: ClassVar[tuple[str, ...]] = ("data.starved", "sync.copy", "copy.pageable")
    planning: ClassVar[Planning] = Planning(ESTIMATED, Counted.ALL)
    when: ClassVar[str] = "when steps wait for their data"
    costs: ClassVar[str] = "a core and a process's memory per worker; disk space for shards"
    paper: ClassVar[str] = (
        "Mohan et al., Analyzing and Mitigating Data Stalls in DNN Training, VLDB 2021, "
        "https://arxiv.org/abs/2007.06775"
    )
    examples: ClassVar[tuple[str, ...]] = (
        "data:workers=1",
        "data:workers=2:prefetch=4:persistent=true",
        "data:pin=true:non_blocking=true",
        "data:workers=0:format=shards",
        "data:workers=0:augment=albumentations",
    )

    workers: (
        Annotated[int, msgspec.Meta(ge=0, description="loader worker processes; default the loader's own, at least 1")]
        | None
    ) = None
    prefetch: (
        Annotated[int, msgspec.Meta(ge=1, description="batches prefetched per worker; default the loader's own")] | None
    ) = None
    persistent: Annotated[bool, msgspec.Meta(description="workers persist across epochs")] = False
    pin: Annotated[bool, msgspec.Meta(description="batches in pinned memory (GPU)")] = False
    non_blocking: Annotated[bool, msgspec.Meta(description="asynchronous copies to the GPU")] = False
    format: Annotated[Literal["files", "shards"], msgspec.Meta(description="storage of the workload's data")] | None = (
        None
    )
    augment: (
        Annotated[
            Literal["pillow", "albumentations"],
            msgspec.Meta(description="augmentation library for the workload's images"),
        ]
        | None
    ) = None

    def propose_settings(self, device: torch.device) -> Mapping[str, tuple[ParamValue, ...]]:
        if not self.workers:
            return {"workers": (1,)}
        return {"workers": (2 * self.workers,), "prefetch": (2 * (self.prefetch or 2),), "persistent": (True,)}

    def __post_init__(self) -> None:
        if self.workers == 0 and (self.prefetch is not None or self.persistent):
            raise ValueError("prefetch and persistent need workers; omit workers=0")

    def package(self) -> Package | None:
        if self.augment == "albumentations":
            return Package("albumentations", "albumentations albucore==0.0.24")
        return Package("webdataset", "webdataset") if self.format == "shards" else None

    def unavailable(self, device: torch.device) -> str | None:
        if is_cpu(device) and (self.pin or self.non_blocking):
            return "pin and non_blocking affect only copies to a GPU, and this run has none"
        return None

    def plannable(self) -> PlanSupport:
        return PlanSupport(
            PlanMode.LEFT_OUT,
            "a step's own memory is unchanged; worker processes and pinned batches need more",
        )

    def apply(self, state: TrainState) -> TrainState:
        workload = state.workload
        if workload.make_loader is None:
            raise UnavailableError(
                f"{workload.name} makes its batches before training; there is no DataLoader (make_loader)"
            )
        loader = build_loader(workload, torch.Generator().manual_seed(0), LoaderChanges())
        changed = self._build_loading(loader)
        other = build_loader(workload, torch.Generator().manual_seed(0), changed)
        if self.non_blocking and not (self.pin or loader.pin_memory):
            raise UnavailableError("copies from pageable memory are synchronous; add pin=true")
        if self.prefetch is not None and not _count_batches_ahead(other):
            raise UnavailableError("workers prefetch within an epoch, and an epoch has only one batch")
        if other.num_workers > 1 and _has_drop_last(other) and not _can_make_batch(other):
            raise UnavailableError(
                f"no worker's share of the data fills a batch: each of {other.num_workers} workers makes batches of "
                "its own part; use fewer workers or a smaller batch"
            )
        state.loading = changed
        state.non_blocking = state.non_blocking or self.non_blocking
        state.parity_rules += self._make_parity_rules(loader, other)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        workers = state.loading.options["num_workers"] if self.workers is None else self.workers
        return tuple(self._make_claims(workers, state))

    def _build_loading(self, loader: DataLoader[Any]) -> LoaderChanges:
        workers = max(1, loader.num_workers) if self.workers is None else self.workers
        options: dict[str, Any] = {"num_workers": workers}
        if self.prefetch is not None:
            options["prefetch_factor"] = self.prefetch
        if self.persistent:
            options["persistent_workers"] = True
        if self.pin:
            options["pin_memory"] = True
        asked = {"format": self.format, "augment": self.augment}
        return LoaderChanges({name: value for name, value in asked.items() if value is not None}, options)

    def _make_parity_rules(self, loader: DataLoader[Any], other: DataLoader[Any]) -> Iterator[ParityRule]:
        if (self.format or self.augment) and not has_equal_first_batch(loader, other):
            yield ParityRule(relative=None, basis="the first batch differs: other samples, order or augmentation")
        if other.num_workers == loader.num_workers and type(other.dataset) is type(loader.dataset):
            return
        if isinstance(other.dataset, IterableDataset) and max(other.num_workers, loader.num_workers) > 1:
            yield ParityRule(relative=None, basis="batches alternate between the workers' parts of the data")
        elif is_random(other):
            basis = "the dataset uses its process's random numbers, which differ in a worker"
            yield ParityRule(relative=None, basis=basis)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        return {OTHER: math.inf, HOST: math.inf}  # batches that are loaded ahead

    def _make_claims(self, workers: int, state: TrainState) -> Iterator[Claim]:
        yield self._make_claim(
            "this many worker processes make batches", "loader_workers", Relation.EQUAL, float(workers)
        )
        if self.prefetch is not None:
            loader = build_loader(state.workload, torch.Generator().manual_seed(0), state.loading)
            ahead = min(workers * self.prefetch, _count_batches_ahead(loader))
            yield self._make_claim(
                "the given number of batches is prefetched", "loader_prefetched", Relation.EQUAL, float(ahead)
            )
        if self.persistent:
            lived_on = "the first epoch's workers serve all epochs"
            yield self._make_claim(lived_on, "loader_processes", Relation.EQUAL, float(workers))
        if self.pin:
            yield self._make_claim("batches come in pinned memory", "loader_pinned", Relation.EQUAL, 1.0)
        if self.non_blocking:
            yield self._make_claim("copies are asynchronous", "nonblocking_copies", Relation.EQUAL, 1.0)
        if self.format == "shards":
            yield self._make_claim("shards are read", "batch_calls:webdataset", Relation.AT_LEAST, 1.0)
        if self.augment == "albumentations":
            yield self._make_claim("images are augmented", "batch_calls:albumentations", Relation.AT_LEAST, 1.0)


def _count_batches_ahead(loader: DataLoader[Any]) -> float:
    """Batches that are left of an epoch while the first is trained on; of an iterable dataset that is not known."""
    return math.inf if isinstance(loader.dataset, IterableDataset) else len(loader) - 1


def _has_drop_last(loader: DataLoader[Any]) -> bool:
    """True if a worker yields only batches that its own part of the data fills."""
    return isinstance(loader.dataset, IterableDataset) and bool(loader.drop_last)


def _can_make_batch(loader: DataLoader[Any]) -> bool:
    with torch.random.fork_rng(devices=[]):
        return next(iter(loader), None) is not None
