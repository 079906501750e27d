"""Tables as most subjects have them: ranked, cut, with raw rows behind them."""

from collections.abc import Sequence
from typing import Any

from perfkit_reports.document.blocks import Table
from perfkit_reports.document.tables import Column

SHORT = 40  # rows


def table(
    name: str, title: str, columns: Sequence[Column[Any]], rows: Sequence[Any], what: str, **rest: Any
) -> tuple[Table, ...]:
    """A table of the first `SHORT` rows; none without rows. Raw rows are under the name before the first dash."""
    given = {"data": name.split("-")[0], "limit": SHORT, **rest}
    return (Table(id=name, title=title, columns=columns, rows=rows, what=what, **given),) if rows else ()
