"""A training script that `perfkit tune` records, or that takes steps on its command:
`python -m perfkit_cli.run_script.commanded_script FOLDER`.

It runs as under `perfkit run`; where it waits for a command it waits between two steps.
"""

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, Protocol

import psutil

from perfkit.core.files import read_json, write_json
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import Schedule
from perfkit.measure.interleaving.protocol import END, format_ready, format_steps
from perfkit.measure.launch.channel import end_with_parent, open_command_channel, open_progress_channel
from perfkit.store.layout import OUTPUT_FILE, get_rank_folder
from perfkit.tune.script.script_run import LOSS_STEPS, NOTES_FILE, ORDER_FILE, ScriptNotes, ScriptOrder
from perfkit_cli.run_script.import_hooks import call_after_import
from perfkit_cli.run_script.program import make_script_program

if TYPE_CHECKING:
    from torch import Tensor

    from perfkit.attach.loop.backward_losses import BackwardLosses
    from perfkit.attach.loop.loop_follower import LoopFollower
    from perfkit.attach.profile import Profile

# Of the process itself: the script runs alone, not under a launcher of ranks.
_NOT_THE_SCRIPTS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "PYTHONSAFEPATH")

# A search records the script once for each edit that it accepts: steps to warm up at most, and to time.
_MOST_WARMUP, _TIMED = 10, 10


class ScriptFollower(Protocol):
    """What is done with the steps of a script."""

    def begin(self) -> None:
        """torch was imported."""

    def end(self) -> None:
        """The script has ended."""


def main() -> None:
    """Entry point of the process."""
    folder = Path(sys.argv[1])
    commands = open_command_channel()
    say = open_progress_channel(get_rank_folder(folder, 0) / OUTPUT_FILE)
    end_with_parent()
    order = read_json(folder / ORDER_FILE, ScriptOrder)
    for name in _NOT_THE_SCRIPTS:
        os.environ.pop(name, None)
    follower = RecordedScript(folder, order) if order.records else CommandedScript(folder, order, say, commands)
    call_after_import("numpy", lambda numpy: numpy.random.seed(order.seed))
    call_after_import("torch", lambda torch: _begin(torch, order.seed, follower))
    if order.eager_random:
        call_after_import("torch._inductor.config", _draw_eager_random)
    random.seed(order.seed)
    program = make_script_program(order.script)
    sys.path.insert(0, str(Path(order.script).absolute().parent))
    code, known = program.load(order.arguments, lambda source, path: compile(source, path, "exec", dont_inherit=True))
    try:
        program.execute(code, known)
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    follower.end()


def _begin(torch: ModuleType, seed: int, follower: ScriptFollower) -> None:
    torch.manual_seed(seed)
    follower.begin()


def _draw_eager_random(config: ModuleType) -> None:
    config.fallback_random = True  # type: ignore[attr-defined]


class RecordedScript:
    """A script whose steps are recorded as by `perfkit run`; it ends once all is recorded."""

    def __init__(self, folder: Path, order: ScriptOrder) -> None:
        self._folder, self._order = folder, order
        self._deadline = time.monotonic() + order.limit_s
        self._profile: Profile | None = None

    def begin(self) -> None:
        from perfkit.attach.loop.backward_losses import BackwardLosses
        from perfkit.attach.profile import profile

        self._profile = profile(
            self._folder / "recording",
            name=Path(self._order.script).stem,
            schedule=Schedule(warmup=5, max_warmup=_MOST_WARMUP, timed=_TIMED),
            report=False,
            overhead=1.0,
        )
        self._profile.start()
        BackwardLosses(0).install(self._end_when_recorded)

    def end(self) -> NoReturn:
        steps = 0
        if self._profile is not None:
            steps = self._profile.steps
            self._profile.stop()
        _end_process(self._folder, ScriptNotes(files=_list_own_files(), steps=steps))

    def _end_when_recorded(self) -> None:
        profile = self._profile
        if profile is None or (profile.steps and not profile.active) or time.monotonic() > self._deadline:
            self.end()


