"""`perfkit.profile`: a loop that exists is watched, a few of its steps are recorded, and the rest is left alone."""

import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from torch import nn
from torch.optim import Optimizer

from perfkit.attach.budget import OVERHEAD
from perfkit.attach.guard import LOG
from perfkit.attach.launcher_env import MOST_HZ, STACKS_HZ
from perfkit.attach.live.live_watch import Callback
from perfkit.attach.live.trace_triggers import REASONS
from perfkit.attach.live.watch_setup import WatchOptions
from perfkit.attach.logger import Logger
from perfkit.attach.loop_hooks import remove_own_frames
from perfkit.attach.loop_session import LoopOptions
from perfkit.attach.run_folder import find_plan, name_default_folder
from perfkit.attach.summary import RunSummary, build_summary
from perfkit.attach.watcher import LoopWatcher, WatcherOptions
from perfkit.errors import UsageError, make_unknown_name_error
from perfkit.parse_units import parse_amount
from perfkit.spec import Schedule

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
) -> Profile:
    """Watch the training loop in a `with` block (or between `start()` and `stop()`) and record a few of its steps.

        with perfkit.profile("runs/today"):
            train()

    Steps, models and optimizers are found by hooks. Warm-up is skipped, then some steps are timed with nothing on but
    the clock, some are traced, of some every allocation is recorded; after that all hooks are gone and the loop runs
    on as it would without. Nothing of the loop's results changes, and no error of perfkit reaches it: the first is
    logged (logger `perfkit`) and perfkit switches itself off.

    Args:
        folder: where the run is written, by default `runs/TIME-NAME`; a number is added where it holds a run already.
        model, optimizer: what is trained, if it shall not be looked for; models by name where there are several.
        name: what the run is called in reports, by default as the script.
        schedule: how many steps of each kind; by default `perfkit.spec.Schedule()`.
        step_every: so many optimizer steps are a step of the loop.
        units_per_step: what a step trains on, of this rank, in units called `unit`; else samples are counted in the
            batches of DataLoaders, or in what the model is called with.
        ranks: those of several that are traced and whose allocations are recorded, by default all; others are timed.
        overhead: the share of the time since the loop began that recordings may take, such as 0.05 or "5%"; 10 s in
            any case. A recording that would take more ends early or does not begin, and the report says so.
        max_memory: bytes of the host's memory that a recording may take, or such as "2GiB"; by default a quarter of
            what is available. Near the end of the host's memory none begins and one under way ends.
        report: write `report.html` and its like into the folder at the end, in a process of its own.
        loggers: where figures and the report go beside the folder (`perfkit.integrations`).
        always_on: instead of a few steps watch all of them, lightly: their times, what they wait for data, memory, MFU
            and the GPU's sensors go to a log, a line a second.
        trace_on: of a loop that is always watched, what lets the next steps be traced: `regression`, `outlier`,
            `signal` (SIGUSR1), `file` (`trace-now` in the run's folder). Then a trace is made at the beginning, too,
            to compare with.
        on_outlier, on_drift: called when a step takes unusually long, and when all have become slower.
        flops_per_step: of this rank, for the MFU; else they are counted in one step, where that can be done.
        stacks: how often a second the Python stacks of the loop and of DataLoaders' workers are sampled, from outside
            and for some seconds after all else; None for never.
        plan: the folder of a plan (`perfkit plan --out`) that the report holds the loop against, if it is of the same
            model: against the variant called `name`, else the only one, else the baseline.

    Raises:
        UsageError: an option that makes no sense, or a folder without a plan.
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
        overhead=parse_amount(str(overhead), "1"),
        max_memory=None if max_memory is None else _parse_bytes(max_memory),
        plan=None if plan is None else find_plan(Path(plan)).read_bytes(),
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
