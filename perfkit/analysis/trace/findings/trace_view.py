"""One trace with the ceilings of its device, as rules read it, and how they report findings."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, prod
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.findings.change import NOTHING, Change
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.finding import NO_FIGURES, Finding, GainRange
from perfkit.analysis.model.launches import HostCallRow
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.matmul_rows import ProductRow
from perfkit.analysis.model.step import OUTSIDE, OpRow
from perfkit.analysis.model.time_split import PYTHON, UNRECORDED
from perfkit.analysis.model.trace import GraphWork, RankTrace, Recompute
from perfkit.analysis.trace.findings.gain_ranges import count_calls, estimate_refill_s, scale_range
from perfkit.analysis.trace.findings.remedies import Remedies, choose_remedy
from perfkit.analysis.trace.findings.trace_thresholds import NOTABLE, OF_MISSING
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_percent, format_seconds
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op
from perfkit.devices.accelerator import Accelerator, get_accelerator, is_cpu
from perfkit.devices.ceilings.ceiling import CeilingLevel, DeviceCeilings

# Time not attributed to a row. Each moment of idle time has one cause (`perfkit.analysis.trace.idle.idle_causes`).
LATE = "late launches"
GAPS = "long gaps"
WAITS = "synchronizing calls"
ALLOCATIONS = "allocations"
FETCHING = "fetching data"
QUEUED = "idle with work queued"
TURNS = "devices in turn"
COMMUNICATION = "communication"
TRANSFERS = "transfers"  # of communication, the part that is not waiting for other ranks
COPIES = "copies"
NOT_OF_ROWS = frozenset({LATE, GAPS, WAITS, ALLOCATIONS, FETCHING, QUEUED, TURNS, COMMUNICATION, COPIES})

# The assumption of most gains.
BEYOND_ROOF = "upper bound: all time above the roof"

_WHOLE = 1.001  # of the step: above it, work overlaps
COPY = "copy"  # the bound of a row that crosses a link


# Table rows with gains.
Work = OpRow | ProductRow


class Shape(NamedTuple):
    """A tensor among a row's inputs; a list of `tensors` shows its first."""

    dtype: str
    dims: tuple[int, ...]
    tensors: int

    @property
    def numel(self) -> int:
        return prod(self.dims)


