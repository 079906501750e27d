"""`perfkit.profile`: a loop that exists is watched, a few of its steps are recorded, and the rest is left alone."""

import html
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from torch import nn
from torch.optim import Optimizer

from perfkit.attach.host.budget import OVERHEAD
from perfkit.attach.host.guard import LOG
from perfkit.attach.host.launcher_env import MOST_HZ, STACKS_HZ
from perfkit.attach.host.logger import Logger
from perfkit.attach.host.run_folder import find_plan, name_default_folder
from perfkit.attach.host.run_report import run_report_command
from perfkit.attach.live.live_watch import Callback
from perfkit.attach.live.trace_triggers import REASONS
from perfkit.attach.loop.loop_hooks import remove_own_frames
from perfkit.attach.loop_session import LoopOptions
from perfkit.attach.watch_setup import WatchOptions
from perfkit.attach.watcher import LoopWatcher, WatcherOptions
from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit.core.parse_units import parse_amount
from perfkit.core.spec import Schedule
from perfkit.store.layout import NOTEBOOK_FILE, RECORD_FILE, SUITE_FILE
from perfkit.store.price import parse_price


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run. A notebook shows `page`, everything else `text`."""

    text: str
    page: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """A fragment that needs nothing from elsewhere and runs no script: Jupyter, VS Code and Colab all show it."""
        return self.page


def build_summary(folder: Path) -> RunSummary:
    """Build the summary of the run in `folder`, writing its report in a separate process.

    Where nothing was recorded, or no report can be drawn, the summary says so.
    """
    if not _has_records(folder):
        return _make_message(f"Nothing has been recorded in {folder} yet: no step of the loop has ended.")
    process = run_report_command(folder, "--notebook")
    if process.returncode:
        return _make_message(f"Could not write a report of {folder}: {process.stderr.strip()}")
    return RunSummary(text=process.stdout.strip(), page=(folder / NOTEBOOK_FILE).read_text(encoding="utf-8"))


def _has_records(folder: Path) -> bool:
    """True if a step of the loop was seen."""
    suite = folder / SUITE_FILE
    return suite.is_file() and suite.stat().st_size > 0 and any(folder.glob(f"*/0/rank*/{RECORD_FILE}"))


def _make_message(text: str) -> RunSummary:
    return RunSummary(text=text, page=f"<p>{html.escape(text)}</p>")


# The one that is watching: torch has one profiler, and steps are found by hooks that are there once.
_watching: "Profile | None" = None


class Profile:
    """Watches the training loop that runs while it is entered; see `profile`."""

    def __init__(self, order: WatcherOptions) -> None:
        self._order = order
        self._watcher: LoopWatcher | None = None

    @property
    def active(self) -> bool:
        """True while watching: from `start` until all is recorded (unless always on), or until a failure."""
        return self._watcher is not None and self._watcher.active

    @property
    def steps(self) -> int:
        """The number of detected steps of the loop so far; it stays where it is once `active` is False."""
        return 0 if self._watcher is None else self._watcher.session.steps

    @property
    def updates(self) -> int:
        """A number that changes with each update of the loop's parameters once all is recorded, except by a replayed
        CUDA graph."""
        return 0 if self._watcher is None else self._watcher.session.sum_versions()

    @property
    def folder(self) -> Path:
        """The folder of the run; until the first step is over, the one that was asked for."""
        return self._order.wishes.folder if self._watcher is None else self._watcher.session.folder

    @property
    def recorded(self) -> bool:
        """True if this profile wrote anything to `folder`."""
        return self._watcher is not None and self._watcher.session.main is not None

    @property
    def failure(self) -> str:
        """The reason that perfkit turned itself off, in one line; empty without a failure."""
        return "" if self._watcher is None else self._watcher.guard.reason

    def start(self, *, by_hand: bool = False) -> Self:
        """Start watching; `by_hand`: only `step` marks steps. Raises nothing of perfkit's own."""
        global _watching
        if _watching is not None:
            LOG.warning("perfkit is already watching this process: %s is not recorded", self._order.wishes.folder)
            return self
        _watching = self
        self._watcher = LoopWatcher(self._order, by_hand=by_hand, at_exit=self._stop_at_exit)
        self._watcher.guard(self._watcher.begin)
        return self

    def step(self) -> None:
        """Mark the end of a step. Once called, optimizers no longer mark steps."""
        if self._watcher is not None and self._watcher.active:
            self._watcher.guard(self._watcher.session.loop.step)

    def evaluated(self) -> None:
        """An evaluation ran in this step, whose time is left out. Not needed where hooks can see it."""
        if self._watcher is not None:
            self._watcher.guard(self._watcher.session.loop.evaluated)

    def stop(self, error: BaseException | None = None, *, elsewhere: bool = False) -> None:
        """Stop watching and write the results; `error` is what ended the loop, None for a normal end. `elsewhere`:
        there may be no loop here, because other processes train."""
        global _watching
        if _watching is not self or self._watcher is None:
            return
        if error is not None:
            remove_own_frames(error)
        try:
            self._watcher.guard(partial(self._watcher.finish, error, elsewhere=elsewhere))
        finally:  # also on an interrupt
            self._watcher.let_go()
            _watching = None

    def summary(self) -> RunSummary:
        """The report of what was recorded so far: text when printed, with figures in a notebook.

        The report is written for it, in a process of its own. May be called while the loop runs.
        """
        return build_summary(self.folder)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop(error)

    def _stop_at_exit(self) -> None:
        self.stop(getattr(sys, "last_value", None))


