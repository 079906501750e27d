"""Describes other load of the machine, a possible cause of inconclusive results."""

from collections.abc import Iterable, Sequence

from perfkit.core.record.environment import MachineLoad
from perfkit.core.units import format_percent

# The share of the cores that other processes and the hypervisor may take before it is worth a word.
BUSY = 0.1
# The share of its periods in which a container's limit may stop tasks.
THROTTLED = 0.05


def combine_loads(loads: Iterable[MachineLoad | None]) -> MachineLoad | None:
    """The load over several windows, each weighing as much as it lasted; None without one.

    A value is the mean over the windows that have it. The cores are those of the last window.
    """
    known = [load for load in loads if load is not None and load.seconds > 0]
    if not known:
        return None
    return MachineLoad(
        seconds=sum(load.seconds for load in known),
        cores=known[-1].cores,
        own_cores=_compute_mean([(load.own_cores, load.seconds) for load in known]),
        other_cores=_compute_mean([(load.other_cores, load.seconds) for load in known]),
        stolen_cores=_compute_mean([(load.stolen_cores, load.seconds) for load in known]),
        waiting_share=_compute_mean([(load.waiting_share, load.seconds) for load in known]),
        throttled_share=_compute_mean([(load.throttled_share, load.seconds) for load in known]),
    )


def describe_machine_load(load: MachineLoad | None) -> str:
    """Other load of the machine during measurement, as a sentence without its end; "" where it was quiet.

    Also "" where the load is unknown.
    """
    if load is None:
        return ""
    parts = [
        f"{who} {cores:.1f} of {load.cores} core{'' if load.cores == 1 else 's'}"
        for who, cores in (("other processes used", load.other_cores), ("the hypervisor took", load.stolen_cores))
        if cores is not None and cores / load.cores >= BUSY
    ]
    if load.throttled_share is not None and load.throttled_share >= THROTTLED:
        parts.append(
            f"the container's CPU limit throttled it in {format_percent(load.throttled_share, 0)} of all periods"
        )
    return f"{', '.join(parts)} during measurement" if parts else ""


def _compute_mean(values: Sequence[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in values if value is not None]
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known) if known else None
