"""The protocol of launchers: each starts all ranks of a run, here or on other machines, and reports how each ended."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from perfkit.core.spec import LaunchSpec, RunSpec
from perfkit.measure.launch.rank_processes import RankPlace

Report = Callable[[str], None]


class ExitCodes(NamedTuple):
    """The exit code of each rank, negative for a signal, and the ranks that ended on their own, first one first.

    A code is None if unknown, and `untold` says why.
    """

    codes: tuple[int | None, ...]
    order: tuple[int, ...] = ()
    untold: str = ""


class StartedRanks(Protocol):
    """All ranks of one run."""

    def wait(self, timeout_s: float, report: Report) -> bool:
        """Sleep until all have ended; return False after `timeout_s`.

        `report` gets the name of each pass as rank 0 enters it. Once a rank has failed, the others wait for it in a
        collective: they get `ranks.GRACE_S` to end on their own, which is no timeout.
        """

    def end(self) -> None:
        """End what still runs, gently first: nothing of the run is left on any machine when this returns."""

    def exits(self) -> ExitCodes:
        """Each rank's exit, once `end` has returned."""


class Launcher(Protocol):
    """One way to start ranks: a row of `perfkit.measure.launch.launcher_table`.

    It starts `python -m perfkit.measure.rank.worker FOLDER` for each rank, with `ranks.rank_variables` in its
    environment, at a place where the run's folder and the workload have the same path as here. Standard output of rank
    0's worker is progress, one line per pass; that of the others is ignored.
    """

    def check(self, launch: LaunchSpec) -> None:
        """Raise a `UsageError` with advice for a launch that it does not support."""

    def start(
        self, spec: RunSpec, folder: Path, place: RankPlace, under: Sequence[str], report: Report
    ) -> StartedRanks:
        """Start all ranks of the run in `folder`, which holds its `spec.json`.

        `under` is a profiler's command to put before each rank's; empty for launchers that start no local process.
        `report` gets what it waits for before starting. Raises a `PerfkitError` if it cannot start them.
        """

    def give_back(self) -> None:
        """Release resources kept between runs: a bench has ended."""