def profile(
    folder: str | Path | None = None,
    *,
    model: nn.Module | Mapping[str, nn.Module] | None = None,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    name: str = "",
    schedule: Schedule | None = None,
    step_every: int | None = None,
    units_per_step: float | None = None,
    unit: str = "samples",
    ranks: Collection[int] | None = None,
    overhead: float | str = OVERHEAD,
    max_memory: float | str | None = None,
    report: bool = True,
    loggers: Sequence[Logger] = (),
    always_on: bool = False,
    trace_on: Collection[str] = (),
    on_outlier: Callback | None = None,
    on_drift: Callback | None = None,
    flops_per_step: float | None = None,
    stacks: int | None = STACKS_HZ,
    plan: str | Path | None = None,
    counters: str = "",
    price: str | None = None,
) -> Profile:
    """Watch the training loop in a `with` block (or between `start()` and `stop()`) and record a few of its steps.

        with perfkit.profile("runs/today"):
            train()

    Hooks find steps, models and optimizers. After warm-up, some steps are timed without instruments, some are traced,
    and some have every allocation recorded; then hooks are removed, but for the few that time the parts of the whole
    run (evaluations, checkpoints, compilations, waits for data). The loop's results do not change, and no error of
    perfkit reaches it: the first one is logged (logger `perfkit`), and perfkit switches itself off.

    Args:
        folder: the folder of the run, by default `runs/TIME-NAME`; a number is appended if it contains a run already.
        model, optimizer: the trained model and its optimizer, instead of detection; several models by name.
        name: the name of the run in reports, by default the script's.
        schedule: the number of steps of each kind; by default `perfkit.core.spec.Schedule()`.
        step_every: the number of optimizer steps per step of the loop.
        units_per_step: the units of a step on this rank, named `unit`; by default samples are counted in the batches of
            DataLoaders, or in the model's inputs.
        ranks: the ranks to trace and to record allocations of, by default all; the others are only timed.
        overhead: the largest share of the time since the loop began for recordings, such as 0.05 or "5%"; at least
            10 s. A recording that would take more ends early or does not begin, and the report says so.
        max_memory: the largest system memory for a recording, in bytes or as "2GiB"; by default a quarter of what is
            available. Near the system's limit, no recording begins and the current one ends.
        report: write `report.html` and other formats into the folder at the end, in a separate process.
        loggers: further destinations of figures and report (`perfkit.integrations`).
        always_on: watch all steps lightly instead of recording a few: their times, data waits, memory, MFU and GPU
            sensors go to a log, one line per second.
        trace_on: for an always-on loop, the triggers of a trace of the next steps: `regression`, `outlier`, `signal`
            (SIGUSR1), `file` (`trace-now` in the run's folder). A first trace for comparison is made at the beginning.
        on_outlier, on_drift: called for an unusually long step, and when all steps have become slower.
        flops_per_step: the FLOPs of this rank, for the MFU; by default counted in one step, where possible.
        stacks: samples per second of the Python stacks of the loop and of DataLoader workers, taken from outside for
            some seconds after everything else; None for never.
        plan: the folder of a plan (`perfkit plan --out`) to compare the loop with, if it is of the same model: with the
            variant called `name`, else the only one, else the baseline.
        counters: `pm` to sample the GPU's performance monitors while steps are traced (torch 2.14, `cupti-python`),
            which locks its clocks meanwhile.
        price: of an hour of all that the run uses, such as "2.49EUR/h", for the cost of samples and useful tokens.

    Raises:
        UsageError: invalid options, or a folder without a plan.
    """
    for reason in trace_on:
        if reason not in REASONS:
            raise make_unknown_name_error("value of trace_on", reason, REASONS)
    if ranks is not None and (not ranks or min(ranks) < 0):
        raise UsageError(f"ranks: expected at least one, starting from 0, got {sorted(ranks)}")
    if stacks is not None and stacks not in range(1, MOST_HZ + 1):
        raise UsageError(
            f"stacks: expected a whole number of samples per second, 1 to {MOST_HZ}, or None, got {stacks!r}"
        )
    if counters not in ("", "pm"):
        raise make_unknown_name_error("value of counters", counters, ["pm"])
    only_always = {
        "trace_on": trace_on,
        "on_outlier": on_outlier,
        "on_drift": on_drift,
        "flops_per_step": flops_per_step,
    }
    for option, value in only_always.items():
        if value and not always_on:
            raise UsageError(f"{option} needs a loop that is watched to the end; also pass always_on=True")
    planned = schedule or Schedule()
    if always_on:
        planned = msgspec.structs.replace(planned, memory=0, trace=planned.trace if trace_on else 0)
    called = name or _get_script_name()
    models = {} if model is None else {"": model} if isinstance(model, nn.Module) else dict(model)
    optimizers = [] if optimizer is None else [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
    wishes = LoopOptions(
        folder=Path(folder) if folder is not None else name_default_folder(called, datetime.now()),
        name=called,
        models=models,
        schedule=planned,
        units_per_step=units_per_step,
        unit=unit,
        ranks=None if ranks is None else tuple(ranks),
        stacks_hz=int(stacks or 0),
        pm_sampling=counters == "pm",
        overhead=parse_amount(str(overhead), "1"),
        max_memory=None if max_memory is None else _parse_bytes(max_memory),
        plan=None if plan is None else find_plan(Path(plan)).read_bytes(),
        price=None if price is None else parse_price(price),
    )
    live = WatchOptions(trace_on=trace_on, on_outlier=on_outlier, on_drift=on_drift, flops_per_step=flops_per_step)
    return Profile(
        WatcherOptions(
            wishes,
            optimizers=optimizers,
            step_every=step_every,
            report=report,
            loggers=loggers,
            live=live if always_on else None,
        )
    )


def _parse_bytes(size: float | str) -> float:
    return parse_amount(size if isinstance(size, str) else f"{size}B", "bytes")


def _get_script_name() -> str:
    """`train` for `python train.py`; `training` without a script (a notebook, a prompt)."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(main).stem if main and not main.startswith("<") else "training"  # `python -` calls it <stdin>
