"""The headline figures of runs side by side, without figures that no run has."""

from collections.abc import Callable, Sequence
from statistics import median

from perfkit.analysis.compare.device_clocks import find_main_limit
from perfkit.analysis.compare.sides import LoadedSide
from perfkit.analysis.model.comparison import ComparedAmount, ComparedFigure
from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.trace import RankTrace
from perfkit.core.record.quantity import Measurement, Quantity

LESS, MORE, NEITHER = "less", "more", ""

STEP = "Step time"
TRACED_STEP = "Traced step"
WATCHED_STEP = "Watched step time"
PEAK = "Peak memory"

_NOT_TIMED = ComparedAmount(value=None, reason="timed steps exist only in perfkit bench runs and watched loops")
_NOT_TRACED = ComparedAmount(value=None, reason="no trace with steps")


def compare_figures(sides: Sequence[LoadedSide]) -> tuple[ComparedFigure, ...]:
    """Compare figures in reading order: timed, counted, then traced."""
    rates = {variant.throughput_unit for variant in (side.variant for side in sides) if variant is not None}
    unit = rates.pop() if len(rates) == 1 else ""
    figures = [
        ComparedFigure(title=title, unit=of, better=better, amounts=tuple(amount(side) for side in sides))
        for title, of, better, amount in _list_figures(unit)
    ]
    return tuple(figure for figure in figures if any(amount.value is not None for amount in figure.amounts))


_Row = tuple[str, str, str, Callable[[LoadedSide], ComparedAmount]]


def _list_figures(rate: str) -> list[_Row]:
    per_second = rate or "units/s"
    return [
        (STEP, "s", LESS, _make_estimate_getter(lambda variant: variant.step_time)),
        (WATCHED_STEP, "s", LESS, _get_watched_step),
        (TRACED_STEP, "s", LESS, _make_trace_getter(lambda trace: trace.step_s)),
        ("CPU time", "s", LESS, _make_estimate_getter(lambda variant: variant.cpu_time)),
        ("Throughput", per_second, MORE, _make_estimate_getter(lambda variant: variant.throughput)),
        ("Data wait", "s", LESS, _get_data_wait),
        (PEAK, "bytes", LESS, _get_peak_memory),
        ("Peak reserved", "bytes", LESS, _make_quantity_getter(lambda variant: variant.peak_reserved)),
        ("MFU", "1", MORE, _make_utilization_getter(lambda variant: variant.mfu, lambda trace: trace.mfu)),
        ("HFU", "1", NEITHER, _make_utilization_getter(lambda variant: variant.hfu, lambda trace: trace.hfu)),
        ("GPU clock", "Hz", NEITHER, _get_clock),
        ("Energy per step", "J", LESS, _make_quantity_getter(lambda variant: variant.energy_per_step)),
        (
            "FLOPs per step",
            "FLOP",
            NEITHER,
            _make_utilization_getter(lambda variant: variant.hardware_flops, lambda trace: trace.hardware_flops),
        ),
        ("Kernels per step", "", LESS, _make_trace_getter(lambda trace: trace.kernels_per_step)),
        ("Device idle", "s", LESS, _make_trace_getter(lambda trace: trace.launches.idle_s if trace.launches else None)),
        ("Exposed communication", "s", LESS, _make_trace_getter(_get_exposed_communication)),
    ]


def _get_exposed_communication(trace: RankTrace) -> float | None:
    return trace.overlap.exposed_communication_s if trace.overlap.communication_s > 0 else None


def _make_estimate_getter(
    pick: Callable[[Variant], MedianEstimate | MissingEstimate],
) -> Callable[[LoadedSide], ComparedAmount]:
    def amount(side: LoadedSide) -> ComparedAmount:
        if side.variant is None:
            return _NOT_TIMED
        estimate = pick(side.variant)
        if isinstance(estimate, MissingEstimate):
            return ComparedAmount(value=None, reason=estimate.reason)
        return ComparedAmount(value=estimate.value, low=estimate.low, high=estimate.high, source=estimate.source)

    return amount


def _make_quantity_getter(pick: Callable[[Variant], Quantity]) -> Callable[[LoadedSide], ComparedAmount]:
    return lambda side: _NOT_TIMED if side.variant is None else _convert_quantity(pick(side.variant))


def _make_utilization_getter(
    of_variant: Callable[[Variant], Quantity], of_trace: Callable[[RankTrace], Quantity]
) -> Callable[[LoadedSide], ComparedAmount]:
    def amount(side: LoadedSide) -> ComparedAmount:
        if side.variant is not None:
            return _convert_quantity(of_variant(side.variant))
        return _NOT_TRACED if side.side.trace is None else _convert_quantity(of_trace(side.side.trace))

    return amount


def _make_trace_getter(pick: Callable[[RankTrace], float | None]) -> Callable[[LoadedSide], ComparedAmount]:
    def amount(side: LoadedSide) -> ComparedAmount:
        trace = side.side.trace
        if trace is None:
            return _NOT_TRACED
        value = pick(trace)
        whole = "" if trace.steps else ", whole trace (no steps)"
        return ComparedAmount(value=value, reason="not in the trace", source=f"traced{whole}")

    return amount


def _get_watched_step(side: LoadedSide) -> ComparedAmount:
    steps = [point.step_s for point in side.side.live]
    if not steps:
        return ComparedAmount(value=None, reason="the loop was not watched continuously")
    return ComparedAmount(value=median(steps), source="median over its live log")


def _get_data_wait(side: LoadedSide) -> ComparedAmount:
    loop = None if side.variant is None else side.variant.loop
    value = None if loop is None else loop.data_wait_mean_s
    return ComparedAmount(value=value, reason="no DataLoader seen in a watched loop", source="mean over steps")


def _get_clock(side: LoadedSide) -> ComparedAmount:
    clocks = None if side.variant is None else side.variant.clocks
    if clocks is None:
        return ComparedAmount(value=None, reason="no GPU clock was read in timed steps")
    source = f"NVML, median of {clocks.readings:,} readings in the timed steps"
    return ComparedAmount(
        value=clocks.sm_hz, source=f"{source}: {limit}" if (limit := find_main_limit(clocks)) else source
    )


def _get_peak_memory(side: LoadedSide) -> ComparedAmount:
    """The allocator's peak without instruments, else the recorded peak."""
    if side.variant is not None and isinstance(side.variant.peak_allocated, Measurement):
        return _convert_quantity(side.variant.peak_allocated)
    memory = side.side.memory
    if memory is None:
        return ComparedAmount(value=None, reason="memory was not recorded")
    return ComparedAmount(value=float(memory.peak_bytes), source=memory.source)


def _convert_quantity(quantity: Quantity) -> ComparedAmount:
    if isinstance(quantity, Measurement):
        return ComparedAmount(value=quantity.value, source=quantity.source, of=quantity.of)
    return ComparedAmount(value=None, reason=quantity.reason)
