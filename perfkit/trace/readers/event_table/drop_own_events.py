"""Drops events that perfkit itself wrote into a trace."""

import numpy as np

from perfkit.trace.readers.event_table.growing_columns import select_rows
from perfkit.trace.readers.event_table.piece_columns import Columns

# The category of the events that an export adds.
OURS = "perfkit"


def drop_own_events(rows: Columns, cats: list[str]) -> None:
    """Drop the events that an export added, so that an exported trace reads like the original."""
    if OURS in cats:
        select_rows(rows, np.asarray(rows["cat"] != cats.index(OURS)))
