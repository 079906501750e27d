"""`perfkit advise`: ranks the techniques by their expected saving in a training step."""

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfkit.core.errors import UsageError
from perfkit_cli.options.bench_request import refuse_given
from perfkit_cli.options.folders import refuse_foreign
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.option_values import require_one_of
from perfkit_cli.options.report_options import add_out_option
from perfkit_cli.options.size_options import COUNT, add_size_options
from perfkit_cli.options.suite_trust import add_trust_option, trust_suite
from perfkit_cli.output.json_output import print_json

if TYPE_CHECKING:
    from perfkit.plan.advise.advice import Advice
    from perfkit.plan.advise.subject import AdviceSubject

ALLOWED = ("comparable", "any")
GOALS = ("time", "memory", "batch", "cost")
REPORT_FOLDER = "advice"  # inside the suite of --verify

_OF_A_WORKLOAD = ("gpu", "dtype", "world_size", "batch_size", "seq_len", "accumulate")
_RECORDED = "{} is a recording with its own device and sizes; only a workload such as train.py:build takes"

EXAMPLES = """\b
Examples:
  perfkit advise runs/gpt                             a suite of perfkit bench: its baseline, traced and planned
  perfkit advise trace.json.gz                        the steps of any trace: time only
  perfkit advise trace.json.gz --device h100-sxm      compared with this device's peaks
  perfkit advise hf:LlamaConfig --gpu rtx-4090        before any run: time and memory from a plan
  perfkit advise train.py:build --goal memory         lowest peak memory first
  perfkit advise train.py:build -t amp,ckpt,compile   only these techniques
  perfkit advise runs/gpt --memory 2GiB               the fastest that fits
  perfkit advise runs/gpt --verify 3                  measure the top three: predicted vs. measured
  perfkit advise runs/gpt --json | jq .best
\b
Exit codes: 0 done, 2 invalid request, 130 interrupted.
"""


