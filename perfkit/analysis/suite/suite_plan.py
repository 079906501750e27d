"""Reading a plan that is kept."""

from pathlib import Path

from perfkit.analysis.model.plan import Plan
from perfkit.core.files import read_json
from perfkit.store.summary import PLAN_FILE


def read_plan(folder: Path) -> Plan:
    """Read the plan that `perfkit plan` wrote to a folder; a `RunFormatError` where it is damaged or too new."""
    return read_json(folder / PLAN_FILE, Plan, remedy="plan again")
