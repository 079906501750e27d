"""Results of a check: data for renderers and exit codes, stored as `check.json`."""

from enum import StrEnum
from typing import ClassVar, Literal

from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.check.judge.check_thresholds import Threshold
from perfkit.core.note import Note
from perfkit.core.record.environment import Environment
from perfkit.core.spec import Struct
from perfkit.store.pairs import Pair

CHECK_VERSION = 7


class Verdict(StrEnum):
    """The verdict on one quantity, and in `Check.verdict` on all of them."""

    PASS = "pass"  # not worse by the threshold, with confidence
    FAIL = "fail"  # certainly worse, with an estimate above the threshold
    WORSE = "worse"  # certainly worse, with an estimate within the threshold
    IMPROVED = "improved"
    INCONCLUSIVE = "inconclusive"  # too little data to decide
    NOT_COMPARED = "not compared"  # a side has no figure, or the sides are not comparable; see `reason`


VERDICT_MEANINGS = {
    Verdict.PASS.value: "Within the threshold, at the confidence level.",
    Verdict.FAIL.value: "Significantly worse; the estimate is above the threshold.",
    Verdict.WORSE.value: "Significantly worse; the estimate is within the threshold.",
    Verdict.IMPROVED.value: "Certainly better.",
    Verdict.INCONCLUSIVE.value: "Too little data to decide.",
    Verdict.NOT_COMPARED.value: "A side has no figure, or the sides are not comparable.",
}


class CheckedSide(Struct):
    """One side of a check: `label` is its name for users (`origin/main`, `working tree`, a file)."""

    label: str
    revision: str = ""
    environment: Environment | None = None
    folder: str = ""


class JudgedQuantity(Struct):
    """One quantity of one variant, judged.

    `before` and `after` are in the quantity's unit (`""` for counts), None where not known. `change` is relative,
    after / before - 1, positive where there is more; None where `before` is 0 or unknown. Where it was estimated it is
    the mean over the pairs, which may differ a little from that of the medians `before` and `after`, and `low` and
    `high` bound it at the one-sided `level` each, over all looks at the growing data together. `threshold` None: it is
    reported and cannot fail. `detectable` is the smallest relative worsening that this much data finds with a
    probability of 95 %. `reason` says in words what the verdict rests on, `data_needed` what it would take where it is
    inconclusive. `is_decided` is False where more data may change the verdict: of what is inconclusive, and of what got
    worse for certain while its interval holds the threshold. `samples` are pairs of processes, or processes of each
    side; 0 for what is counted exactly. `of` is the whole of a share, on the after side.
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
    data_needed: str = ""
    is_decided: bool = True
    samples: int = 0
    exact: bool = False
    of: str = ""


class MemoryChange(Struct):
    """Bytes at the peak of one category, or of what one op made in one module, before and after."""

    category: str
    before: int
    after: int
    module: str = ""
    op: str = ""


class CountChange(Struct):
    """Number of torch.compile events (`graph`, `graph break`, `recompilation`), `reason` for that reason."""

    kind: str
    reason: str
    before: int
    after: int


class SetupChange(Struct):
    """Seconds of one set-up cost of one process of each side; None on the side that has no such cost."""

    name: str
    before_s: float | None
    after_s: float | None


class ClaimChange(Struct):
    """A technique check on both sides; None if undecided. `evidence` is from the after side."""

    technique: str
    statement: str
    before: bool | None
    after: bool | None
    evidence: str


class ChangeExplanation(Struct):
    """Changes between the sides: time by op and module from their traces, memory at the peak by category and by
    what made it, the largest changes first. `suspects` say in words what stands out, the op or module named, for a line
    in a comment; empty where nothing does. `notes` say what could not be compared, and why.

    The seconds of `time` are medians over the traced steps, and each of its `changes` says what kind of evidence it is.
    `memory` has every category, `memory_rows`, `compiled` and `claims` only what differs, `setup` every cost.
    """

    suspects: tuple[str, ...] = ()
    time: TraceDifference | None = None
    memory: tuple[MemoryChange, ...] = ()
    memory_rows: tuple[MemoryChange, ...] = ()
    compiled: tuple[CountChange, ...] = ()
    setup: tuple[SetupChange, ...] = ()
    claims: tuple[ClaimChange, ...] = ()
    notes: tuple[Note, ...] = ()


class CheckedVariant(Struct):
    """One variant of one workload: its quantities in the order of the table, gated ones first."""

    workload: str
    variant: str
    quantities: tuple[JudgedQuantity, ...]
    pairs: tuple[Pair, ...] = ()
    pairing: str = ""
    explanation: ChangeExplanation | None = None
    notes: tuple[Note, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.workload} {self.variant}"


class Check(DisplayMixin, Struct):
    """A whole check. `verdict` is the worst of all: fail, else inconclusive, else worse, else pass (or improved where
    one is). `fail_on` is the mildest verdict that is a failure, `fail` or `worse`; then worse goes before inconclusive.

    `under_test` is what was meant to differ between the sides, `code` or `environment`. `environment_differences` names
    what differs between the environments of the sides, `key: before -> after`. `seconds` is how long the check took,
    `budget_s` the time that sampling was given.
    """

    subject: ClassVar[str] = "check"
    schema_version: int = CHECK_VERSION
    created_at: str
    perfkit: str
    command: str
    before: CheckedSide
    after: CheckedSide
    verdict: Verdict
    variants: tuple[CheckedVariant, ...]
    fail_on: Verdict = Verdict.FAIL
    under_test: Literal["code", "environment"] = "code"
    environment_differences: tuple[str, ...] = ()
    seconds: float = 0.0
    budget_s: float = 0.0
    notes: tuple[Note, ...] = ()

    @property
    def failed(self) -> bool:
        return is_failure(self.verdict, self.fail_on)


def is_failure(verdict: Verdict, fail_on: Verdict) -> bool:
    """True if a verdict is a failure under `fail_on`."""
    return verdict in (Verdict.FAIL, fail_on)


class Noise(Struct):
    """Difference of identical sides in one quantity. `spread` is the standard deviation of a pair's log ratio.

    `change` is the mean relative change that was found between the identical sides, with two-sided 95 % bounds: 0 lies
    outside of them if the measurement favors one side. `false_alarms` counts the resampled comparisons in which it
    failed or was worse.
    """

    quantity: str
    spread: float
    change: float
    low: float
    high: float
    false_alarms: int


class DetectableRow(Struct):
    """A budget's number of pairs, and by quantity the smallest relative worsening that they detect with probability
    0.95, which is also the smallest useful threshold; None with too few pairs."""

    budget_s: float
    pairs: int
    detectable: dict[str, float | None]


class CheckCalibration(Struct):
    """Detectable changes on this machine, from `pairs` process pairs that ran the same code.

    `pair_s` is the median time a pair takes. `comparisons` of the default thresholds were drawn from those pairs by
    shuffling them and swapping sides at random, each `compared` pairs long.
    """

    turns: str
    pairs: int
    pair_s: float
    compared: int
    comparisons: int
    noise: tuple[Noise, ...]
    rows: tuple[DetectableRow, ...]
    notes: tuple[Note, ...] = ()
