"""`perfkit advise`: what to switch on, by what it would do for this step."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfkit.errors import UsageError
from perfkit_cli.size_options import COUNT, size_options
from perfkit_cli.values import one_of

if TYPE_CHECKING:
    from perfkit.plan.advise.subject import Subject
    from perfkit.plan.target import Target

GOALS = ("time", "memory", "batch", "cost")

EXAMPLES = """\b
Examples:
  perfkit advise runs/gpt                             a suite of perfkit bench: its baseline, traced and planned
  perfkit advise trace.json.gz                        the steps of any trace: time alone
  perfkit advise trace.json.gz --device h100-sxm      held against this device's peaks
  perfkit advise hf:LlamaConfig --gpu rtx-4090        before anything is run: time and memory from the plan
  perfkit advise train.py:build --goal memory
  perfkit advise runs/gpt --memory 2GiB               the fastest of what fits
  perfkit advise runs/gpt --verify 3                  run the first three, predicted beside measured
  perfkit advise runs/gpt --json | jq .best
\b
Exit codes: 0 done, 2 the request is wrong, 130 interrupted.
"""


@click.command(epilog=EXAMPLES, short_help="Find out which techniques to switch on.")
@click.argument("subject", metavar="RUN|TRACE|WORKLOAD")
@click.option(
    "-t",
    "--technique",
    default="all",
    show_default=True,
    metavar="LIST",
    help="What to choose from, as for bench; all: the whole shelf.",
)
@click.option(
    "--goal",
    default=GOALS[0],
    show_default=True,
    metavar=f"[{'|'.join(GOALS)}]",
    callback=one_of("goal", GOALS),
    help="What to rank by: a step's time, the peak of memory, the largest batch, or the time of a sample.",
)
@click.option(
    "--memory", metavar="SHARE|AMOUNT", help="What a rank may take of its device: 0.9, 64GiB. What fits is first."
)
@click.option(
    "--gpu", metavar="NAME", help="Plan a workload for this GPU, such as h100-80g; perfkit devices lists them."
)
@click.option("--device", metavar="ID", help="The device that a trace was recorded on, as for perfkit analyze.")
@size_options
@click.option(
    "--verify", default=None, metavar="N", type=COUNT, help="Run the first N, and show measured beside predicted."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of these runs.  [default: runs/TIME-WORKLOAD]")
@click.option("-n", "--top", default=10, show_default=True, metavar="N", type=COUNT, help="Lines to show.")
@click.option("--json", "as_json", is_flag=True, help="Print the advice as JSON, all of it.")
def command(**options: Any) -> None:
    """Rank the techniques by what they would do for a training step, and find the best that go together.

    Of a suite or a trace the time is simulated: what a technique addresses in the recorded step takes less, and the
    step is replayed. Memory, and time where nothing was recorded, come from the plan of the workload. Each line says
    why, what it assumes, and what becomes of the loss. Nothing is trained, but with --verify.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # what Kineto says of its recordings is no part of advice

    import msgspec
    from rich.console import Console

    from perfkit.plan.advise.advise import advise
    from perfkit.plan.target import target_of
    from perfkit_cli.variants import named_variants

    as_json = options["as_json"]
    target = target_of(options["gpu"], options["memory"])
    variants = named_variants(options["technique"])
    if options["verify"] is not None and options["gpu"] is not None:
        raise UsageError("--verify runs on this machine, and --gpu plans for another: take one of them")
    subject = _subject(options["subject"], options, target)
    with Console(stderr=True, quiet=as_json).status("planning") as status:
        advice = advise(subject, variants, options["goal"], target, lambda name: status.update(f"planned {name}"))
    if options["verify"] is not None:
        from perfkit_cli.advise_verify import verified

        advice = verified(advice, subject, options["verify"], options["out"], quiet=as_json)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(advice), indent=2))
        return
    from perfkit_cli.advice_lines import show

    show(advice, options["top"])


def _subject(text: str, options: Mapping[str, Any], target: "Target") -> "Subject":
    """What the argument names: a suite's folder, a trace, or a workload."""
    from perfkit.plan.advise.subject import of_run, of_trace, of_workload
    from perfkit.store.layout import SUITE_FILE
    from perfkit_cli.plan import request_of

    path = Path(text)
    if path.exists() and options["gpu"] is not None:
        raise UsageError(f"{text} was recorded on a device of its own; --gpu is for a workload, such as train.py:build")
    if (path / SUITE_FILE).is_file():
        return of_run(path)
    if path.is_dir():
        raise UsageError(f"{text}: the folder holds no {SUITE_FILE}; expected one that perfkit bench or run wrote")
    if path.is_file():
        if path.suffix == ".py":
            raise UsageError(f"{text}: name the function that builds the workload, {text}:FUNCTION")
        return of_trace(path, options["device"])
    if path.suffix in (".json", ".gz", ".zst"):
        raise UsageError(f"{text}: there is no such file")
    return of_workload(request_of({**options, "workload": text}), target)