@dataclass(frozen=True)
class TraceView:
    """One trace, with the ceilings of its device (None where they are not known).

    `step_s` is a timed step of the traced work, without a profiler, and `loop` the record of an attached loop; None
    where not timed. `data_wait_share` is the share of data waits in the timed steps of a bench; None without a
    DataLoader.
    """

    trace: RankTrace
    step_s: float | None = None
    loop: LoopAnalysis | None = None
    data_wait_share: float | None = None

    @property
    def pace(self) -> float:
        """A timed step over a mean traced one, of which all rows and parts are; 1 where one of them is not known."""
        known = self.step_s is not None and self.trace.steps and self.trace.step_s > 0
        return self.step_s / self.trace.step_s if known and self.step_s is not None else 1.0

    def scale_to_traced(self, finding: Finding) -> Finding:
        """The finding with gains of timed steps as the same part of a traced one."""
        return _scale_gains(finding, 1 / self.pace)

    @property
    def ceilings(self) -> DeviceCeilings | None:
        return self.trace.ceilings

    @property
    def trains(self) -> bool | None:
        """True if gradients are computed, False if not, None if not known, as where graphs replaced the ops."""
        return None if self.trace.graphs and self.trace.trains is False else self.trace.trains

    def advise(self, remedies: Remedies) -> str:
        """The advice for the framework, the device and the purpose of the traced program."""
        text = choose_remedy(remedies, self.trace.framework, self.trace.device, trains=self.trains)
        return text.replace("{type}", self.accelerator.type)

    @property
    def whole(self) -> str:
        """The whole of shares and gains: the step, or the trace where it has no steps."""
        return "step" if self.trace.steps else "trace"

    def select_ops(self, *classes: OpClass) -> list[OpRow]:
        """Rows of ops within steps that compute, of these classes if some are named.

        Ops that make a batch are left out: a loader that works elsewhere helps them, not a compiler.
        """
        return [row for row, its in self._computing_ops if not classes or its in classes]

    @cached_property
    def _computing_ops(self) -> list[tuple[OpRow, OpClass]]:
        """Rows of ops within steps that compute, each with its class: a dozen rules ask for them."""
        return [
            (row, classify_op(row.name))
            for row in self.trace.ops
            if row.phase not in (OUTSIDE, "data") and row.bound not in (COMMUNICATION, COPY)
        ]

    def select_kernels(self, pattern: str) -> list[OpRow]:
        """Rows of kernels within steps whose names contain a match of the pattern."""
        expression = re.compile(pattern, re.IGNORECASE)
        return [row for row in self.trace.kernels if row.phase != OUTSIDE and expression.search(row.name)]

    def get_share(self, time_s: float) -> float:
        return time_s / self.trace.step_s if self.trace.step_s > 0 else 0.0

    @property
    def unrecorded_share(self) -> float:
        """The share of the step in which the device may have run work that was not recorded."""
        return sum(part.share for part in self.trace.time_split if part.category == UNRECORDED)

    @property
    def missing_share(self) -> float:
        """The share of the work that the trace lacks, of kernels or of time, where it matters."""
        lost = self.trace.lost_kernels
        return max(self.unrecorded_share, 0.0 if lost is None or not lost.matters else lost.share)

    def is_lost_in_missing_work(self, gain_s: float) -> bool:
        """True for a gain far smaller than the work that the trace lacks, whose gains are unknown."""
        least = OF_MISSING * self.missing_share
        return least > NOTABLE and self.get_share(gain_s) < least

    def get_peak(self, level: CeilingLevel, dtype: str) -> float | None:
        """The peak rate of a unit for a dtype in FLOP/s."""
        ceiling = None if self.ceilings is None else self.ceilings.find(level, dtype)
        return None if ceiling is None else ceiling.value

    @property
    def accelerator(self) -> Accelerator:
        return get_accelerator(self.trace.device)

    @property
    def bandwidth(self) -> float | None:
        """Memory bandwidth of the device in B/s."""
        ceiling = None if self.ceilings is None else self.ceilings.find(CeilingLevel.MEMORY)
        return None if ceiling is None else ceiling.value

    def build_gain(
        self,
        finding_id: str,
        title: str,
        evidence: str,
        action: str,
        gain_s: float | None,
        *,
        basis: str = "",
        rows: Iterable[Work] = (),
        scope: Iterable[str] = (),
        change: Change = NOTHING,
        calls: Iterable[HostCallRow] = (),
        idle: Iterable[str] = (),
        figures: Mapping[str, float] = NO_FIGURES,
        most_s: float = inf,
        removable_s: float | None = None,
        removed: GraphWork | Recompute | None = None,
        least_s: float = 0.0,
    ) -> RuleResult:
        """A finding with a gain, in the time of some rows or of a named part of the step.

        `evidence` is a line or two; `basis` says what the gain assumes, and `change` what is simulated for it. It is
        about the ops of the rows and of the `calls`, and about the device's `idle` time of those causes that occur.
        `removable_s` is the most that the fix may remove, where that is more than the change that is simulated. On a
        CPU what is around removed ops goes, too, of the rows that join others and of the `removed` work, and a fix
        saves at least `least_s`, the time of ops that go for certain.
        """
        work = tuple(rows)
        occurring = {gap.cause for gap in self.trace.gaps if gap.seconds > 0}
        finding = Finding(
            id=finding_id,
            severity="gain",
            title=title,
            variant=self.trace.label,
            evidence=evidence,
            action=action,
            gain_s=gain_s,
            details=(basis,) if basis else (),
            per_step=bool(self.trace.steps),
            ops=(*_list_ops(work), *list_callers(calls)),
            idle_causes=tuple(cause for cause in dict.fromkeys(idle) if cause in occurring),
            figures=dict(figures),
            gains=self._bound_gains(gain_s, work, change, removable_s, removed, least_s),
        )
        return RuleResult(finding, frozenset((*scope, *map(_get_row_key, work))), change, most_s)

    def _bound_gains(
        self,
        gain_s: float | None,
        rows: Sequence[Work],
        change: Change,
        removable_s: float | None,
        removed: GraphWork | Recompute | None,
        least_s: float,
    ) -> tuple[GainRange, ...]:
        """From what goes for certain to all that may go, where that is more than what a simulation removes."""
        if gain_s is None:
            return ()
        most_s, around_s = gain_s if removable_s is None else removable_s, 0.0
        if is_cpu(self.trace.device) and LATE not in change.without:
            joining = {id(takes.row) for takes in change.takes if takes.joins}
            gone: list[Work | GraphWork | Recompute] = [row for row in rows if id(row) in joining]
            gone += [] if removed is None else [removed]
            around_s = self.estimate_dispatch_s(sum(map(count_calls, gone)))
            if isinstance(removed, Recompute):
                around_s = max(around_s, removed.around_s)
            if all(takes.part == 0 for takes in change.takes):  # else an op is left, which moves the same data
                around_s += estimate_refill_s(gone, self.bandwidth)
        least_s = least_s if is_cpu(self.trace.device) else 0.0
        if removable_s is None and not around_s and not least_s:
            return ()
        step_s, high = self.trace.step_s, most_s + around_s
        return (GainRange(unit="s", low=least_s, high=min(high, step_s) if step_s > 0 else high, basis="bound"),)

    def estimate_dispatch_s(self, calls: float) -> float:
        """The part of some calls in the time of Python and dispatch, which all calls of ops share."""
        every = sum(row.calls for row, _ in self._computing_ops)
        return self.python_s * min(1.0, calls / every) if every else 0.0

    @property
    def python_s(self) -> float:
        """The time of a step in which a CPU runs no op, or only tiny ones."""
        return sum(part.seconds for part in self.trace.time_split if part.category == PYTHON)

    def build_remark(
        self,
        finding_id: str,
        severity: str,
        title: str,
        evidence: str,
        action: str,
        *,
        figures: Mapping[str, float] = NO_FIGURES,
    ) -> RuleResult:
        """A finding without a gain: a `warning` or a `note`."""
        finding = Finding(
            id=finding_id,
            severity=severity,
            title=title,
            variant=self.trace.label,
            evidence=evidence,
            action=action,
            figures=dict(figures),
        )
        return RuleResult(finding, frozenset())

    def show_time(self, time_s: float) -> str:
        """`12.3 ms per step (4.5 %)`; more than the step is a sum over streams or threads, and no share of it."""
        whole = "per step" if self.trace.steps else "in total"
        if time_s > _WHOLE * self.trace.step_s > 0:
            lanes = "threads" if is_cpu(self.trace.device) else "streams"
            return f"{format_seconds(time_s)} {whole}, summed over {lanes}"
        return f"{format_seconds(time_s)} {whole} ({format_percent(self.get_share(time_s))})"

    def show_work_time(self, time_s: float) -> str:
        """The same for work summed over all devices, as the share of their time together."""
        devices = sum(row.compute_s > 0 for row in self.trace.devices)
        if devices < 2:
            return self.show_time(time_s)
        whole = "per step" if self.trace.steps else "in total"
        share = format_percent(self.get_share(time_s) / devices)
        return f"{format_seconds(time_s)} {whole} on {devices} devices ({share} of their time)"

    def format_calls(self, number: float) -> str:
        """`12 calls per step`, `1 call in total`."""
        shown = f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
        return f"{shown} {'call' if number == 1 else 'calls'} {'per step' if self.trace.steps else 'in total'}"


