"""Reads one quantity of an analyzed variant: one figure per process, one for all, or a reason."""

from collections.abc import Callable

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.time_split import COMMUNICATION, DATA
from perfkit.core.record.quantity import Quantity, Unknown
from perfkit.core.record.rank_record import RunStatus

Reading = tuple[float, ...] | Unknown


def make_quantity_reader(field: str) -> Callable[[Variant], Reading]:
    """A reader of a quantity of all processes together."""

    def read(variant: Variant) -> Reading:
        quantity: Quantity = getattr(variant, field)
        return quantity if isinstance(quantity, Unknown) else (quantity.value,)

    return read


def make_estimate_reader(field: str) -> Callable[[Variant], Reading]:
    """A reader of an estimate as one figure per process."""

    def read(variant: Variant) -> Reading:
        estimate: MedianEstimate | MissingEstimate = getattr(variant, field)
        return Unknown(reason=estimate.reason) if isinstance(estimate, MissingEstimate) else estimate.per_process

    return read


def explain_missing(variant: Variant, otherwise: str) -> str:
    """The reason for missing data: the variant's status if it failed."""
    if variant.status == RunStatus.OK:
        return otherwise
    return f"{variant.status}: {variant.reason}" if variant.reason else str(variant.status)


def read_kernels(variant: Variant) -> Reading:
    """Kernels of the traced step; unknown if the profiler lost some."""
    step = variant.traced_step
    if step is None:
        return Unknown(reason=explain_missing(variant, "no whole step was traced"))
    if step.lost_kernels is not None and step.lost_kernels.lost:
        lost = step.lost_kernels
        return Unknown(reason=f"the profiler lost {lost.lost:,} of {lost.launched:,} kernels of the traced steps")
    return (step.kernels_per_step,)


def read_graph_breaks(variant: Variant) -> Reading:
    """Graph breaks of a compiled variant."""
    if variant.compile is None:
        return Unknown(reason=explain_missing(variant, "nothing was compiled"))
    if variant.compile.graph_breaks is None:
        return Unknown(reason="graph breaks were not counted")
    return (float(variant.compile.graph_breaks),)


def read_compile_time(variant: Variant) -> Reading:
    """Compile time in seconds."""
    if variant.compile is None:
        return Unknown(reason=explain_missing(variant, "nothing was compiled"))
    if variant.compile.seconds is None:
        return Unknown(reason="compile time was not measured")
    return (variant.compile.seconds,)


def read_mfu(variant: Variant) -> Reading:
    """MFU per process: the analysis's MFU of the median step time, scaled by each process's step time."""
    if isinstance(variant.mfu, Unknown):
        return variant.mfu
    assert isinstance(variant.step_time, MedianEstimate), "no MFU without a step time"
    return tuple(variant.mfu.value * variant.step_time.value / seconds for seconds in variant.step_time.per_process)


def read_data_wait(variant: Variant) -> Reading:
    """Mean data wait of a loop's timed steps, else the traced step's time for its batch."""
    if variant.loop is not None:
        if variant.loop.data_wait_mean_s is None:
            return Unknown(reason=explain_missing(variant, "no DataLoader fetched in the timed steps"))
        return (variant.loop.data_wait_mean_s,)
    return _read_time_share(variant, DATA, "the trace does not show when batches were fetched")


def read_exposed_communication(variant: Variant) -> Reading:
    """Communication of the traced step that no compute overlaps."""
    if variant.world_size == 1:
        return Unknown(reason="a single rank does not communicate")
    return _read_time_share(variant, COMMUNICATION, "no such part in the traced step")


def _read_time_share(variant: Variant, category: str, without: str) -> Reading:
    if not variant.time_split:
        return Unknown(reason=explain_missing(variant, "no whole step was traced"))
    seconds = next((part.seconds for part in variant.time_split if part.category == category), None)
    return Unknown(reason=without) if seconds is None else (seconds,)
