"""Tables of a run for a terminal: its plan before, its outcome after."""

from collections.abc import Sequence
from typing import Protocol

from benchmarks.gpu.parts import PlannedRow


class RowOutcome(Protocol):
    """What the table of outcomes needs of a row."""

    @property
    def planned(self) -> PlannedRow: ...
    @property
    def status(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def reason(self) -> str: ...


def format_plan(rows: Sequence[PlannedRow]) -> str:
    """Part, row, planned seconds, their sum so far and the basis of each; then the sums of the parts."""
    cells, total = [], 0.0
    groups: dict[str, float] = {}
    for row in rows:
        total += row.estimate.seconds
        groups[row.part.group] = groups.get(row.part.group, 0.0) + row.estimate.seconds
        seconds, so_far = f"{row.estimate.seconds:.0f}", f"{total:.0f}"
        cells.append((row.part.group, row.name, seconds, so_far, row.estimate.basis))
    sums = ", ".join(f"{group} {seconds:.0f} s" for group, seconds in groups.items())
    return f"{_align(('part', 'row', 'planned s', 'sum s', 'basis'), cells)}\nparts: {sums}; together {total:.0f} s"


def format_end(outcomes: Sequence[RowOutcome]) -> str:
    """Row, status, seconds, planned seconds and reason; then how many rows ended how."""
    cells = [
        (
            outcome.planned.name, outcome.status, f"{outcome.seconds:.0f}" if outcome.seconds else "",
            f"{outcome.planned.estimate.seconds:.0f}", outcome.reason,
        )
        for outcome in outcomes
    ]  # fmt: skip
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    summary = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no row to measure"
    took = sum(outcome.seconds for outcome in outcomes)
    return f"{_align(('row', 'status', 's', 'planned s', 'reason'), cells)}\n{summary}; {took:.0f} s"


def _align(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the last one is not padded."""
    lines = [head, *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip()
        for line in lines
    )
