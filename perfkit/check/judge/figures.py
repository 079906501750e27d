"""What an analysed variant says of every quantity that a check compares, or why it says nothing."""

import math
from collections.abc import Sequence

from perfkit.analysis.model.estimate import Estimate, Missing
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.time_split import COMMUNICATION, DATA
from perfkit.check.judge.quantities import QUANTITIES, Judging
from perfkit.record import Quantity, Status, Unknown
from perfkit.spec import Schedule, Struct
from perfkit.store.baseline import StoredVariant

# More losses say no more of whether the same model was trained. How many there are depends on how long warming up took.
LOSSES = Schedule().parity

# What is judged from losses, which are not a figure.
PARITY = "parity"

_NOT_STORED = "the baseline does not hold it"


class RunFigures(Struct):
    """The figures of one variant, by the name of the quantity.

    `exact` are those that every process counts alike, `processes` has one figure a process of what varies. `losses` are
    those of the first steps, None where one was not finite. `missing` has the reason for every quantity that is in none
    of them.
    """

    exact: dict[str, float] = {}
    processes: dict[str, tuple[float, ...]] = {}
    losses: tuple[float | None, ...] = ()
    missing: dict[str, str] = {}


def figures(variant: Variant) -> RunFigures:
    """All figures of a variant, of perfkit's own runs or of a loop that perfkit was attached to."""
    read: dict[str, tuple[float, ...] | Unknown] = {
        "peak_allocated": _one(variant.peak_allocated),
        "peak_reserved": _one(variant.peak_reserved),
        "flops": _one(variant.hardware_flops),
        "kernel_count": _kernels(variant),
        "graph_breaks": _graph_breaks(variant),
        "cpu_time": _per_process(variant.cpu_time),
        "step_time": _per_process(variant.step_time),
        "throughput": _per_process(variant.throughput),
        "mfu": _mfu(variant),
        "compile_time": _compile_time(variant),
        "data_wait": _data_wait(variant),
        "exposed_communication": _exposed_communication(variant),
        "energy": _one(variant.energy_per_step),
    }
    known = {name: value for name, value in read.items() if not isinstance(value, Unknown)}
    exact = {quantity.name for quantity in QUANTITIES if quantity.judging is Judging.EXACT}
    losses = variant.losses[:LOSSES]
    missing = {name: value.reason for name, value in read.items() if isinstance(value, Unknown)}
    if not losses:
        missing[PARITY] = _no_losses(variant)
    return RunFigures(
        exact={name: value[0] for name, value in known.items() if name in exact},
        processes={name: value for name, value in known.items() if name not in exact},
        losses=losses,
        missing=missing,
    )


def pooled(rounds: Sequence[RunFigures]) -> RunFigures:
    """The figures of equal runs, one each round: what varies has one figure a process, in the order of the rounds.

    A count that is not the same in every round cannot be compared as one, and is missing with its values. Losses are
    the first round's.
    """
    first = rounds[0]
    exact, missing = {}, dict(first.missing)
    for name, value in first.exact.items():
        values = sorted({each.exact.get(name, math.nan) for each in rounds})
        if len(values) == 1:
            exact[name] = value
        else:
            missing[name] = f"it differs from process to process ({', '.join(f'{each:,.0f}' for each in values)})"
    return RunFigures(
        exact=exact,
        processes={
            name: tuple(value for each in rounds for value in each.processes.get(name, ())) for name in first.processes
        },
        losses=first.losses,
        missing=missing,
    )


def stored(of: RunFigures) -> StoredVariant:
    """What a baseline keeps of the figures."""
    return StoredVariant(exact=of.exact, processes=of.processes, losses=of.losses)


def figures_of(variant: StoredVariant) -> RunFigures:
    """The figures that a baseline holds of a variant."""
    known = variant.exact.keys() | variant.processes.keys() | ({PARITY} if variant.losses else set())
    return RunFigures(
        exact=variant.exact,
        processes=variant.processes,
        losses=variant.losses,
        missing={quantity.name: _NOT_STORED for quantity in QUANTITIES if quantity.name not in known},
    )


def _one(quantity: Quantity) -> tuple[float, ...] | Unknown:
    return quantity if isinstance(quantity, Unknown) else (quantity.value,)


def _per_process(estimate: Estimate | Missing) -> tuple[float, ...] | Unknown:
    return Unknown(reason=estimate.reason) if isinstance(estimate, Missing) else estimate.per_process


def _ended(variant: Variant, otherwise: str) -> str:
    """Why something was not recorded: how the variant ended, where it did not end well."""
    if variant.status == Status.OK:
        return otherwise
    return f"{variant.status}: {variant.reason}" if variant.reason else str(variant.status)


def _kernels(variant: Variant) -> tuple[float, ...] | Unknown:
    step = variant.traced_step
    if step is None:
        return Unknown(reason=_ended(variant, "no whole step was traced"))
    if step.lost is not None and step.lost.lost:
        reason = f"the profiler lost {step.lost.lost:,} of {step.lost.launched:,} kernels of the traced steps"
        return Unknown(reason=reason)
    return (step.kernels_per_step,)


def _graph_breaks(variant: Variant) -> tuple[float, ...] | Unknown:
    if variant.compile is None:
        return Unknown(reason=_ended(variant, "nothing was compiled"))
    if variant.compile.graph_breaks is None:
        return Unknown(reason="graph breaks were not counted")
    return (float(variant.compile.graph_breaks),)


def _compile_time(variant: Variant) -> tuple[float, ...] | Unknown:
    if variant.compile is None:
        return Unknown(reason=_ended(variant, "nothing was compiled"))
    if variant.compile.seconds is None:
        return Unknown(reason="the time spent on compiling was not measured")
    return (variant.compile.seconds,)


def _mfu(variant: Variant) -> tuple[float, ...] | Unknown:
    """Of every process: that of the median step time, which alone the analysis gives, scaled by its own."""
    if isinstance(variant.mfu, Unknown):
        return variant.mfu
    assert isinstance(variant.step_time, Estimate), "there is no MFU without a step time"
    return tuple(variant.mfu.value * variant.step_time.value / seconds for seconds in variant.step_time.per_process)


def _data_wait(variant: Variant) -> tuple[float, ...] | Unknown:
    """Of a loop what its timed steps waited in the mean, else what the traced step spent on its batch."""
    if variant.loop is not None:
        if variant.loop.data_wait_mean_s is None:
            return Unknown(reason=_ended(variant, "no DataLoader was seen fetching in the timed steps"))
        return (variant.loop.data_wait_mean_s,)
    return _of_split(variant, DATA, "the trace does not tell when batches were fetched")


def _exposed_communication(variant: Variant) -> tuple[float, ...] | Unknown:
    if variant.world_size == 1:
        return Unknown(reason="a single rank exchanges nothing")
    return _of_split(variant, COMMUNICATION, "the traced step has no such part")


def _of_split(variant: Variant, category: str, without: str) -> tuple[float, ...] | Unknown:
    if not variant.time_split:
        return Unknown(reason=_ended(variant, "no whole step was traced"))
    found = next((part.seconds for part in variant.time_split if part.category == category), None)
    return Unknown(reason=without) if found is None else (found,)


def _no_losses(variant: Variant) -> str:
    if variant.loop is not None:
        return "the losses of a loop that is not perfkit's own are not recorded"
    return _ended(variant, "no losses were recorded")
