"""Blocks of each trace, in the sections on several traces."""

from collections.abc import Callable, Sequence

from perfkit.analysis.model.trace import RankTrace
from perfkit_reports.document.blocks import Block, Details, Group


def build_trace_blocks(
    name: str, traces: Sequence[RankTrace], build_blocks: Callable[[RankTrace, str], Sequence[Block]]
) -> tuple[Block, ...]:
    """Build the blocks of several traces under their names: open for the first, collapsed for the others.

    `build_blocks` is given a trace and an end for the ids of its blocks.
    """
    parts = [(trace.label, tuple(build_blocks(trace, f"-{place}"))) for place, trace in enumerate(traces)]
    parts = [(label, blocks) for label, blocks in parts if blocks]
    if not parts:
        return ()
    (label, first), *others = parts
    head = first if len(traces) == 1 else (Group(id=f"{name}-of-0", title=label, blocks=first),)
    rest = (
        Details(id=f"{name}-of-{place}", title=label, blocks=blocks) for place, (label, blocks) in enumerate(others, 1)
    )
    return (*head, *rest)