@click.command(epilog=EXAMPLES, short_help="Rank the techniques to switch on.")
@click.argument("subject", metavar="RUN|TRACE|WORKLOAD")
@click.option(
    "-t",
    "--technique",
    default="all",
    show_default=True,
    metavar="LIST",
    help="Techniques to consider, written as for bench; all: every technique.",
)
@click.option(
    "--goal",
    default=GOALS[0],
    show_default=True,
    metavar=f"[{'|'.join(GOALS)}]",
    callback=require_one_of("goal", GOALS),
    help="Ranking goal: step time, peak memory, largest batch, or time per sample.",
)
@click.option(
    "--allow",
    default=ALLOWED[0],
    show_default=True,
    metavar=f"[{'|'.join(ALLOWED)}]",
    callback=require_one_of("value of --allow", ALLOWED),
    help="What to combine: techniques with comparable losses, or any, such as lora, which change results.",
)
@click.option(
    "--memory",
    metavar="SHARE|SIZE",
    help="Memory limit per rank, such as 0.9 or 64GiB; techniques that fit come first. Not for a TRACE.",
)
@click.option("--gpu", metavar="NAME", help="Plan a WORKLOAD for this GPU, such as h100; see perfkit devices.")
@click.option("--device", metavar="ID", help="Device that a TRACE was recorded on, as for perfkit analyze.")
@add_size_options
@click.option(
    "--verify",
    default=None,
    metavar="N",
    type=COUNT,
    help="Measure the top N and the best combination on this machine, and compare with the prediction.",
)
@add_out_option("runs/TIME-advise-SUBJECT")
@click.option("--no-report", is_flag=True, help="Print the advice; write no report.")
@add_trust_option
@add_json_option("all advice")
@click.option("-v", "--verbose", is_flag=True, help="Print more of the report.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the report's path.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Rank the techniques by their effect on a training step, and find the best combination.

    For a RUN (a suite's folder) or a TRACE, the time is simulated: the recorded step is replayed with the affected
    work scaled. Memory, and time without a recording, come from a plan of the workload. Each line gives
    the reason, the assumptions and the effect on the loss. Nothing is trained unless --verify is given.

    The advice is stored as a report. With --verify the suite of its runs is in --out, the report in its folder advice.

    A WORKLOAD is one of perfkit workloads, or FILE.py:FUNCTION. --dtype and the sizes apply to a WORKLOAD only; a
    recording has its own.
    """
    from perfkit.plan.rehearsal.quiet_libraries import silence_kineto

    silence_kineto()

    from perfkit.plan.advise.advise import advise
    from perfkit_cli.modes.advise_verify import prepare_verification, verify_advice
    from perfkit_cli.options.command_line import get_command_line
    from perfkit_cli.options.variants import parse_named_variants
    from perfkit_cli.output.console import make_console

    as_json, quiet = options["as_json"], options["quiet"] or options["as_json"]
    writes = not (as_json or options["no_report"])
    if options["verify"] is not None:
        refuse_given(ctx, ("gpu",), "--verify runs on this machine, but --gpu plans for another; use only one")
    elif not writes:
        refuse_given(ctx, ("out",), "no report is written, and --verify, which keeps its runs, is not given")
    variants = parse_named_variants(options["technique"])
    subject = _resolve_subject(ctx)
    runs = None if options["verify"] is None else prepare_verification(subject, options["verify"], options["out"])
    folder = _choose_folder(subject.name, options["out"], runs and runs.folder) if writes else None
    planned = count(1)
    with make_console(stderr=True, quiet=options["quiet"]).status("planning") as status:
        advice = advise(
            subject,
            variants,
            options["goal"],
            lambda name: status.update(f"{next(planned)} variants planned, last {name}"),
            allow=options["allow"],
            command=get_command_line(),
        )
    if runs is not None:
        advice = verify_advice(advice, runs, quiet=quiet)
    if as_json:
        print_json(advice)
        return
    _show_advice(advice, folder, quiet=quiet, verbose=options["verbose"])


def _choose_folder(name: str, out: Path | None, runs: Path | None) -> Path:
    """The report's folder: inside that of the runs that verify it, else as named; only earlier advice is replaced."""
    from perfkit.measure.bench import name_default_folder
    from perfkit.store.summary import ADVICE_FILE

    folder = runs / REPORT_FOLDER if runs is not None else out or name_default_folder(f"advise-{name}")
    refuse_foreign(folder, ADVICE_FILE, "perfkit advise")
    return folder


def _show_advice(advice: "Advice", folder: Path | None, *, quiet: bool, verbose: bool) -> None:
    from perfkit_cli.output.report_output import show_document, write_and_show
    from perfkit_reports.subjects.advice.advice_document import build_document

    if folder is None:
        show_document(build_document(advice), verbose=verbose)
    else:
        write_and_show(build_document(advice), folder, quiet=quiet, verbose=verbose)


def _resolve_subject(ctx: click.Context) -> "AdviceSubject":
    """Resolve the argument to a suite, a trace or a workload, and refuse options that do not apply to it."""
    from perfkit.plan.advise.subject import make_run_subject, make_trace_subject, make_workload_subject
    from perfkit.plan.target.target import parse_target
    from perfkit.store.layout import SUITE_FILE
    from perfkit_cli.modes.plan_offers import build_plan_request

    options = ctx.params
    text, memory = options["subject"], options["memory"]
    path = Path(text)
    if (path / SUITE_FILE).is_file():
        refuse_given(ctx, _OF_A_WORKLOAD, _RECORDED.format(text))
        refuse_given(ctx, ("device",), f"{text} records its own device; --device is for a trace")
        if options["trust"]:
            trust_suite(path)
        return make_run_subject(path, memory)
    refuse_given(ctx, ("trust",), f"--trust is for a suite of perfkit bench, and {text} is none")
    if path.is_dir():
        raise UsageError(f"{text}: no {SUITE_FILE} in this folder; expected a folder of perfkit bench or perfkit run")
    if path.is_file():
        if path.suffix == ".py":
            raise UsageError(f"{text}: expected a function that builds the workload; name it as {text}:FUNCTION")
        refuse_given(ctx, _OF_A_WORKLOAD, _RECORDED.format(text))
        refuse_given(ctx, ("memory",), f"{text} is a trace, which cannot predict memory; name a run or a workload")
        return make_trace_subject(path, options["device"])
    if path.suffix in (".json", ".gz", ".zst") or (len(path.parts) > 1 and ":" not in text):
        raise UsageError(f"{text}: no such file or folder", id="usage.no_file")
    refuse_given(ctx, ("device",), f"--device is for a trace, and {text} is a workload; plan it for a GPU with --gpu")
    ranks = () if options["world_size"] is None else (options["world_size"],)
    return make_workload_subject(
        build_plan_request({**options, "workload": text}, ranks), parse_target(options["gpu"], memory)
    )
