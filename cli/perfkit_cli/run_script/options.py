"""The options of `perfkit run`: one table for the command and for `python -m perfkit.run`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from perfkit.attach.launcher_env import MOST_HZ, STACKS_HZ
from perfkit.attach.live.trace_triggers import REASONS
from perfkit.attach.run_folder import find_plan
from perfkit.errors import UsageError, make_unknown_name_error
from perfkit.integrations.logger_table import LOGGERS
from perfkit.parse_units import parse_amount
from perfkit.spec import Schedule

_DEFAULTS = Schedule()
_COUNT = click.IntRange(min=0)
_ARGUMENTS = f"{__name__}.arguments"  # where a context keeps the command line as it was given

HELP = """Run a training script as it is, and find out where a step's time and memory go.

The script runs as under Python itself, with its own arguments, output and exit code. Its steps, models and optimizers
are found by hooks; warm-up is skipped, some steps are timed, some traced, of some every allocation is recorded, and the
rest of the run is left alone. The report is written when the script has ended.
"""

EXAMPLES = """\b
Examples:
  perfkit run train.py --lr 3e-4
  perfkit run --timed 50 --out runs/today train.py
  perfkit run -m package.train --config base.yaml
  perfkit run --step-function train_step train.py
  perfkit run --always-on --trace-on regression --log tensorboard:logs train.py
  perfkit plan -w train.py:build --out runs/plan && perfkit run --plan runs/plan train.py
\b
Several ranks, each of them watched, one report:
  perfkit run --nproc 2 train.py                         as torchrun --standalone --nproc-per-node 2 starts them
  torchrun --nproc-per-node 2 -m perfkit.run train.py
  srun perfkit run train.py                              within a Slurm job
  accelerate launch -m perfkit.run train.py
  torchrun --nproc-per-node 8 -m perfkit.run --ranks 0,7 train.py
\b
Exit codes: the script's own; 2 where the request is wrong, before the script starts.
"""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What was asked for. `program` is the script, or the module where `module` is set."""

    program: str
    arguments: tuple[str, ...]
    module: bool
    out: Path | None
    name: str
    schedule: Schedule
    step_every: int | None
    step_function: str
    unit: str
    units_per_step: float | None
    nproc: int | None
    ranks: tuple[int, ...] | None
    overhead: float
    max_memory: float | None
    always_on: bool
    trace_on: tuple[str, ...]
    log: tuple[str, ...]
    stacks: int | None
    plan: Path | None
    report: bool
    quiet: bool


