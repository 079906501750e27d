"""Whether a suite answers what it was asked: a report says first that it does not."""

from collections.abc import Sequence

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Variant
from perfkit.core.record.rank_record import RunStatus
from perfkit.store.layout import Suite
from perfkit.store.suite_state import Conclusion, is_unfinished


def find_conclusion(suite: Suite, variants: Sequence[Variant]) -> Conclusion:
    """Interrupted before anything else; empty where nothing, or none but baselines, was measured; undecided where no
    comparison has a verdict."""
    if any(variant.loop is not None for variant in variants):
        return Conclusion.COMPLETE  # a loop was asked for nothing
    if is_unfinished(suite) or any(variant.status == RunStatus.INTERRUPTED for variant in variants):
        return Conclusion.INTERRUPTED
    others = [variant for variant in variants if not variant.is_baseline]
    if not any(isinstance(variant.step_time, MedianEstimate) for variant in others or variants):
        return Conclusion.EMPTY
    verdicts = [variant.difference.verdict for variant in others if variant.difference is not None]
    if verdicts and all(verdict == "inconclusive" for verdict in verdicts):
        return Conclusion.UNDECIDED
    return Conclusion.COMPLETE
