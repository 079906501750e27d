"""A part a trace: what several sections on traces share."""

from collections.abc import Callable, Sequence

from perfkit.analysis.model.trace import RankTrace
from perfkit_reports.document.blocks import Block, Details, Group


def build_trace_blocks(
    name: str, traces: Sequence[RankTrace], tell: Callable[[RankTrace, str], Sequence[Block]]
) -> tuple[Block, ...]:
    """What is told of each trace, under its name where there are several: open of the first, folded of the others.

    `tell` is given a trace and an end for the ids of its blocks.
    """
    told = [(trace.label, tuple(tell(trace, f"-{place}"))) for place, trace in enumerate(traces)]
    told = [(label, blocks) for label, blocks in told if blocks]
    if not told:
        return ()
    (label, first), *others = told
    head = first if len(traces) == 1 else (Group(id=f"{name}-of-0", title=label, blocks=first),)
    rest = (
        Details(id=f"{name}-of-{place}", title=label, blocks=blocks) for place, (label, blocks) in enumerate(others, 1)
    )
    return (*head, *rest)