class RunCommand(click.Command):
    """A command whose options end with the script's name: what follows are the script's own."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            name="run",
            params=_build_parameters(),
            help=HELP,
            short_help="Watch a training script while it runs, without changing it.",
            epilog=EXAMPLES,
            context_settings={
                "allow_interspersed_args": False,
                "help_option_names": ["-h", "--help"],
                "max_content_width": 120,
            },
            options_metavar="[OPTIONS]",
            **settings,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


def get_arguments(ctx: click.Context) -> tuple[str, ...]:
    """The command line of a `RunCommand`, word by word."""
    arguments: tuple[str, ...] = ctx.meta[_ARGUMENTS]
    return arguments


def parse_run_options(arguments: Sequence[str]) -> RunOptions:
    """The options in `arguments`.

    Raises:
        UsageError: a value that cannot be.
        click.ClickException: an option that there is not, or a value of another type.
        click.exceptions.Exit: help was asked for, and printed.
    """
    options: RunOptions = RunCommand(callback=check_run_options).main(
        list(arguments), "perfkit run", standalone_mode=False
    )
    if not isinstance(options, RunOptions):
        raise click.exceptions.Exit(options)
    return options


def _build_schedule(warmup: int | None, *, timed: int, trace: int, memory: int) -> Schedule:
    """A warm-up that is asked for is as long as asked: a short program has no steps to give away."""
    least, most = (_DEFAULTS.warmup, _DEFAULTS.max_warmup) if warmup is None else (warmup, warmup)
    return Schedule(warmup=least, max_warmup=most, timed=timed, trace=trace, memory=memory)


def check_run_options(
    *,
    module: bool,
    program: tuple[str, ...],
    out: Path | None,
    name: str,
    warmup: int | None,
    timed: int,
    trace: int,
    memory: int,
    step_every: int | None,
    step_function: str,
    unit: str,
    units_per_step: float | None,
    nproc: int | None,
    ranks: str,
    overhead: str,
    max_memory: str,
    always_on: bool,
    trace_on: str,
    log: tuple[str, ...],
    stacks: str,
    plan: Path | None,
    no_report: bool,
    quiet: bool,
) -> RunOptions:
    """The options, as far as they can be checked without importing what the script may want to set up first."""
    if not program:
        raise UsageError(
            "no script: give one with its arguments, perfkit run train.py, or a module, perfkit run -m NAME"
        )
    reasons = tuple(word.strip() for word in trace_on.split(",") if word.strip())
    for reason in reasons:
        if reason not in REASONS:
            raise make_unknown_name_error("reason to trace", reason, REASONS)
    if reasons and not always_on:
        raise UsageError("--trace-on is for a loop that is watched all the time: give --always-on as well")
    for logger in log:
        tracker = logger.partition(":")[0]
        if tracker not in LOGGERS.list_names():
            raise make_unknown_name_error("logger", tracker, LOGGERS.list_names())
    if step_function and step_every is not None:
        raise UsageError("--step-function and --step-every both say what a step is: give one of them")
    if step_function and not all(part.isidentifier() for part in step_function.replace(":", ".", 1).split(".")):
        raise UsageError(
            f"--step-function {step_function!r}: expected function, Class.method or package.module:function"
        )
    return RunOptions(
        program=program[0],
        arguments=program[1:],
        module=module,
        out=out,
        name=name,
        schedule=_build_schedule(warmup, timed=timed, trace=trace, memory=memory),
        step_every=step_every,
        step_function=step_function,
        unit=unit,
        units_per_step=units_per_step,
        nproc=nproc,
        ranks=_parse_ranks(ranks),
        overhead=parse_amount(overhead, "1"),
        max_memory=parse_amount(max_memory, "bytes") if max_memory else None,
        always_on=always_on,
        trace_on=reasons,
        log=log,
        stacks=_parse_sampling_rate(stacks),
        plan=None if plan is None else find_plan(plan).parent,
        report=not no_report,
        quiet=quiet,
    )


def _parse_ranks(text: str) -> tuple[int, ...] | None:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"--ranks {text!r}: expected numbers from 0 on, separated by commas, such as 0,8")
    return tuple(map(int, words)) or None


def _parse_sampling_rate(text: str) -> int | None:
    if text == "off":
        return None
    if not text.isdecimal() or not 0 < int(text) <= MOST_HZ:
        raise UsageError(f"--stacks {text!r}: expected off, or samples a second from 1 to {MOST_HZ}")
    return int(text)


def _build_parameters() -> list[click.Parameter]:
    return [
        click.Option(["-m", "module"], is_flag=True, help="SCRIPT is the name of a module, as in python -m."),
        click.Option(
            ["--out"],
            metavar="FOLDER",
            type=click.Path(path_type=Path),
            help="Folder to write; a number is added where it holds a run already.  [default: runs/TIME-NAME]",
        ),
        click.Option(["--name"], default="", help="What the run is called in reports.  [default: as the script]"),
        click.Option(
            ["--warmup"],
            metavar="N",
            type=_COUNT,
            help=f"Steps before timing.  [default: {_DEFAULTS.warmup}, on a single rank until steps are steady, for at "
            f"most {_DEFAULTS.max_warmup}]",
        ),
        click.Option(
            ["--timed"],
            default=_DEFAULTS.timed,
            show_default=True,
            metavar="N",
            type=click.IntRange(min=1),
            help="Steps that are timed, with nothing on but the clock.",
        ),
        click.Option(
            ["--trace"],
            default=_DEFAULTS.trace,
            show_default=True,
            metavar="N",
            type=_COUNT,
            help="Steps that are traced by torch.profiler; 0 for none.",
        ),
        click.Option(
            ["--memory"],
            default=_DEFAULTS.memory,
            show_default=True,
            metavar="N",
            type=_COUNT,
            help="Steps of which every allocation is recorded; 0 for none.",
        ),
        click.Option(
            ["--step-every"],
            metavar="N",
            type=click.IntRange(min=1),
            help="A step of the loop is every N steps of optimizers.  [default: found out]",
        ),
        click.Option(
            ["--step-function"],
            default="",
            metavar="FUNCTION",
            help="A step of the loop is a call of function or Class.method in the script, or of "
            "package.module:function.",
        ),
        click.Option(
            ["--unit"], default="samples", show_default=True, metavar="NAME", help="What --units-per-step counts."
        ),
        click.Option(
            ["--units-per-step"],
            metavar="N",
            type=click.FloatRange(min=0, min_open=True),
            help="What a rank trains on in a step.  [default: samples, counted in the batches]",
        ),
        click.Option(
            ["--nproc"],
            metavar="N",
            type=click.IntRange(min=1),
            help="Start N ranks on this machine by torchrun, as torchrun --standalone --nproc-per-node N does.",
        ),
        click.Option(
            ["--ranks"],
            default="",
            metavar="LIST",
            help="Of several ranks, those that are traced and whose memory is recorded, such as 0,8; the others are "
            "timed.  [default: all]",
        ),
        click.Option(
            ["--overhead"],
            default="5%",
            show_default=True,
            metavar="SHARE",
            help="Of the time since the loop began that recordings may take, 10 s in any case; one that would take "
            "more ends early or does not begin.",
        ),
        click.Option(
            ["--max-memory"],
            default="",
            metavar="SIZE",
            help="Of the host's memory that a recording may take, such as 2GiB.  [default: a quarter of what is "
            "available]",
        ),
        click.Option(
            ["--always-on"],
            is_flag=True,
            help="Watch every step to the end, lightly: a log a line a second instead of memory and trace.",
        ),
        click.Option(
            ["--trace-on"],
            default="",
            metavar="LIST",
            help=f"What lets the next steps be traced under --always-on: {', '.join(REASONS)}.",
        ),
        click.Option(
            ["--stacks"],
            default=str(STACKS_HZ),
            show_default=True,
            metavar="HZ|off",
            help="How often a second the Python stacks of the loop and of its DataLoaders' workers are sampled, for "
            "3 s after all else.",
        ),
        click.Option(
            ["--log"],
            multiple=True,
            metavar="TRACKER[:WHERE]",
            help="Also send figures and report to a tracker, such as tensorboard:DIR. May be given several times.",
        ),
        click.Option(
            ["--plan"],
            metavar="FOLDER",
            type=click.Path(path_type=Path),
            help="Hold the loop against the plan of perfkit plan --out FOLDER, if it is of the same model: against the "
            "variant called as --name says, else the only one, else the baseline.",
        ),
        click.Option(
            ["--no-report"], is_flag=True, help="Write what was measured only; perfkit report draws it later."
        ),
        click.Option(
            ["-q", "--quiet"], is_flag=True, help="Say nothing before the script; the path of the report after."
        ),
        click.Argument(["program"], nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGUMENTS]..."),
    ]