class ForeignView(TraceView):
    """A trace that perfkit did not record itself, so that a better one may have to be."""


def list_callers(calls: Iterable[HostCallRow]) -> tuple[str, ...]:
    """The ops around CPU calls, or the calls themselves without an op, each once."""
    return tuple(dict.fromkeys(row.op or row.name for row in calls))


def _list_ops(rows: Sequence[Work]) -> tuple[str, ...]:
    """The ops of rows, each once, the longest first."""
    return tuple(dict.fromkeys(map(_get_op, sorted(rows, key=lambda row: -row.seconds))))


def _get_op(row: Work) -> str:
    return row.name if isinstance(row, ProductRow) else row.op or row.name


def _scale_gains(finding: Finding, factor: float) -> Finding:
    summed, simulated = (None if gain is None else gain * factor for gain in (finding.gain_s, finding.simulated_s))
    touched = None if finding.touched is None else finding.touched.scale_by(factor)
    gains = tuple(scale_range(gain, factor) for gain in finding.gains)
    return replace(finding, gain_s=summed, simulated_s=simulated, touched=touched, gains=gains)


def _get_row_key(row: Work) -> str:
    op = _get_op(row)
    return "\0".join((op, row.phase, row.shapes))


def sum_seconds(rows: Iterable[Work]) -> float:
    return sum(row.seconds for row in rows)


def format_call_count(rows: Iterable[Work], kind: str = "") -> str:
    """`1 call`, `12 foreach calls`, per step."""
    count = f"{sum(row.calls for row in rows):,.0f}"
    return " ".join(filter(None, (count, kind, "call" if count == "1" else "calls")))


def sum_above_roof_s(rows: Iterable[Work]) -> float | None:
    """Seconds above the roof of rows with a known roof; None without any."""
    known = [max(0.0, row.seconds - row.attainable_s) for row in rows if row.attainable_s is not None]
    return sum(known) if known else None


def is_below_roof_share(row: Work, share: float) -> bool:
    """True if a row reaches less than a share of its roof, or may; rows above their roof do not."""
    above = row.attainable_s is not None and row.attainable_s > row.seconds
    return not above and (row.efficiency or 0.0) < share


def shorten_kernel(name: str) -> str:
    """A kernel's name without its return type, template arguments and parameters; others as they are."""
    return name.removeprefix("void ").partition("<")[0].partition("(")[0] or name


def list_kernels(rows: Sequence[OpRow], most: int = 5) -> str:
    """The names of the most expensive rows, each once."""
    names = list(dict.fromkeys(shorten_kernel(row.name) for row in sorted(rows, key=lambda row: -row.seconds)))
    return list_first(names, most)


_SHAPE = re.compile(r"([\w?]+)\[([\d,]*)\](?: x(\d+))?")


def parse_shapes(row: Work) -> tuple[Shape, ...]:
    """The tensors among a row's inputs, in the format of `perfkit.analysis.trace.work.work_items.show_shapes`."""
    return _parse_shape_text(row.shapes)


@lru_cache(maxsize=1 << 14)  # several rules parse the shapes of each row
def _parse_shape_text(text: str) -> tuple[Shape, ...]:
    return tuple(
        Shape(dtype, tuple(int(size) for size in dims.split(",") if size), int(count or 1))
        for dtype, dims, count in _SHAPE.findall(text)
    )
