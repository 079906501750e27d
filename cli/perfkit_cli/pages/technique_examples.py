"""The measured examples on the pages of the techniques.

They are read from `measured.json` of this package, which `benchmarks/technique_examples.py` writes.
"""

import shlex
from collections.abc import Sequence
from importlib.resources import files

import msgspec

from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.suite.machine_load import describe_machine_load
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import Struct
from perfkit.core.units import format_signed_percent
from perfkit_reports.cells import format_factor
from perfkit_reports.environment import format_machine

FILE = "measured.json"


class Speed(Struct):
    """Speed-up over the baseline, with the ends of its interval."""

    factor: float
    low: float
    high: float


class MeasuredVariant(Struct):
    """A variant compared with its baseline.

    `speed` is None without an interval, or if the machine was busy; `memory_ratio` is that of the peaks. `per` is the
    unit (`token`, `sample`) of both if the batches differ from the baseline's.
    """

    name: str
    techniques: tuple[str, ...]
    speed: Speed | None
    memory_ratio: float | None
    per: str
    active: bool | None
    active_in_part: bool = False


class MeasuredSuite(Struct):
    """A suite with examples. `disturbed` is the other load on the machine, "" where that was small."""

    workload: str
    machine: str
    date: str
    command: str
    disturbed: str
    variants: tuple[MeasuredVariant, ...]


def summarize_suite(analysis: Analysis) -> MeasuredSuite:
    """A suite as shown on pages: all variants that completed."""
    disturbed = describe_machine_load(analysis.load)
    ran = [variant for variant in analysis.variants if variant.status == RunStatus.OK and not variant.is_baseline]
    return MeasuredSuite(
        workload=analysis.workload,
        machine=format_machine(analysis),
        date=analysis.created_at[:10],
        command=_strip_out_folder(analysis.command),
        disturbed=disturbed,
        variants=tuple(
            MeasuredVariant(
                name=variant.name,
                techniques=tuple(label.partition(":")[0] for label in variant.techniques),
                speed=None if disturbed else _compute_speed(variant),
                memory_ratio=variant.memory_ratio,
                per=variant.comparison_unit,
                active=variant.active,
                active_in_part=variant.active_in_part,
            )
            for variant in ran
        ),
    )


def load_measured_suites() -> tuple[MeasuredSuite, ...]:
    """The suites that the examples are from."""
    return msgspec.json.decode((files("perfkit_cli") / FILE).read_bytes(), type=tuple[MeasuredSuite, ...])


def build_example_table(suites: Sequence[MeasuredSuite], technique: str) -> list[tuple[str, ...]]:
    """A technique's variants with their results in each suite, below a head; empty where no suite has one."""
    known = [
        {variant.name: variant for variant in suite.variants if technique in variant.techniques} for suite in suites
    ]
    shown = [(suite, variants) for suite, variants in zip(suites, known, strict=True) if variants]
    rows = [
        (f"`{name}`", *(_format_result(variants.get(name)) for _, variants in shown))
        for name in dict.fromkeys(name for _, variants in shown for name in variants)
    ]
    return [("variant", *(f"`{suite.workload}`" for suite, _ in shown)), *rows] if rows else []


def describe_suite(suite: MeasuredSuite) -> str:
    """Workload, machine, day and command of a suite, and why it has no times."""
    times_left_out = f" Times omitted: {suite.disturbed}." if suite.disturbed else ""
    return f"`{suite.workload}` on {suite.machine}, {suite.date}: `{suite.command}`.{times_left_out}"


def _strip_out_folder(command: str) -> str:
    """The command without the folder that it wrote."""
    words = shlex.split(command)
    if "--out" in words:
        at = words.index("--out")
        words = words[:at] + words[at + 2 :]
    return shlex.join(words)


def _compute_speed(variant: Variant) -> Speed | None:
    it = variant.difference
    if it is None or it.low is None or it.high is None:
        return None
    return Speed(factor=1 / it.ratio, low=1 / it.high, high=1 / it.low)


def _format_result(variant: MeasuredVariant | None) -> str:
    """Speed-up with its interval, change of the peak, and whether its claims failed."""
    if variant is None:
        return ""
    parts = [_format_speed(variant.speed), _format_memory(variant.memory_ratio)]
    known = [part for part in parts if part]
    inactive = ["active in part" if variant.active_in_part else "not active"] if variant.active is False else []
    return ", ".join([*known, *inactive]) + (f", per {variant.per}" if variant.per and known else "") or "n/a"


def _format_speed(speed: Speed | None) -> str:
    if speed is None:
        return ""
    low, high = format_factor(speed.low), format_factor(speed.high)
    return f"{format_factor(speed.factor)} ({low} to {high})"


def _format_memory(ratio: float | None) -> str:
    return "" if ratio is None else format_signed_percent(ratio - 1)
