"""Watches a program under `perfkit run`, from its first import of torch to its end."""

import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.attach.host.guard import Guard
from perfkit.attach.host.launcher_env import read_rank
from perfkit.attach.host.run_folder import name_default_folder
from perfkit.core.files import read_json
from perfkit.store.layout import SUITE_FILE
from perfkit.store.summary import SUMMARY_FILE, ReportSummary
from perfkit_cli.run_script.import_hooks import call_after_import
from perfkit_cli.run_script.json_stdout import divert_stdout, write_error_json, write_report_json
from perfkit_cli.run_script.options import RunOptions
from perfkit_cli.run_script.program import UserProgram
from perfkit_cli.run_script.run_profile import make_run_profile
from perfkit_cli.run_script.spawned_ranks import SpawnedRank, follow_spawn
from perfkit_cli.run_script.stalled_rank import StallWatch
from perfkit_cli.run_script.step_function import StepFunction
from perfkit_cli.run_script.terminated_rank import report_on_termination

if TYPE_CHECKING:
    from perfkit.attach.profile import Profile
from perfkit.core.errors import PerfkitError, RunFormatError
from perfkit.core.record.rank_record import RankRecord
from perfkit.store.layout import MEMORY_FILE, RECORD_FILE, TRACE_FILE


def describe_run_contents(folder: Path) -> str:
    """Describe the contents of a run: `20 timed steps, the trace`; empty if there is nothing to report."""
    suite = folder / SUITE_FILE
    if not suite.is_file() or not suite.stat().st_size:
        return ""
    steps = max((_count_timed_steps(path) for path in folder.glob(f"*/*/rank*/{RECORD_FILE}")), default=None)
    if steps is None:
        return ""
    parts = [f"{steps} timed steps"]
    for name, words in ((TRACE_FILE, "the trace"), (MEMORY_FILE, "the memory recording")):
        if any(folder.glob(f"*/*/rank*/{name}")):
            parts.append(words)
    return ", ".join(parts)


def _count_timed_steps(record: Path) -> int:
    try:
        return len(read_json(record, RankRecord).samples.wall_s)
    except RunFormatError:
        return 0


class ProgramWatcher:
    """Watches `program`. Nothing in it raises on perfkit's account.

    torch is not imported for it: the program may want to set environment variables before it does so itself.
    """

    def __init__(self, options: RunOptions, program: UserProgram) -> None:
        name = options.name or program.name
        self.folder = Path(options.out or name_default_folder(name, datetime.now())).absolute()
        self.steps = StepFunction(options.step_function) if options.step_function else None
        self._options = options
        self._program = program
        self._name = name
        self._profile: Profile | None = None
        self._stalls: StallWatch | None = None
        self._ended = False
        self._spawned = False
        self._process = os.getpid()
        self._stdout: int | None = None
        self._guard = Guard(lambda: None)

    def start_watching(self) -> None:
        """Wait for the program to import torch."""
        steps = self.steps
        if steps is not None and steps.module:
            call_after_import(steps.module, lambda module: self._guard(steps.wrap_in_module, module))
        call_after_import(
            "torch.multiprocessing.spawn", lambda module: self._guard(follow_spawn, module, self._wrap_spawned)
        )
        call_after_import("torch", lambda _: self._guard(self._start_profile))

    def divert_output(self) -> None:
        """Keep standard output for the report's JSON."""
        self._stdout = divert_stdout()

    def announce_folder(self) -> None:
        """Announce that the program is watched, and the folder of the results."""
        if not self._options.quiet:
            self._print_line(f"watching {self._options.program}, recording to {_format_path(self.folder)}")

    def cancel(self, error: PerfkitError) -> None:
        """There is no program."""
        self._ended = True
        if self._stdout is not None and read_rank() == 0:
            write_error_json(self._stdout, error.id, str(error))

    def end(self, error: BaseException | None) -> None:
        """Write the results of a program that ended with `error`. Later calls, or one in a forked child, do nothing."""
        if self._ended or os.getpid() != self._process:
            return
        self._ended = True
        if self._stalls is not None:
            self._stalls.stop()
        try:
            self._guard(self._finish_report, error)
        except KeyboardInterrupt:
            self._print_line(f"interrupted: results so far are in {_format_path(self.folder)}")
        if self._stdout is not None and read_rank() == 0:
            write_report_json(self._stdout, None if self._profile is None else self._profile.folder)

    def _start_profile(self) -> None:
        profile = make_run_profile(self._options, self.folder, self._name, logs=read_rank() == 0)
        self._profile = profile
        report_on_termination(read_rank(), lambda: profile.folder)
        self._stalls = StallWatch(profile, read_rank())
        self._profile.start(by_hand=self.steps is not None)
        self._stalls.start()
        if self.steps is not None:
            self.steps.on_step = self._profile.step

    def _wrap_spawned(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` as it is to be run in processes that the program spawns."""
        if self._ended or self.steps is not None:  # a function of the script's is decorated in this process alone
            return function
        self._spawned = True
        return SpawnedRank(function, self._options, self.folder, self._name)

    def _finish_report(self, error: BaseException | None) -> None:
        if self._profile is None:
            if self._guard.failure is None:
                self._print_line(f"nothing was recorded: {self._options.program} did not import torch")
            return
        self._profile.stop(error, elsewhere=self._spawned)
        complaint = self.steps.describe_problem(self._program.main) if self.steps is not None else ""
        if complaint:
            self._print_line(complaint)
        folder = self._profile.folder
        if self._profile.failure:
            if folder.is_dir():
                what = describe_run_contents(folder)
                drawn = f"; write the report with: perfkit report {_format_path(folder)}" if what else " to report"
                self._print_line(f"kept in {_format_path(folder)}: {what or 'nothing'}{drawn}")
        elif (self._profile.recorded or self._spawned) and (folder / "report.html").is_file():
            summary = read_json(folder / SUMMARY_FILE, ReportSummary)
            if summary.headline:
                self._print_line(summary.headline)
            self._print_line(f"report: {_format_path(folder / 'report.html')}")
        elif (self._profile.recorded or self._spawned) and (folder / SUITE_FILE).is_file():
            self._print_line(
                f"recorded in {_format_path(folder)}; write the report with: perfkit report {_format_path(folder)}"
            )
        elif self._options.out is None and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()  # perfkit chose the name, and the folder stayed empty

    def _print_line(self, text: str) -> None:
        """A line on standard error, of rank 0 alone."""
        if read_rank() == 0 and sys.stderr is not None:
            sys.stderr.write(f"perfkit: {text}\n")
            sys.stderr.flush()


def _format_path(path: Path) -> str:
    """As a user would type it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
