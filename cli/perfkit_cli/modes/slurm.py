"""`perfkit bench --launcher slurm` outside a job: submits the same command as a job, and follows it."""

import os
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perfkit.core.errors import PerfkitError, UsageError, raise_terminated
from perfkit_cli.options.bench_request import TAKEN, apply_options, get_given_options, refuse_given
from perfkit_cli.options.url_folders import get_url

if TYPE_CHECKING:
    from perfkit.measure.launch.slurm_queue import QueuedJob
    from perfkit.store.request import BenchRequest


def parse_slurm_options(_ctx: click.Context, param: click.Parameter, values: Iterable[str]) -> dict[str, str | bool]:
    """From `partition=gpu` and `exclusive` to options of sbatch by name. A click callback."""
    parameters: dict[str, str | bool] = {}
    for value in values:
        name, equals, setting = value.partition("=")
        if not name.replace("-", "").replace("_", "").isalnum() or "\n" in setting:
            raise UsageError(
                f"{param.opts[-1]}: {value!r} is not an option of sbatch; expected an option such as partition=gpu"
            )
        parameters[name.removeprefix("--").replace("_", "-")] = setting if equals else True
    return parameters


def is_submitted(ctx: click.Context) -> bool:
    """True if this command must be submitted as a job. A `UsageError` for job options where it must not."""
    from perfkit.measure.launch.slurm_allocation import is_in_slurm_job
    from perfkit.measure.launch.slurm_job import is_submitted_job

    by_slurm = _get_launcher(ctx) == "slurm"
    if get_given_options(ctx, ("slurm",)) and not by_slurm:
        raise UsageError("--slurm sets options of a job; add --launcher slurm")
    if is_in_slurm_job() and not is_submitted_job():
        refuse_given(ctx, ("slurm",), "--slurm sets options of a new job, and this command already runs in one")
    return by_slurm and not is_in_slurm_job()


def run_as_job(ctx: click.Context, folder: Path) -> int:
    """Submit this command with its arguments, print its output, and return its exit code.

    Raises a `PerfkitError` if Slurm ended the job before the command.
    """
    from perfkit.measure.launch.slurm_job import SlurmJob
    from perfkit.store.layout import SLURM_FOLDER
    from perfkit_cli.output.error_output import describe_interrupt

    request = _build_request(ctx, folder)
    nodes, tasks = _compute_job_size(request)
    os.environ["COLUMNS"] = str(shutil.get_terminal_size().columns)  # the job inherits it
    signal.signal(signal.SIGTERM, raise_terminated)
    job = SlurmJob(
        _build_job_arguments(ctx, folder),
        folder.resolve() / SLURM_FOLDER,
        nodes=nodes,
        tasks_per_node=tasks,
        parameters={**request.slurm, **ctx.params["slurm"]},
    )
    tell = _ignore_place if ctx.params["quiet"] else _make_queue_reporter(job.number, folder)
    out, err = sys.stdout.buffer, sys.stderr.buffer
    interrupted: int | None = None
    try:
        ended = job.follow(out, err, tell)
    except KeyboardInterrupt as error:
        word, interrupted = describe_interrupt(error)
        job.cancel()
        click.echo(f"{word}: job {job.number} canceled", err=True)
        ended = job.follow(out, err, tell)
    if interrupted is not None:
        return interrupted
    if ended.code is None:
        raise PerfkitError(
            f"the Slurm job {job.number} ended before perfkit finished: "
            f"{ended.state or 'Slurm gives no reason'}; results so far are in {folder}, its output in "
            f"{job.err.parent}"
        )
    if ended.code and ended.state.partition(" ")[0] not in ("", "COMPLETED", "COMPLETING", "RUNNING"):
        click.echo(f"job {job.number}: {ended.state}", err=True)
    return ended.code


def _get_launcher(ctx: click.Context) -> str:
    existing = ctx.params["resume"] or ctx.params["into"]
    if existing is None or get_given_options(ctx, ("launcher",)):
        return str(ctx.params["launcher"])
    from perfkit.suites.resume import read_first_request

    return read_first_request(existing).launcher


def _build_request(ctx: click.Context, folder: Path) -> "BenchRequest":
    """Checks the request as far as another machine can: wrong names are refused before anything waits in a queue."""
    from perfkit.core.spec import parse_variants, parse_workload
    from perfkit.measure.output_dir import refuse_occupied
    from perfkit.store.request import BenchRequest
    from perfkit.suites.resume import read_first_request, read_last_request, read_whole_request
    from perfkit.techniques.expand_all import expand_variants
    from perfkit.workloads.workload_table import WORKLOADS, resolve_workload
    from perfkit_cli.options.folders import refuse_impossible

    options: dict[str, Any] = ctx.params
    if options["resume"] is not None:
        return msgspec.structs.replace(read_whole_request(folder), slurm=read_last_request(folder).slurm)
    variants = tuple(parse_variants(expand_variants(options["technique"])))
    if options["into"] is not None:
        return apply_options(read_first_request(folder), {**get_given_options(ctx), "variants": variants})
    refuse_impossible(folder)
    refuse_occupied(folder)
    device = "cpu" if options["device"] == "auto" else options["device"]
    workload = parse_workload(options["workload"], WORKLOADS.list_names())
    if workload.name in WORKLOADS.list_names():  # a user's own may need what only the job's nodes have
        sizes = options["batch_size"], options["seq_len"], options["accumulate"]
        workload = resolve_workload(options["workload"], device, *sizes)
    request = BenchRequest(workload=workload, variants=variants, device=device, device_count=0, cores=1)
    return apply_options(request, {name: options[name] for name in TAKEN})


def _compute_job_size(request: "BenchRequest") -> tuple[int, int]:
    """Nodes, and tasks per node: the ranks of the largest variant."""
    from perfkit.measure.bench import compute_needed_ranks
    from perfkit.measure.launch.rank_processes import count_ranks_per_node, refuse_endpoint
    from perfkit.measure.resolve_request import resolve_request
    from perfkit.measure.schedule import build_schedule

    runs = build_schedule(resolve_request(request), compute_needed_ranks).runs
    refuse_endpoint(runs[0].spec.launch)
    return request.nodes, max(count_ranks_per_node(run.spec.launch) for run in runs)


def _build_job_arguments(ctx: click.Context, folder: Path) -> list[str]:
    """The job's command: this one, with the local copy in place of a folder's URL, which this command sends back."""
    arguments = sys.argv[1:]
    for option in ("out", "into", "resume"):
        if url := get_url(ctx, option):
            arguments = [word.replace(url, str(ctx.params[option])) for word in arguments]
    new = ctx.params["into"] is None and ctx.params["resume"] is None
    return [*arguments, "--out", str(folder)] if new and ctx.params["out"] is None else arguments


def _ignore_place(_place: "QueuedJob") -> None:
    pass


def _make_queue_reporter(job: str, folder: Path) -> Any:
    click.echo(f"job {job} writes {folder}; Ctrl-C cancels it", err=True)

    def tell(place: "QueuedJob") -> None:
        if place.state == "PENDING" and place.reason != "None":  # which it is until Slurm has looked at it
            click.echo(f"job {job} waits in partition {place.partition}: {place.reason}", err=True)
        elif place.state == "RUNNING":
            click.echo(f"job {job} runs on {place.nodes}", err=True)

    return tell
