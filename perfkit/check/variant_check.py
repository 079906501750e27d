"""Judges both sides of a variant, and explains its changes."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from perfkit.analysis.compare.device_clocks import describe_clock_change
from perfkit.analysis.compare.environments import EnvironmentDifference, compare_environments
from perfkit.analysis.model.suite import Variant
from perfkit.check.judge.check_thresholds import Threshold
from perfkit.check.judge.judge import Evidence, judge_variant
from perfkit.check.judge.looks import LookPlan
from perfkit.check.judge.outcome import judge_outcome
from perfkit.check.judge.quantities import UTILIZATION
from perfkit.check.judge.result import ChangeExplanation, CheckedVariant, JudgedQuantity, Verdict
from perfkit.check.side_observations import ObservedVariant
from perfkit.check.why.explanation import check_traced_change, explain_variant
from perfkit.core.note import Note, make_note
from perfkit.core.record.quantity import get_whole
from perfkit.store.pairs import Pairs


def check_variant(
    workload: str,
    name: str,
    before: ObservedVariant,
    after: ObservedVariant,
    thresholds: Mapping[str, Threshold | None],
    *,
    pairs: Pairs | None = None,
    plan: LookPlan | None = None,
    interleaved: bool = False,
    timed: bool = True,
) -> CheckedVariant:
    """The verdicts on one variant. Arguments are as in `Evidence`; `plan` has the looks at `pairs`."""
    evidence = Evidence(
        before=before.figures,
        after=after.figures,
        # What differs between two sides measured by turns on this machine is what is being checked.
        differs=() if interleaved else compare_side_environments(before, after),
        pairs=pairs,
        interleaved=interleaved,
        timed=timed,
    )
    judged = (*judge_outcome(before.result, after.result), *judge_variant(evidence, thresholds, plan))
    if after.result is not None:
        whole = get_whole(after.result.mfu)
        judged = tuple(replace(each, of=whole) if each.quantity == UTILIZATION else each for each in judged)
    reasons = _explain_change(before, after, judged)
    return CheckedVariant(
        workload=workload,
        variant=name,
        quantities=judged,
        pairs=() if pairs is None else pairs.pairs,
        pairing="" if pairs is None else pairs.pairing,
        explanation=reasons,
        notes=(
            *(() if pairs is None else (_describe_end(pairs),)),
            *_compare_clocks(before.result, after.result),
            *check_traced_change(reasons, judged),
        ),
    )


def _compare_clocks(before: Variant | None, after: Variant | None) -> tuple[Note, ...]:
    """A note if the sides' GPUs ran at different clocks, as far as both have runs."""
    if before is None or after is None:
        return ()
    change = describe_clock_change(before.clocks, after.clocks)
    return (make_note("check.gpu_clock", f"the GPU ran at another clock: {change}"),) if change else ()


def _describe_end(pairs: Pairs) -> Note:
    count = len(pairs.pairs)
    text = f"{count} process pair{'' if count == 1 else 's'}: {pairs.end_reason}"
    return make_note("check.pairs", text, pairs=count)


def compare_side_environments(before: ObservedVariant, after: ObservedVariant) -> tuple[EnvironmentDifference, ...]:
    """Environment differences between the sides; none if a side recorded none."""
    if before.environment is None or after.environment is None:
        return ()
    return compare_environments(before.environment, after.environment)


def _explain_change(
    before: ObservedVariant, after: ObservedVariant, judged: Sequence[JudgedQuantity]
) -> ChangeExplanation | None:
    if before.seen is None or after.seen is None:
        return None
    decided = (Verdict.FAIL, Verdict.WORSE, Verdict.IMPROVED)  # their intervals exclude that nothing changed
    differ = any(judgement.verdict in decided for judgement in judged if not judgement.exact)
    return explain_variant(before.seen, after.seen, times_differ=differ)
