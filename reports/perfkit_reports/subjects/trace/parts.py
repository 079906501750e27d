"""What several sections on traces share: a part a trace, and tables that are cut."""

from collections.abc import Callable, Sequence
from typing import Any

from perfkit.analysis.model.trace import RankTrace
from perfkit_reports.document.blocks import Block, Details, Group, Table

SHORT = 40  # rows of a table that is none of costs


def by_trace(
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


def table(
    name: str, title: str, columns: Sequence[Any], rows: Sequence[Any], what: str, **rest: Any
) -> tuple[Table, ...]:
    """A table of the first `SHORT` rows; none without rows. Raw rows are under the name before the first dash."""
    if not rows:
        return ()
    given = {"data": name.split("-")[0], "limit": SHORT, **rest}
    return (Table(id=name, title=title, columns=columns, rows=rows, what=what, **given),)
