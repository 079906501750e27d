"""`--launcher process`: a process of this machine for each rank."""

from collections.abc import Sequence
from pathlib import Path

from perfkit.core.errors import UsageError
from perfkit.core.spec import LaunchSpec, RunSpec
from perfkit.measure.launch.launcher import ExitCodes, Report, StartedRanks
from perfkit.measure.launch.process_output import Deadline, read_lines
from perfkit.measure.launch.rank_processes import (
    GRACE_S,
    RankPlace,
    RankProcess,
    end_ranks,
    refuse_endpoint,
    start_rank,
)


class _ProcessLauncher:
    def check(self, launch: LaunchSpec) -> None:
        refuse_endpoint(launch)
        if launch.nodes > 1:
            raise UsageError(
                f"--nnodes {launch.nodes} needs a launcher for several machines, such as --launcher torchrun"
            )

    def start(
        self, spec: RunSpec, folder: Path, place: RankPlace, under: Sequence[str], report: Report
    ) -> StartedRanks:
        launch = spec.launch
        return _ProcessRanks(
            [
                start_rank("perfkit.measure.rank.worker", launch, folder, rank, under=under, place=place)
                for rank in range(launch.world_size)
            ]
        )

    def give_back(self) -> None: ...


class _ProcessRanks:
    def __init__(self, processes: Sequence[RankProcess]) -> None:
        self._processes = processes
        self._order: list[int] = []

    def wait(self, timeout_s: float, report: Report) -> bool:
        deadline = Deadline(timeout_s)
        failed = False
        try:
            for rank, line in read_lines(self._processes, deadline):
                if line is None:
                    self._order.append(rank)
                    if self._processes[rank].returncode != 0 and not failed:
                        failed = True
                        deadline.shorten(GRACE_S)
                elif rank == 0:
                    report(line)
        except TimeoutError:
            return failed
        return True

    def end(self) -> None:
        end_ranks(self._processes)

    def exits(self) -> ExitCodes:
        return ExitCodes(tuple(process.returncode for process in self._processes), tuple(self._order))


PROCESS = _ProcessLauncher()
