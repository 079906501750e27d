"""What a search for edits of a script is asked for."""

from pathlib import Path
from typing import NamedTuple

from perfkit.tune.model.tune_result import AllowedLosses, Objective
from perfkit.tune.script.script_run import ScriptOrder


class ScriptRequest(NamedTuple):
    """A search: `script` is the path as it was given, `edits` are the names of those to choose from.

    `budget_s` is the time of the whole search, `timeout_s` that of one round of processes; `limit_bytes` is the memory
    that the script may take.
    """

    script: Path
    arguments: tuple[str, ...]
    edits: tuple[str, ...]
    technique: str
    objective: Objective
    allow: AllowedLosses
    budget_s: float
    timeout_s: float
    limit_bytes: float | None = None

    @property
    def label(self) -> str:
        """The script with its arguments."""
        return " ".join((str(self.script), *self.arguments))

    def make_order(self, script: Path) -> ScriptOrder:
        """What its processes are told; `script` is the path in their folder."""
        return ScriptOrder(script=str(script), arguments=self.arguments, limit_s=self.timeout_s)
