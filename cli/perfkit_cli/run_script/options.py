"""The options of `perfkit run`: one table for the command and for `python -m perfkit.run`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from perfkit.attach.host.launcher_env import MOST_HZ, STACKS_HZ
from perfkit.attach.host.run_folder import find_plan
from perfkit.attach.live.trace_triggers import REASONS
from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit.core.parse_units import parse_amount
from perfkit.core.spec import Schedule
from perfkit.integrations.logger_table import LOGGERS
from perfkit.store.price import Price, parse_price
from perfkit_cli.options.json_option import JSON_FLAG

_DEFAULTS = Schedule()
_COUNT = click.IntRange(min=0)
_ARGUMENTS = f"{__name__}.arguments"  # key of the unparsed command line in a context

HELP = """Run a training script unchanged, and find out where a step's time and memory go.

The script runs as under python, with its own arguments, output and exit code. Hooks find its steps, models and
optimizers. After warm-up, some steps are timed, some are traced, and some record every allocation; the rest of the run
is not instrumented. The report is written when the script ends.
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
Several ranks, one report:
  perfkit run --nproc 2 train.py                         like torchrun --standalone --nproc-per-node 2
  torchrun --nproc-per-node 2 -m perfkit.run train.py
  srun perfkit run train.py                              within a Slurm job
  accelerate launch -m perfkit.run train.py
  torchrun --nproc-per-node 8 -m perfkit.run --ranks 0,7 train.py
\b
Exit codes: the script's own; 2 invalid request, before the script starts.
"""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The parsed options. `program` is the script, or the module where `module` is set."""

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
    counters: str
    plan: Path | None
    price: Price | None
    report: bool
    as_json: bool
    quiet: bool


class RunCommand(click.Command):
    """A command whose options end with the script's name; the rest is passed to the script."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            name="run",
            params=_build_parameters(),
            help=HELP,
            short_help="Run a training script unchanged, and profile it.",
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
        UsageError: an invalid value.
        click.ClickException: an unknown option, or a value of the wrong type.
        click.exceptions.Exit: help was asked for, and printed.
    """
    options: RunOptions = RunCommand(callback=check_run_options).main(
        list(arguments), "perfkit run", standalone_mode=False
    )
    if not isinstance(options, RunOptions):
        raise click.exceptions.Exit(options)
    return options


def _build_schedule(warmup: int | None, *, timed: int, trace: int, memory: int) -> Schedule:
    given = _DEFAULTS if warmup is None else Schedule(warmup=warmup)
    return msgspec.structs.replace(given, timed=timed, trace=trace, memory=memory)


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
    counters: str | None,
    plan: Path | None,
    price: str | None,
    no_report: bool,
    as_json: bool,
    quiet: bool,
) -> RunOptions:
    """Check the options without importing anything that the script may configure first."""
    if not program:
        raise UsageError("no script given; expected a script (perfkit run train.py) or a module (perfkit run -m NAME)")
    reasons = tuple(word.strip() for word in trace_on.split(",") if word.strip())
    for reason in reasons:
        if reason not in REASONS:
            raise make_unknown_name_error("value of --trace-on", reason, REASONS)
    if reasons and not always_on:
        raise UsageError("--trace-on needs a loop that is watched to its end; add --always-on")
    for logger in log:
        tracker = logger.partition(":")[0]
        if tracker not in LOGGERS.list_names():
            raise make_unknown_name_error("logger", tracker, LOGGERS.list_names())
    if as_json and no_report:
        raise UsageError("--json prints the report, and --no-report writes none; use only one", id="usage.conflict")
    if step_function and step_every is not None:
        raise UsageError("--step-function and --step-every both define a step; use only one", id="usage.conflict")
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
        counters=counters or "",
        plan=None if plan is None else find_plan(plan).parent,
        price=None if price is None else parse_price(price),
        report=not no_report,
        as_json=as_json,
        quiet=quiet,
    )


def _parse_ranks(text: str) -> tuple[int, ...] | None:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"--ranks {text!r}: expected whole numbers from 0, separated by commas, such as 0,8")
    return tuple(map(int, words)) or None


def _parse_sampling_rate(text: str) -> int | None:
    if text == "off":
        return None
    if not text.isdecimal() or not 0 < int(text) <= MOST_HZ:
        raise UsageError(f"--stacks {text!r}: expected off, or samples per second from 1 to {MOST_HZ}")
    return int(text)


