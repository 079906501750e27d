"""Comparison of runs with the first: data for renderers and exports."""

from typing import ClassVar

from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.trace import RankTrace
from perfkit.core.note import Note
from perfkit.core.record.environment import Environment
from perfkit.core.spec import Struct
from perfkit.devices.ceilings.ceiling import DeviceCeilings

COMPARISON_VERSION = 4


class ComparedAmount(Struct):
    """A figure of one run, None with a `reason` where it is not known; `low` and `high` where it has an interval.

    `source` is how it was obtained, in words, and `of` the whole of a share.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    source: str = ""
    of: str = ""


class ComparedFigure(Struct):
    """A figure of each run, in their order. `unit` is that of a `Measurement`; `better` is `less`, `more` or empty."""

    title: str
    unit: str
    better: str
    amounts: tuple[ComparedAmount, ...]


class ComparedVariant(Struct):
    """A variant that several suites have: its figures in each run, in their order."""

    name: str
    figures: tuple[ComparedFigure, ...]


class LivePoint(Struct):
    """Steps of a loop that was watched all the time: their median up to step `last_step`."""

    last_step: int
    step_s: float


class ComparedRun(Struct):
    """One of the runs. `kind` is `suite`, `trace` or `memory`, `subject` the variant, rank or device of several.

    `workload` is empty where it is not known, `environment` None. `trace` has every row of its tables, and no
    timelines.
    """

    name: str
    path: str
    kind: str
    subject: str = ""
    created_at: str = ""
    workload: str = ""
    device: str = ""
    device_name: str = ""
    environment: Environment | None = None
    ceilings: DeviceCeilings | None = None
    trace: RankTrace | None = None
    memory: MemoryAccount | None = None
    step_samples: tuple[tuple[float, ...], ...] = ()
    losses: tuple[float | None, ...] = ()
    live: tuple[LivePoint, ...] = ()


class EnvironmentMismatch(Struct):
    """A key in which a run's environment differs from the first's; `times` is true if times are not comparable."""

    run: str
    key: str
    first_value: str
    run_value: str
    affects_times: bool


class RankSteps(Struct):
    """The traced step of a rank in each run, in their order; None where a run does not have the rank."""

    rank: int
    steps_s: tuple[float | None, ...]


class Comparison(DisplayMixin, Struct):
    """A comparison: the first of `sides` is the reference.

    `differences` are those of the traces of the others, called as the sides; a side without a trace has none. Of
    runs of several ranks `rank_note` says which one is compared, and `ranks` are the steps of those that all have. Of
    suites as a whole `variants` are those that at least two have, and `unshared_variants` names the others by run.
    """

    subject: ClassVar[str] = "comparison"
    schema_version: int = COMPARISON_VERSION
    title: str
    created_at: str
    perfkit: str
    command: str
    runs: tuple[str, ...]  # as they were named
    sides: tuple[ComparedRun, ...]
    figures: tuple[ComparedFigure, ...]
    differences: tuple[TraceDifference, ...]
    environment_mismatches: tuple[EnvironmentMismatch, ...]
    warnings: tuple[Note, ...] = ()
    rank_note: str = ""
    ranks: tuple[RankSteps, ...] = ()
    variants: tuple[ComparedVariant, ...] = ()
    unshared_variants: dict[str, tuple[str, ...]] = {}
