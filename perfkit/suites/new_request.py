"""The request of a new suite on this machine, before its options."""

from perfkit.devices.machine.device_choice import ChosenDevice
from perfkit.devices.machine.machine import count_available_cores
from perfkit.store.request import BenchRequest
from perfkit.workloads.workload_table import resolve_workload


def make_request(
    workload: str,
    target: ChosenDevice,
    batch_size: int | None = None,
    seq_len: int | None = None,
    accumulate: int = 1,
) -> BenchRequest:
    """The request of a workload on a device, without variants. Raises what `resolve_workload` does."""
    return BenchRequest(
        workload=resolve_workload(workload, target.kind, batch_size, seq_len, accumulate),
        variants=(),
        device=target.kind,
        device_count=target.visible,
        cores=count_available_cores(),
    )