class CommandedScript:
    """A script that takes so many steps at a time, and waits between two steps for the next command.

    While it waits, the processes that it has started (workers of its DataLoaders) are stopped: they would take the time
    of the variant whose turn it is, and prepare batches that no step has to wait for.
    """

    def __init__(self, folder: Path, order: ScriptOrder, say: Callable[[str], None], commands: Iterator[str]) -> None:
        self._folder, self._order, self._say, self._commands = folder, order, say, commands
        self._steps = self._asked = 0
        self._wall: list[int] = []
        self._cpu: list[int] = []
        self._losses: BackwardLosses | None = None
        self._loop: LoopFollower | None = None

    def begin(self) -> None:
        from perfkit.attach.host.guard import Guard
        from perfkit.attach.loop.backward_losses import BackwardLosses
        from perfkit.attach.loop.loop_follower import LoopFollower
        from perfkit.attach.loop.loop_hooks import LoopHooks
        from perfkit.attach.loop.step_finder import StepFinder

        self._losses = BackwardLosses(LOSS_STEPS)
        self._losses.install(lambda: None)
        self._loop = LoopFollower(StepFinder(), self._handle_boundary)
        self._loop.sizing = False
        LoopHooks(self._loop, Guard(lambda: os._exit(1))).install()

    def end(self) -> None:
        """Answer with the steps that were taken, and to all further commands with none."""
        if self._asked:
            self._answer()
        elif not self._steps:
            return
        for command in self._commands:
            if command == END:
                break
            self._say(format_steps(StepSamples()))
        self._leave()

    def _handle_boundary(self) -> None:
        assert self._loop is not None, "as made by begin"
        assert self._losses is not None, "as made by begin"
        self._steps += 1
        self._loop.take()
        self._losses.end_step()
        if self._steps == 1:
            if self._order.nudged:
                self._nudge()
            self._say(format_ready())
            self._wait()
            return
        if len(self._wall) == self._asked:  # of the last step: the device has to be through
            self._synchronize()
        self._wall.append(time.perf_counter_ns())
        self._cpu.append(time.process_time_ns())
        if len(self._wall) > self._asked:
            self._answer()
            self._wait()

    def _wait(self) -> None:
        _signal_children(psutil.Process.suspend)
        command = next(self._commands, END)
        _signal_children(psutil.Process.resume)
        if command == END:
            self._leave()
        self._asked = int(command.partition(" ")[2])
        self._synchronize()
        self._wall, self._cpu = [time.perf_counter_ns()], [time.process_time_ns()]

    def _answer(self) -> None:
        self._asked = 0
        self._say(format_steps(StepSamples(wall_s=_list_durations_s(self._wall), cpu_s=_list_durations_s(self._cpu))))

    def _synchronize(self) -> None:
        """Wait until the device has done what the steps gave it."""
        from perfkit.devices.accelerator import get_accelerator

        for device in {parameter.device for parameter in self._list_parameters()}:
            if get_accelerator(device).has_events:
                get_accelerator(device).runtime.synchronize(device)

    def _nudge(self) -> None:
        """Change each parameter by one rounding."""
        import torch

        with torch.no_grad():
            for parameter in self._list_parameters():
                if parameter.is_floating_point():
                    parameter.mul_(1 + torch.finfo(parameter.dtype).eps)

    def _list_parameters(self) -> "list[Tensor]":
        optimizers = () if self._loop is None else self._loop.optimizers
        return [parameter for each in optimizers for group in each.param_groups for parameter in group["params"]]

    def _leave(self) -> NoReturn:
        losses = () if self._losses is None else self._losses.read()
        _end_process(self._folder, ScriptNotes(losses=losses, files=_list_own_files(), steps=self._steps))


def _list_durations_s(times_ns: Sequence[int]) -> tuple[float, ...]:
    return tuple((after - before) * 1e-9 for before, after in pairwise(times_ns))


def _list_children() -> list[psutil.Process]:
    """The processes that the script has started and that run."""
    return psutil.Process().children(recursive=True)


def _signal_children(signal: Callable[[psutil.Process], None]) -> None:
    for child in _list_children():
        with contextlib.suppress(psutil.Error):  # it has ended
            signal(child)


def _list_own_files() -> tuple[str, ...]:
    """The files of this folder whose code was imported, relative to it; not those of an environment within it."""
    here = Path.cwd()
    named = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    inside = {
        os.path.relpath(name, here)
        for name in named
        if isinstance(name, str) and name.endswith(".py") and name.startswith(f"{here}{os.sep}")
    }
    return tuple(sorted(name for name in inside if "site-packages" not in name))


def _end_process(folder: Path, notes: ScriptNotes) -> NoReturn:
    """End the process in the middle of the script, which is not told: its own handlers would go on with it."""
    write_json(folder / NOTES_FILE, notes)
    sys.stdout.flush()
    sys.stderr.flush()
    _signal_children(psutil.Process.kill)
    os._exit(0)


if __name__ == "__main__":
    main()
