"""FLOPs of an attached loop's steps: those of its traces, over the time of its timed steps.

A trace shows the work of a step, not its time: the profiler slows it down.
"""

from collections.abc import Sequence

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.suite.runs import sum_over_ranks
from perfkit.analysis.trace.roofline.flops_utilization import PeakRate, find_peak_of_mix
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.core.record import Flops, Quantity, Unknown
from perfkit.cost.calls.op_call import ComputeUnit


def sum_trace_flops(traces: Sequence[RankTrace], world_size: int) -> Flops:
    """FLOPs of a step over all ranks, unknown with the reason where a rank's are not known."""
    return Flops(
        model=_sum_ranks([_get_step_flops(trace, trace.model_flops) for trace in traces], world_size),
        hardware=_sum_ranks([_get_step_flops(trace, trace.hardware_flops) for trace in traces], world_size),
    )


def find_trace_peak(traces: Sequence[RankTrace], roofs: Roofs, world_size: int) -> PeakRate | Unknown:
    """The peak for the dtypes of the first trace with GEMMs."""
    telling = next((trace for trace in traces if trace.flops_by_precision), None)
    if telling is None:
        return Unknown(reason="GEMM dtypes unknown in all traces")
    computed = {(ComputeUnit(part.unit), part.dtype): part.flops for part in telling.flops_by_precision}
    return find_peak_of_mix(roofs, computed, world_size)


def _get_step_flops(trace: RankTrace, flops: Quantity) -> Quantity:
    return flops if trace.steps else Unknown(reason="FLOPs per step unknown: no whole step in the trace")


def _sum_ranks(flops: Sequence[Quantity], world_size: int) -> Quantity:
    if not flops:
        return Unknown(reason="FLOPs of a user's loop come from its trace, and no step was traced")
    if len(flops) < world_size:
        return Unknown(reason=f"only {len(flops)} of {world_size} ranks were traced")
    return sum_over_ranks(flops, "")
