"""The protocol of launchers: each starts all ranks of a run, on this machine or others, and says how each of them
ended."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.spec import LaunchSpec, RunSpec

Report = Callable[[str], None]


class ExitCodes(NamedTuple):
    """The exit code of each rank, negative for a signal, and the ranks that ended by themselves, the first one first.

    A code is None where it is not known, and `untold` says why.
    """

    codes: tuple[int | None, ...]
    order: tuple[int, ...] = ()
    untold: str = ""


class StartedRanks(Protocol):
    """All ranks of one run."""

    def wait(self, timeout_s: float, report: Report) -> bool:
        """Sleep until all have ended, and say whether they have within `timeout_s`.

        `report` gets the name of each pass as rank 0 enters it. Once a rank has failed the others wait for it in a
        collective: they get `ranks.GRACE_S` at most to end by themselves, which is no timeout.
        """

    def end(self) -> None:
        """End what still runs, gently first: nothing of the run is left on any machine when this returns."""

    def exits(self) -> ExitCodes:
        """Each rank's exit, once `end` has returned."""


class Launcher(Protocol):
    """One way to start ranks: a row of `perfkit.measure.launch.launcher_table`.

    What it starts is `python -m perfkit.measure.worker FOLDER` for each rank, with `ranks.rank_variables` in its
    environment, at a place where the run's folder and the workload lie at the same path as here. Standard output of
    the worker of rank 0 is its progress, a line a pass; that of the others says nothing.
    """

    def check(self, launch: LaunchSpec) -> None:
        """Raise a `UsageError` for what it cannot start, with what to do."""

    def start(
        self, spec: RunSpec, folder: Path, place: RankPlace, under: Sequence[str], report: Report
    ) -> StartedRanks:
        """Start all ranks of the run in `folder`, which holds its `spec.json`.

        `under` is the command of a profiler to be put before each rank's; empty for launchers that start no process
        of this machine themselves. `report` gets what it waits for before it can start them. A `PerfkitError` where it
        cannot.
        """

    def give_back(self) -> None:
        """Let others have what is kept from one run to the next: a bench has ended."""
