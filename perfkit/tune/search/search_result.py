"""The result of a search as it grows, of a workload or a script: its trials, its best variant, and why it ended."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

import perfkit
from perfkit.analysis.model.estimate import ParityVerdict
from perfkit.tune.model.tune_request import NOTABLE_SHARE
from perfkit.tune.model.tune_result import Objective, Proof, Trial, TuneConclusion, TuneResult, UntriedVariant
from perfkit.tune.search.choose_candidates import get_added, is_promising
from perfkit.tune.search.judge_trials import get_objective


def begin_result(**fields: Any) -> TuneResult:
    """The result of a search that has begun now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return TuneResult(created_at=now, perfkit=perfkit.__version__, spent_s=0.0, conclusion="interrupted", **fields)


def add_trials(result: TuneResult, trials: Sequence[Trial]) -> TuneResult:
    """The result with the trials of a stage, in place of those that were undecided before."""
    again = {(trial.variant, trial.base) for trial in trials}
    earlier = (trial for trial in result.trials if (trial.variant, trial.base) not in again)
    return replace(result, trials=(*earlier, *trials))


def add_untried(result: TuneResult, untried: Iterable[UntriedVariant], left: Iterable[str]) -> TuneResult:
    """The result with what was not measured, for its reason, and what was `left` over; without what was tried since."""
    over = (UntriedVariant(variant=name, reason="no time was left") for name in left)
    tried = {trial.variant for trial in result.trials}
    noted = {each.variant: each for each in (*result.untried, *untried, *over)}
    return replace(result, untried=tuple(each for name, each in noted.items() if name not in tried))


def find_best_single(trials: Sequence[Trial], objective: Objective) -> str:
    """The best technique or edit alone; "" where none improved."""
    improved = [trial for trial in trials if not trial.base and trial.outcome in ("accepted", "improves")]
    singles = [trial for trial in improved if len(get_added(trial)) == 1]
    return min(singles, key=lambda trial: get_objective(trial, objective)).variant if singles else ""


def conclude_search(
    objective: Objective, best: str, proof: Proof | None, refused: Sequence[ParityVerdict]
) -> TuneConclusion:
    """What the proof says of the best variant, "" if there is none; `refused` are verdicts on its losses."""
    if not best:
        return "no gain"
    if proof is None or proof.parity in refused or proof.active is False:
        return "not proven"
    if objective != "memory":
        return "proven" if proof.verdict == "faster" else "not proven"
    peak, before = proof.peak_bytes, proof.baseline_peak_bytes
    smaller = peak is not None and before is not None and peak < (1 - NOTABLE_SHARE) * before
    return "proven" if smaller else "not proven"


def explain_end(trials: Sequence[Trial], candidates: Sequence[object]) -> str:
    """Why a search ends that has `candidates` left, or none; and about how many rounds more would decide what may
    improve."""
    end = "the budget is used up" if candidates else "no candidate is left"
    base = next((trial.variant for trial in reversed(trials) if trial.outcome == "accepted"), "")
    open_trials = [trial for trial in trials if trial.base == base and is_promising(trial)]
    needed = [f"{trial.variant} needs {_describe_rounds(trial)}" for trial in open_trials]
    return f"{end}; undecided: {', '.join(needed)}" if needed else end


def _describe_rounds(trial: Trial) -> str:
    """About how many rounds more: the interval shrinks with the root of their number."""
    if trial.gain_ratio is None or trial.gain_low is None or trial.gain_high is None or trial.pairs < 2:
        return "more rounds"
    half, gain = math.log(trial.gain_high / trial.gain_low) / 2, -math.log(trial.gain_ratio)
    more = max(1, math.ceil(trial.pairs * (half / gain) ** 2) - trial.pairs)
    return "about 1 round more" if more == 1 else f"about {more} rounds more"