def _build_parameters() -> list[click.Parameter]:
    return [
        click.Option(["-m", "module"], is_flag=True, help="Run SCRIPT as a module, like python -m."),
        click.Option(
            ["--out"],
            metavar="FOLDER",
            type=click.Path(path_type=Path),
            help="Report folder; a number is appended if it already holds a run.  [default: runs/TIME-NAME]",
        ),
        click.Option(
            ["--name"], default="", metavar="NAME", help="Name of the run in reports.  [default: the script's]"
        ),
        click.Option(
            ["--warmup"],
            metavar="N",
            type=_COUNT,
            help=f"Warm-up steps before timing.  [default: {_DEFAULTS.warmup}; on one rank, until steps are steady, at "
            f"most {_DEFAULTS.max_warmup}]",
        ),
        click.Option(
            ["--timed"],
            default=_DEFAULTS.timed,
            show_default=True,
            metavar="N",
            type=click.IntRange(min=1),
            help="Steps to time, with no other instrument.",
        ),
        click.Option(
            ["--trace"],
            default=_DEFAULTS.trace,
            show_default=True,
            metavar="N",
            type=_COUNT,
            help="Steps to trace with torch.profiler; 0 for none.",
        ),
        click.Option(
            ["--memory"],
            default=_DEFAULTS.memory,
            show_default=True,
            metavar="N",
            type=_COUNT,
            help="Steps whose allocations are recorded; 0 for none.",
        ),
        click.Option(
            ["--step-every"],
            metavar="N",
            type=click.IntRange(min=1),
            help="A step is every N optimizer steps.  [default: automatic]",
        ),
        click.Option(
            ["--step-function"],
            default="",
            metavar="FUNCTION",
            help="A step is a call of this function: function or Class.method in the script, or "
            "package.module:function.",
        ),
        click.Option(
            ["--unit"], default="samples", show_default=True, metavar="NAME", help="Unit of --units-per-step."
        ),
        click.Option(
            ["--units-per-step"],
            metavar="N",
            type=click.FloatRange(min=0, min_open=True),
            help="Units per step and rank.  [default: samples, counted in the batches]",
        ),
        click.Option(
            ["--nproc"],
            metavar="N",
            type=click.IntRange(min=1),
            help="Start N ranks on this machine, like torchrun --standalone --nproc-per-node N.",
        ),
        click.Option(
            ["--ranks"],
            default="",
            metavar="LIST",
            help="Ranks whose trace and memory are recorded, such as 0,8; the others are only timed.  [default: all]",
        ),
        click.Option(
            ["--overhead"],
            default="5%",
            show_default=True,
            metavar="PERCENT",
            help="Maximum recording time, as a share of the loop's run time (10 s are always allowed); a longer "
            "recording ends early or is skipped.",
        ),
        click.Option(
            ["--max-memory"],
            default="",
            metavar="SIZE",
            help="CPU memory limit of a recording, such as 2GiB.  [default: a quarter of the available memory]",
        ),
        click.Option(
            ["--always-on"],
            is_flag=True,
            help="Watch every step at low overhead: one log line per second, no memory or trace recording.",
        ),
        click.Option(
            ["--trace-on"],
            default="",
            metavar="LIST",
            help=f"With --always-on: events that trigger a trace of the next steps: {', '.join(REASONS)}.",
        ),
        click.Option(
            ["--stacks"],
            default=str(STACKS_HZ),
            show_default=True,
            metavar="HZ|off",
            help="Python stack samples per second, of the loop and its DataLoader workers, for 3 s at the end.",
        ),
        click.Option(
            ["--counters"],
            type=click.Choice(["pm"]),
            help="Sample the GPU's performance monitors during the traced steps: activity of SMs and memory (torch "
            "2.14, cupti-python).",
        ),
        click.Option(
            ["--log"],
            multiple=True,
            metavar="TRACKER[:WHERE]",
            help="Also log figures and the report to a tracker, such as tensorboard:FOLDER. May be repeated.",
        ),
        click.Option(
            ["--price"],
            metavar="PRICE",
            help="Hourly price of all that the run uses, such as 2.49EUR/h, for the cost of samples and tokens.",
        ),
        click.Option(
            ["--plan"],
            metavar="FOLDER",
            type=click.Path(path_type=Path),
            help="Compare with a plan of the same model, written by perfkit plan --out FOLDER: with its variant called "
            "--name, else its only variant, else its baseline.",
        ),
        click.Option(
            ["--no-report"], is_flag=True, help="Write measurements only; perfkit report writes the report later."
        ),
        click.Option(
            [JSON_FLAG, "as_json"],
            is_flag=True,
            help="Print the whole report as JSON at the end; what the script prints goes to standard error.",
        ),
        click.Option(["-q", "--quiet"], is_flag=True, help="Print only the report's path, at the end."),
        click.Argument(["program"], nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGUMENTS]..."),
    ]
