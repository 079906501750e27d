"""Teams of resident processes, one rank each, and the conversation with them."""

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from perfkit.core.errors import PerfkitError
from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.record.step_samples import StepSamples, merge_slowest_ranks
from perfkit.core.spec import RunSpec
from perfkit.measure.interleaving import protocol
from perfkit.measure.interleaving.core_pinning import RankCores, bind_to_cores
from perfkit.measure.launch.launcher import ExitCodes
from perfkit.measure.launch.rank_processes import GRACE_S, HERE, RankPlace, RankProcess, end_ranks, start_rank
from perfkit.measure.launch.run_outcome import determine_outcome
from perfkit.store.layout import SPEC_FILE

_WORKER = "perfkit.measure.interleaving.turn_worker"


@dataclass
class _TeamRank:
    team: "Team"
    process: RankProcess
    text: str = ""  # of a line that is not complete yet
    answers: list[str] = field(default_factory=list)


class TeamFailedError(PerfkitError):
    """A team did not train to the end; `run` says how it ended."""

    id = "run.team_failed"

    def __init__(self, team: "Team", run: RunResult) -> None:
        super().__init__(f"{team.label}: {run.status}: {run.reason}")
        self.team = team
        self.run = run


class Team:
    """All ranks of one run, alive from `start` to `end`, each on its `cores` (empty: on any).

    `label` is how it is called in messages; its spec is written into `folder` at once. `worker` is the module that a
    rank runs, which speaks the protocol.
    """

    def __init__(
        self,
        label: str,
        spec: RunSpec,
        folder: Path,
        *,
        place: RankPlace = HERE,
        cores: tuple[RankCores, ...] = (),
        worker: str = _WORKER,
    ) -> None:
        self.label = label
        self.spec = spec
        self.folder = folder
        self.ranks: list[_TeamRank] = []
        self._place = place
        self._cores = cores
        self._worker = worker
        write_json(folder / SPEC_FILE, spec)

    def start(self) -> None:
        launch = self.spec.launch
        for rank in range(launch.world_size):
            process = start_rank(self._worker, launch, self.folder, rank, place=self._place, obeys=True)
            self.ranks.append(_TeamRank(self, process))
        for started, cores in zip(self.ranks, self._cores, strict=False):
            bind_to_cores(started.process.pid, cores.near)  # so that its memory is near the cores that it will run on

    def settle(self) -> None:
        """Pin each rank to its own cores: teams set up simultaneously, and then step by turns."""
        for rank, cores in zip(self.ranks, self._cores, strict=False):
            bind_to_cores(rank.process.pid, cores.own)

    def say(self, line: str) -> None:
        """Give all ranks a command."""
        for rank in self.ranks:
            assert rank.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it has ended: its output is closed
                rank.process.stdin.write(f"{line}\n".encode())
                rank.process.stdin.flush()

    def dismiss(self) -> None:
        """Let all ranks end normally, so that their records are complete."""
        self.say(protocol.END)
        self._wait_for_end(GRACE_S)

    @property
    def exit_codes(self) -> tuple[int | None, ...]:
        return tuple(rank.process.returncode for rank in self.ranks)

    def end(self) -> None:
        """Nothing of this team runs any more when this returns."""
        end_ranks([rank.process for rank in self.ranks])

    def build_failure(self, ended: RunStatus | None, first: "_TeamRank | None" = None) -> TeamFailedError:
        """Build the failure of this team from its ranks' files; `first` is the rank that ended first."""
        if ended is None:
            self._wait_for_end(GRACE_S)  # the other ranks learn in their next collective that one has failed
        self.end()
        order = tuple(number for number, rank in enumerate(self.ranks) if rank is first)
        run = determine_outcome(self.spec, self.folder, ended, ExitCodes(self.exit_codes, order))
        if run.status == RunStatus.OK:
            run = RunResult(status=RunStatus.CRASHED, reason="ended too early", exit_codes=run.exit_codes)
        return TeamFailedError(self, run)

    def _wait_for_end(self, most_s: float) -> None:
        limit = time.monotonic() + most_s
        for rank in self.ranks:
            with contextlib.suppress(subprocess.TimeoutExpired):
                rank.process.wait(max(0.0, limit - time.monotonic()))


class Conversation:
    """Waits for answers of teams, asleep; if a rank ends meanwhile, it raises a `TeamFailedError`."""

    def __init__(self, teams: list[Team], deadline: float, report: Callable[[str], None]) -> None:
        self._deadline = deadline
        self._report = report
        self._selector = selectors.DefaultSelector()
        for team in teams:
            for rank in team.ranks:
                assert rank.process.stdout is not None
                self._selector.register(rank.process.stdout, selectors.EVENT_READ, rank)

    def wait(self, teams: list[Team]) -> list[list[str]]:
        """The next answer of every rank of `teams`, by team."""
        while not all(rank.answers for team in teams for rank in team.ranks):
            ready = self._selector.select(max(0.0, self._deadline - time.monotonic()))
            if not ready:
                late = next(team for team in teams if not all(rank.answers for rank in team.ranks))
                raise late.build_failure(RunStatus.TIMEOUT)
            for key, _ in ready:
                self._read_output(key.data)
        return [[rank.answers.pop(0) for rank in team.ranks] for team in teams]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._selector.close()

    def _read_output(self, rank: _TeamRank) -> None:
        assert rank.process.stdout is not None
        data = os.read(rank.process.stdout.fileno(), 65536)
        if not data:
            raise rank.team.build_failure(None, rank)
        *lines, rank.text = (rank.text + data.decode(errors="replace")).split("\n")
        for line in lines:
            if line.startswith((f"{protocol.READY} ", f"{protocol.STEPS} ")):
                rank.answers.append(line)
            else:
                self._report(f"{rank.team.label}: {line}")


def check_ready(team: Team, answers: list[str]) -> None:
    """A `PerfkitError` where a team's own perfkit speaks another language, as when perfkit itself is compared."""
    if any(answer != protocol.format_ready() for answer in answers):
        raise PerfkitError(
            f"{team.label}: its perfkit speaks protocol {answers[0]!r}, this one "
            f"{protocol.format_ready()!r}; these two revisions of perfkit cannot be measured together"
        )


def merge_team_steps(answers: list[str]) -> StepSamples:
    """The steps that a team's ranks have run, as those of one."""
    return merge_slowest_ranks([protocol.parse_steps(answer.partition(" ")[2]) for answer in answers])
