"""A command of perfkit as a Slurm job, submitted through submitit and followed until it has ended."""

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from perfkit.core.errors import UsageError
from perfkit.core.files import open_log
from perfkit.core.optional_deps import explain_import_error
from perfkit.measure.launch.slurm_queue import QueuedJob, find_queued_job, read_end_state

if TYPE_CHECKING:
    import submitit

_LOOK_S = 0.5
_ASK_S = 5.0  # polling interval: Slurm's controller serves all users
_SUBMITTED = "PERFKIT_SUBMITTED_JOB"  # the job's number
_RESULT_S = 20.0  # until a file that another machine has written is seen here


class JobEnd(NamedTuple):
    """`code` is the command's exit code, None if the job ended without one; `state` is Slurm's state of the job."""

    code: int | None
    state: str


def is_submitted_job() -> bool:
    """True in the job that a `SlurmJob` has submitted."""
    return _SUBMITTED in os.environ and os.environ[_SUBMITTED] == os.environ.get("SLURM_JOB_ID")


def run_command(arguments: Sequence[str], out: str, err: str) -> int:
    """The job: `perfkit ARGUMENTS` on the first node, its output in files. Its exit code."""
    with open_log(Path(out)) as stdout, open_log(Path(err)) as stderr:
        command = [sys.executable, "-m", "perfkit_cli", *arguments]
        environment = {**os.environ, _SUBMITTED: os.environ["SLURM_JOB_ID"]}
        return subprocess.run(command, stdout=stdout, stderr=stderr, env=environment, check=False).returncode


class SlurmJob:
    """`perfkit ARGUMENTS` in the queue, with `nodes` nodes of `tasks_per_node` tasks each. Its files are in `folder`.

    `parameters` are options of sbatch by name (`partition`, `cpus-per-task`), True for those without a value.

    Raises:
        UsageError: Slurm is not available, or rejects the job.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        nodes: int,
        tasks_per_node: int,
        parameters: Mapping[str, str | bool],
    ) -> None:
        executor = _create_executor(folder)
        # submitit sets a time limit if none is given, and announces the end to ranks by SIGUSR2, which ends them.
        # Slurm's default is wanted instead, with its SIGTERM at the end.
        executor.update_parameters(
            job_name="perfkit",
            nodes=nodes,
            ntasks_per_node=tasks_per_node,
            time=None,
            wckey=None,
            use_srun=False,
            additional_parameters={"signal": "B:CONT@1", **parameters},
        )
        self.out, self.err = folder / "output.log", folder / "error.log"
        self._files = (self.out, self.err)
        self._result_s = _RESULT_S
        self._read = [file.stat().st_size if file.exists() else 0 for file in self._files]
        # One process, in the job's script, whatever the number of tasks.
        self._job = _submit_job(executor, arguments, str(self.out), str(self.err)).task(0)

    @property
    def number(self) -> str:
        """As Slurm numbers jobs."""
        return self._job.job_id

    def cancel(self) -> None:
        """Have Slurm end it: what runs gets SIGTERM, and is killed later. `follow` waits until it has ended."""
        self._job.cancel(check=False)
        self._result_s = _LOOK_S  # exit codes of cancellations do not matter

    def follow(self, out: BinaryIO, err: BinaryIO, tell: Callable[[QueuedJob], None]) -> JobEnd:
        """Copy the command's output until the job has ended; `tell` is called when its place in the queue changes."""
        for place in self._poll_places():
            if place is not None:
                tell(place)
            self._copy_output(out, err)
        self._copy_output(out, err)
        self._wait_for_cleanup()
        result = self._job.paths.result_pickle
        code = self._job.result() if result.exists() else None
        for file in (result, self._job.paths.submitted_pickle):
            file.unlink(missing_ok=True)
        return JobEnd(code, read_end_state(self.number))

    def _poll_places(self) -> Iterator[QueuedJob | None]:
        """Now and then until the job has ended: where it is, None where that has not changed or is not known."""
        result = self._job.paths.result_pickle
        last: QueuedJob | None = None
        gone_at: float | None = None
        asked_at = 0.0
        while not result.exists():
            now = time.monotonic()
            if gone_at is not None and now > gone_at + self._result_s:
                return
            if gone_at is None and now > asked_at + _ASK_S:
                asked_at = now
                try:
                    place = find_queued_job(self.number)
                except OSError:
                    place = last  # the controller does not answer: the job goes on
                if place is None:
                    gone_at = now
                elif place != last:
                    last = place
                    yield place
            yield None
            time.sleep(_LOOK_S)

    def _wait_for_cleanup(self) -> None:
        """Wait until Slurm has cleaned up after the job, when none of its processes run."""
        limit = time.monotonic() + _RESULT_S
        with contextlib.suppress(OSError):
            while find_queued_job(self.number) is not None and time.monotonic() < limit:
                time.sleep(_LOOK_S)

    def _copy_output(self, *streams: BinaryIO) -> None:
        for index, (file, stream) in enumerate(zip(self._files, streams, strict=True)):
            if file.exists():
                with file.open("rb") as written:
                    written.seek(self._read[index])
                    data = written.read()
                self._read[index] += len(data)
                stream.write(data)
                stream.flush()


def _create_executor(folder: Path) -> "submitit.SlurmExecutor":
    try:
        import submitit
    except ModuleNotFoundError as error:
        raise explain_import_error("submitit", "'perfkit[slurm]'", error) from None
    try:
        return submitit.SlurmExecutor(folder=folder)
    except RuntimeError:
        raise UsageError("--launcher slurm: this machine has no Slurm (srun and sbatch not found)") from None


def _submit_job(
    executor: "submitit.SlurmExecutor", arguments: Sequence[str], out: str, err: str
) -> "submitit.Job[int]":
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit prints its errors
            return executor.submit(run_command, tuple(arguments), out, err)
    except (FailedJobError, FailedSubmissionError) as error:
        complaints = [line for line in str(error).splitlines() if line.startswith("sbatch:")]
        raise UsageError(f"Slurm rejects the job: {'; '.join(complaints) or error}") from None
