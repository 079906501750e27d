"""What a check yields: data for renderers and exit codes. Nothing here formats or draws; all of it is `check.json`."""

from enum import StrEnum

from perfkit.analysis.check.thresholds import Threshold
from perfkit.analysis.traces.result import TraceDifference
from perfkit.record import Environment
from perfkit.spec import Struct
from perfkit.store.pairs import Pair

CHECK_VERSION = 1
CHECK_FILE = "check.json"


class Verdict(StrEnum):
    """What is known of one quantity, and in `Check.verdict` of all of them."""

    PASS = "pass"  # it did not get worse by more than the threshold
    FAIL = "fail"
    IMPROVED = "improved"
    INCONCLUSIVE = "inconclusive"  # neither a pass nor a fail: too little data
    NOT_COMPARED = "not compared"  # there is no figure on one side, or the sides cannot be compared; `reason` says why


class Side(Struct):
    """One of the two things compared: `label` as a user calls it (`origin/main`, `working tree`, a file)."""

    label: str
    revision: str = ""
    environment: Environment | None = None
    folder: str = ""


class Judged(Struct):
    """One quantity of one variant, judged.

    `before` and `after` are in the quantity's unit (`""` for counts), None where not known. `change` is relative,
    after / before - 1, positive where there is more; None where `before` is 0 or unknown. `low` and `high` bound it at
    the one-sided `level` each where it was estimated. `threshold` None: it is reported and cannot fail. `detectable` is
    the smallest relative worsening that this much data finds with a probability of 95 %. `reason` says in words what
    the verdict rests on, `to_decide` what it would take where it is inconclusive. `samples` are pairs of processes, or
    processes of each side; 0 for what is counted exactly.
    """

    quantity: str
    title: str
    unit: str
    more_is_worse: bool
    verdict: Verdict
    reason: str
    before: float | None = None
    after: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    threshold: Threshold | None = None
    detectable: float | None = None
    to_decide: str = ""
    samples: int = 0
    exact: bool = False


class MemoryChange(Struct):
    """Bytes at the peak of one category, or of what one op made in one module, before and after."""

    category: str
    before: int
    after: int
    module: str = ""
    op: str = ""


class Why(Struct):
    """What changed between the sides: time by op and module from their traces, memory at the peak by category and by
    what made it, both the largest first. `suspects` say in words what stands out, the op or module named, for a line in
    a comment; empty where nothing does. `notes` say what could not be compared, and why."""

    suspects: tuple[str, ...] = ()
    time: TraceDifference | None = None
    memory: tuple[MemoryChange, ...] = ()
    memory_rows: tuple[MemoryChange, ...] = ()
    notes: tuple[str, ...] = ()


class CheckedVariant(Struct):
    """One variant of one workload: its quantities in the order of the table, gated ones first."""

    workload: str
    variant: str
    judged: tuple[Judged, ...]
    pairs: tuple[Pair, ...] = ()
    turns: str = ""
    why: Why | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.workload} {self.variant}"


class Check(Struct):
    """A whole check. `verdict` is the worst of all: fail, else inconclusive, else pass (or improved where one is).

    `differs` names what differs between the environments of the sides, `key: before -> after`; `seconds` is how long
    it took, `budget_s` the time that sampling was given.
    """

    schema_version: int = CHECK_VERSION
    created_at: str
    perfkit: str
    command: str
    before: Side
    after: Side
    verdict: Verdict
    variants: tuple[CheckedVariant, ...]
    differs: tuple[str, ...] = ()
    seconds: float = 0.0
    budget_s: float = 0.0
    notes: tuple[str, ...] = ()
