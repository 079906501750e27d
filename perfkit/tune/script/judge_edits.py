"""Judges edits by the rounds in which they were measured: their losses against the original's, and their step times."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from perfkit.analysis.model.estimate import ParityVerdict
from perfkit.core.record.step_samples import compute_log_ratio
from perfkit.core.sampling import compute_log_interval
from perfkit.techniques.base.technique import LOSSLESS
from perfkit.tune.model.tune_request import NOTABLE_SHARE
from perfkit.tune.model.tune_result import AllowedLosses, TrialOutcome
from perfkit.tune.patch.script_edits import EDITS_BY_NAME, get_tolerance
from perfkit.tune.script.script_rounds import RoundSteps

# Fewer say nothing about their spread. A proof takes more, and of processes that chose nothing.
STAGE_ROUNDS = 3

Losses = tuple[tuple[float | None, ...], ...]
# Of the distance by which one rounding parts the losses: an edit rounds in every step.
_ECHOES = 10.0
Rounds = Sequence[Mapping[str, RoundSteps]]


class StepRatio(NamedTuple):
    """The step time of one variant over another's, with its 95 % interval, None with too few rounds. `total` is that of
    all steps together: what is rare, such as the start of an epoch, counts there and not in medians."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int
    total: float


class LossReference:
    """The losses of the original's processes so far, and those of one whose parameters differ by a rounding."""

    def __init__(self) -> None:
        self.originals: list[Losses] = []
        self.echo: Losses | None = None


class LossComparison(NamedTuple):
    """Losses against the original's: the verdict, the largest relative difference and what is allowed. `eager_random`:
    they are of compiled code that draws the random numbers of eager code."""

    verdict: ParityVerdict
    largest: float | None
    tolerance: float | None
    reason: str = ""
    eager_random: bool = False


def compare_steps(rounds: Rounds, variant: str, base: str, *, by_turns: bool) -> StepRatio | None:
    """Compare the step times of two variants in the rounds that have both; None without any."""
    both = [(each[base], each[variant]) for each in rounds if base in each and variant in each]
    logs = [compute_log_ratio(old.turns, new.turns, by_turns=by_turns) for old, new in both]
    known = [log for log in logs if log is not None]
    if not known:
        return None
    interval = compute_log_interval(known, until_narrow=True) if len(known) >= STAGE_ROUNDS else None
    return StepRatio(
        ratio=math.exp(fmean(known)),
        low=None if interval is None else math.exp(interval[0]),
        high=None if interval is None else math.exp(interval[1]),
        rounds=len(known),
        total=math.exp(fmean(math.log(new.total_s / old.total_s) for old, new in both)),
    )


def judge_ratio(ratio: StepRatio | None) -> tuple[TrialOutcome, str]:
    """What a ratio to the variant that an edit extends says about it."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return "undecided", "too few processes were measured"
    if ratio.low > 1.0:
        return "slower", ""
    if ratio.high < 1.0:
        if ratio.total >= 1.0:
            return "no gain", "all steps together take as long: what it saves, rare steps cost"
        return ("improves" if ratio.ratio < 1 - NOTABLE_SHARE else "no gain"), ""
    return ("no gain" if ratio.low > 1 - NOTABLE_SHARE else "undecided"), ""


def compare_losses(ours: Losses, reference: LossReference, edits: Sequence[str]) -> LossComparison:
    """Compare losses with the original's, step by step.

    They may differ by the largest tolerance of the edits, and by ten times of what one rounding of the parameters has
    made of them up to that step: chaotic training parts by that.
    """
    tolerance = max((get_tolerance(EDITS_BY_NAME[name]) or 0.0 for name in edits), default=0.0)
    equal = LOSSLESS.relative or 0.0
    if reason := explain_unseen(reference):
        return LossComparison("unknown", None, tolerance, reason)
    theirs = reference.originals[0]
    steps = min(len(ours), len(theirs))
    if not steps:
        return LossComparison("unknown", None, tolerance, "no losses were seen")
    distances = _list_distances(ours, theirs)
    if distances is None:
        return LossComparison("differs", None, tolerance, "its steps have another number of backward passes")
    chance = (_list_distances(reference.echo, theirs) if reference.echo else None) or []
    worst = allowed = 0.0
    for step, distance in enumerate(distances):
        worst = max(worst, distance)
        allowed = max(allowed, tolerance, equal, _ECHOES * chance[step] if step < len(chance) else 0.0)
        if distance > allowed:
            reason = f"losses differ by {distance:.1e} in step {step + 1}, more than {allowed:.1e}"
            return LossComparison("differs", distance, allowed, reason)
    return LossComparison("equal" if worst <= equal else "within tolerance", worst, allowed)


def _list_distances(ours: Losses, theirs: Losses) -> list[float] | None:
    """The largest relative difference of each step that both have; None where their backward passes do not pair."""
    distances = []
    for mine, others in zip(ours, theirs, strict=False):
        if len(mine) != len(others) or any(one is None for one in (*mine, *others)):
            return None
        pairs = zip(mine, others, strict=True)
        distances.append(max((_compute_distance(one or 0.0, two or 0.0) for one, two in pairs), default=0.0))
    return distances


def explain_unseen(reference: LossReference) -> str:
    """The reason that losses of the script cannot be compared; "" if they can."""
    if not reference.originals or not any(reference.originals[0]):
        return "no losses were seen"
    first = reference.originals[0]
    if any(loss is None for step in first for loss in step):
        return "a backward pass begins with no scalar"
    if any(not math.isfinite(loss) for step in first for loss in step if loss is not None):
        return "the original's losses are not finite"
    for other in reference.originals[1:]:
        distances = _list_distances(other, first)
        if distances is None or max(distances, default=0.0) > (LOSSLESS.relative or 0.0):
            return "the script's losses differ from run to run; seed its random numbers"
    return ""


def allows(comparison: LossComparison, edits: Sequence[str], allow: AllowedLosses) -> bool:
    """True if these losses are allowed. Where none can be seen, only edits count on which no result depends."""
    if comparison.verdict == "equal":
        return True
    if comparison.verdict == "within tolerance":
        lossless = all((get_tolerance(EDITS_BY_NAME[name]) or 0.0) <= (LOSSLESS.relative or 0.0) for name in edits)
        return lossless or allow != "lossless"
    return comparison.verdict == "unknown" and all(EDITS_BY_NAME[name].exact for name in edits)


def _compute_distance(ours: float, theirs: float) -> float:
    """The relative difference; infinite where one is not finite."""
    if not math.isfinite(ours) or not math.isfinite(theirs):
        return math.inf
    return abs(ours - theirs) / (abs(theirs) or 1.0)
