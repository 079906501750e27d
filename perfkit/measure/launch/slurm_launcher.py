"""`--launcher slurm`: within a Slurm job each run is a job step, whose tasks are its ranks."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from perfkit.core.errors import UsageError
from perfkit.core.spec import LaunchSpec, RunSpec
from perfkit.measure.launch import slurm_task
from perfkit.measure.launch.launcher import ExitCodes, Report, StartedRanks
from perfkit.measure.launch.process_output import Deadline, read_lines
from perfkit.measure.launch.rank_processes import (
    GRACE_S,
    RankPlace,
    RankProcess,
    await_ends,
    count_ranks_per_node,
    end_ranks,
    refuse_endpoint,
    start_process,
)
from perfkit.measure.launch.slurm_allocation import SlurmAllocation, read_allocation
from perfkit.store.layout import get_agent_log

_GENTLY_S = 6.0
_FORCED_S = 10.0
_POLL_S = 0.1

# What the job's script or a step that perfkit runs in was started with, and srun would take for its own options.
_NOT_OURS = (
    "SLURM_CPU_BIND",
    "SLURM_MEM_BIND",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS_PER_TASK",
    "SLURM_TRES_PER_TASK",
    "SLURM_NTASKS",
)


class _SlurmLauncher:
    def check(self, launch: LaunchSpec) -> None:
        count_ranks_per_node(launch)
        refuse_endpoint(launch)
        allocation = read_allocation()
        if launch.nodes > allocation.nodes:
            raise UsageError(
                f"--nnodes {launch.nodes}: the Slurm job {allocation.job} has {allocation.nodes}; give that number"
            )
        if shutil.which("srun") is None:
            raise UsageError("--launcher slurm: no srun on this machine's PATH")

    def start(
        self, spec: RunSpec, folder: Path, place: RankPlace, under: Sequence[str], report: Report
    ) -> StartedRanks:
        launch, allocation = spec.launch, read_allocation()
        srun = start_process(
            slurm_task.__name__,
            folder,
            get_agent_log(folder, 0),
            {},
            place,
            under=_build_srun_command(launch, allocation),
        )
        return _SlurmStep(launch, allocation, srun)

    def give_back(self) -> None: ...


def _build_srun_command(launch: LaunchSpec, allocation: SlurmAllocation) -> list[str]:
    """The command that starts a task for each rank, those of a node with numbers in a row, each with as many CPUs."""
    here = count_ranks_per_node(launch)
    inherited = [name for name in sorted(os.environ) if name.startswith(_NOT_OURS)]
    return [
        "env",
        *(f"--unset={name}" for name in inherited),
        "srun",
        "--job-name=perfkit",
        f"--nodes={launch.nodes}",
        f"--ntasks={launch.world_size}",
        f"--ntasks-per-node={here}",
        f"--cpus-per-task={max(1, allocation.cpus_per_node // here)}",
        "--distribution=block",
        "--export=ALL",
        "--mpi=none",
        "--input=none",
        "--unbuffered",
        # The grace period after a rank's failure is decided here.
        "--kill-on-bad-exit=0",
        "--wait=0",
    ]


class _SlurmStep:
    """srun's process reports on the tasks (`slurm_task`), and ends when all of them have."""

    def __init__(self, launch: LaunchSpec, allocation: SlurmAllocation, srun: RankProcess) -> None:
        self._launch = launch
        self._job = allocation.job
        self._srun = srun
        self._number = ""  # of the step, once it has begun
        self._codes: dict[int, int] = {}  # of the ranks that have ended, the first one first
        self._by_themselves: tuple[int, ...] = ()

    def wait(self, timeout_s: float, report: Report) -> bool:
        deadline = Deadline(timeout_s)
        try:
            self._read_messages(deadline, report)
        except TimeoutError:
            return any(self._codes.values())
        finally:
            self._by_themselves = tuple(self._codes)
        return True

    def end(self) -> None:
        # srun, when terminated, kills its tasks before they can report where they are.
        for signal, within_s in (("TERM", _GENTLY_S), ("KILL", _FORCED_S)):
            if self._number and self._srun.poll() is None:
                _cancel_step(f"--signal={signal}", self._step)
                await_ends([self._srun], gently_s=within_s)
        with contextlib.suppress(TimeoutError):
            self._read_messages(Deadline(_POLL_S), lambda _: None)
        end_ranks([self._srun])
        if self._number and _is_step_running(self._job, self._step):
            _cancel_step(self._step)
            limit = time.monotonic() + _FORCED_S
            while _is_step_running(self._job, self._step) and time.monotonic() < limit:
                time.sleep(_POLL_S)

    def exits(self) -> ExitCodes:
        size = self._launch.world_size
        missing = [rank for rank in range(size) if rank not in self._codes]
        untold = f"srun ended before rank {missing[0]} could report; see agent0.log" if missing else ""
        return ExitCodes(tuple(self._codes.get(rank) for rank in range(size)), self._by_themselves, untold)

    @property
    def _step(self) -> str:
        return f"{self._job}.{self._number}"

    def _read_messages(self, deadline: Deadline, report: Report) -> None:
        for _, line in read_lines([self._srun], deadline):
            match (line or "").split(" ", 1):
                case [slurm_task.STEP, number]:
                    self._number = number
                case [slurm_task.PASS, name]:
                    report(name)
                case [slurm_task.EXIT, content]:
                    rank, code = map(int, content.split())
                    if code != 0 and not any(self._codes.values()):
                        deadline.shorten(GRACE_S)
                    self._codes[rank] = code


def _cancel_step(*arguments: str) -> None:
    # scancel reports an error for a step that has ended.
    subprocess.run(["scancel", *arguments], check=False, capture_output=True)


def _is_step_running(job: str, step: str) -> bool:
    steps = subprocess.run(
        ["squeue", "--steps", "--noheader", "--format=%i", f"--jobs={job}"], check=False, capture_output=True, text=True
    )
    return step in steps.stdout.split()


SLURM = _SlurmLauncher()
