"""Says what differs between two environments that were compared, and whether the same work was done in both."""

from perfkit.check.judge.result import ChangeExplanation, Check
from perfkit.check.why.op_changes import CALLS, INPUTS
from perfkit_reports.document.blocks import Block
from perfkit_reports.document.weight import Weight
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.tables import make_list

_SHOWN = 3
_SAME_WORK = "Both did the same work: ops, their calls, inputs and dtypes, memory by category, graphs."


def list_changed_environment(check: Check, *, full: bool = False) -> tuple[Block, ...]:
    """What differs between two environments that were meant to differ: the first in one line, or all."""
    if check.under_test != "environment":
        return ()
    differences = [flatten_text(difference).replace(" -> ", " → ") for difference in check.environment_differences]
    if full:
        return make_list("environment-changes", differences, "Differences", weight=Weight.DETAIL)
    more = len(differences) - _SHOWN
    rest = f", and {more} more under Environment" if more > 0 else ""
    told = f"Differences: {', '.join(differences[:_SHOWN])}{rest}."
    line = told if differences else "Both environments have the same packages and settings."
    explained = [variant.explanation for variant in check.variants]
    same = (_SAME_WORK,) if explained and all(each is not None and is_same_work(each) for each in explained) else ()
    return make_list("environment-differences", (line, *same), weight=Weight.BRIEF)


def is_same_work(explained: ChangeExplanation) -> bool:
    """True if what is counted of both sides' traced steps is the same; False if a side has no trace."""
    return (
        explained.time is not None
        and not any(row.evidence in (*CALLS, INPUTS) for row in explained.time.changes)
        and bool(explained.memory)
        and all(change.before == change.after for change in explained.memory)
        and not explained.compiled
        and not explained.suspects
    )
