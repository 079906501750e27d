"""Structs of advice: the result of `perfkit advise`, as stored and as printed by `--json`."""

from typing import ClassVar, Literal

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.plan import Interval
from perfkit.core.note import Note
from perfkit.core.spec import Struct

ADVICE_VERSION = 3

Goal = Literal["time", "memory", "batch", "cost"]
Allowed = Literal["comparable", "any"]  # losses of what is joined
Kind = Literal["run", "trace", "workload"]  # what advice is on


class TimeSaving(Struct):
    """Seconds that a step takes less; negative where it takes more.

    `bound` is `interval`, or `at most` where it may as well save nothing: `value` is the middle of both. `basis` is
    `simulated` (the recorded step, replayed) or `planned` (the step on fake tensors).
    """

    value: float
    low: float
    high: float
    bound: Literal["interval", "at most"]
    basis: Literal["simulated", "planned"]


class LossRisk(Struct):
    """Effect on the loss: comparable with the baseline's within `tolerance` (relative), or not comparable."""

    comparable: bool
    tolerance: float | None
    basis: str


class MeasuredOption(Struct):
    """Measurements of a run: relative step time with its interval, peak, and whether the technique took effect.

    `active_in_part` is set where `active` is False only because claims hold in part.
    """

    time_ratio: float | None
    low: float | None
    high: float | None
    peak_bytes: int | None
    active: bool | None
    reason: str = ""
    active_in_part: bool = False


class AdviceOption(Struct):
    """A technique, or several joined by `+`: what it would save, why, and at what risk.

    `saving_share` is `saving_s.value` over the step. `saving_bytes` is of the allocator's peak, `peak_bytes` what
    remains. `largest_batch` is an estimate in proportion to what grows with the batch. `fits` is None without a limit,
    or where the peak is not known. `unknown_reasons` says why a figure is None. `verify` is a bench that measures it
    beside the baseline; "" for a trace, which names no workload.
    """

    name: str
    saving_s: TimeSaving | None
    saving_share: float | None
    peak_bytes: Interval | None
    saving_bytes: float | None
    largest_batch: int | None
    fits: bool | None
    reasons: tuple[str, ...]
    assumptions: tuple[str, ...]
    risk: LossRisk
    unknown_reasons: tuple[str, ...] = ()
    measured: MeasuredOption | None = None
    verify: str = ""


class ExcludedVariant(Struct):
    """A variant excluded from the options or the combination, with the reason."""

    name: str
    reason: str


class Advice(DisplayMixin, Struct):
    """The shelf ranked by a goal, best first, and the best combination; `clashes` are what was not joined with it.

    `name` is what the advice is on, `kind` whether that is a `run`, a `trace` or a `workload`. `step_s` and
    `peak_bytes` are of the step as it is. Where `best` does not fit, `fitting` is the best combination that does, or
    may, with techniques that change results. `bench_command` measures the technique that `-t` adds to it, "" where
    nothing can be measured; `measured_folder` is the suite of `--verify`.
    """

    subject: ClassVar[str] = "advice"
    schema_version: int = ADVICE_VERSION
    created_at: str
    perfkit: str
    command: str
    name: str
    kind: Kind
    device: str
    goal: Goal
    limit_bytes: float | None
    step_s: float | None
    peak_bytes: Interval | None
    options: tuple[AdviceOption, ...]
    best: AdviceOption | None
    fitting: AdviceOption | None = None
    clashes: tuple[ExcludedVariant, ...] = ()
    excluded: tuple[ExcludedVariant, ...] = ()
    notes: tuple[Note, ...] = ()
    bench_command: str = ""
    measured_folder: str = ""
