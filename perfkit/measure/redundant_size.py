"""Sizes that a workload already has: such a variant would repeat the baseline."""

import torch

from perfkit.core.errors import PerfkitError
from perfkit.core.spec import WorkloadSpec
from perfkit.measure.rank.loaded_data import collect_batch_facts
from perfkit.measure.schedule import Techniques
from perfkit.store.request import BenchRequest
from perfkit.techniques.compose import resize_workload
from perfkit.workloads.workload import Workload, count_samples, draw_first_batch
from perfkit.workloads.workload_table import load_workload


def explain_redundant_size(request: BenchRequest, techniques: Techniques) -> str:
    """Explain why techniques that set the workload's size change nothing; empty if they do, or set none.

    Batches are drawn only where as many units are in them.
    """
    bare = WorkloadSpec(name=request.workload.name)
    if resize_workload(bare, techniques) == bare:
        return ""
    try:
        own, changed = (
            load_workload(spec, device=request.device)
            for spec in (request.workload, resize_workload(request.workload, techniques))
        )
        same = own.units_per_batch == changed.units_per_batch and _collect_sizes(own) == _collect_sizes(changed)
    except PerfkitError:
        return ""  # reported where the variant is built
    return f"{own.name} already has this size" if same else ""


def read_batch_size(workload: WorkloadSpec, device: str) -> int | None:
    """Samples in a batch of the workload on a kind of device; None if unknown."""
    built = load_workload(workload, device=device)
    return count_samples(draw_first_batch(built, torch.Generator().manual_seed(0)))


def read_batch_facts(workload: WorkloadSpec, device: str) -> dict[str, float]:
    """`batch_size` and `sequence_length` of the workload's batches on a kind of device, where known."""
    return _collect_sizes(load_workload(workload, device=device))


def _collect_sizes(workload: Workload) -> dict[str, float]:
    return collect_batch_facts(draw_first_batch(workload, torch.Generator().manual_seed(0)))
