"""What perfkit itself wrote into a trace: no event of the program."""

import numpy as np

from perfkit.trace.reading.columns import Columns
from perfkit.trace.reading.growing import select

# The category of the events that an export adds.
OURS = "perfkit"


def drop_ours(rows: Columns, cats: list[str]) -> None:
    """Leave out what an export added, so that a trace written back is read as it was."""
    if OURS in cats:
        select(rows, np.asarray(rows["cat"] != cats.index(OURS)))
