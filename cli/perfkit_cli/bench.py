"""`perfkit bench`: train a workload once per variant, measure, compare, report."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perfkit.devices.device_choice import DEVICES
from perfkit.errors import UsageError, raise_terminated
from perfkit.measure.launch.launcher_table import LAUNCHERS
from perfkit.spec import ENERGY_S
from perfkit_cli.bench_kubernetes import KUBERNETES, add_kubernetes_options, refuse_kubernetes_options, write_manifest
from perfkit_cli.bench_request import (
    DEFAULTS,
    TAKEN,
    apply_options,
    choose_variants,
    get_command_line,
    refuse_energy,
    require_ncu,
    resolve_ceilings,
)
from perfkit_cli.folders import refuse_impossible
from perfkit_cli.option_values import (
    parse_duration_option,
    parse_memory_option,
    parse_price_option,
    parse_share_option,
    require_one_of,
)
from perfkit_cli.size_options import COUNT, add_scaling_options
from perfkit_cli.slurm import is_submitted, parse_slurm_options, run_as_job
from perfkit_cli.url_folders import FolderOrUrl

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.analysis.model.suite import Analysis


_STARTED_BY = (*LAUNCHERS.list_names(), KUBERNETES)

EXAMPLES = """\b
Examples:
  perfkit bench --technique amp,ckpt
  perfkit bench --technique amp,ckpt,flash --combine all
  perfkit bench --workload gpt:size=small --technique compile:mode=max-autotune,amp+compile --batch-size 8
  perfkit bench --workload train.py:build --technique zero1,zero2,zero3 --world-size 2
  perfkit bench --technique ddp,zero3 --launcher torchrun
  perfkit bench --technique zero3 --launcher slurm --nnodes 2 --world-size 16 --slurm partition=gpu --slurm time=1:00:00
  perfkit bench --technique zero3 --launcher ray --nnodes 2 --world-size 16
  perfkit bench --launcher kubernetes --nnodes 2 --world-size 16 --device cuda --image train:1 --volume-claim runs
  perfkit bench --technique ddp,zero2 --world-size 1,2,4 --scaling strong
  perfkit bench --workload gpt:size=small --technique amp,amp+flash --energy
  perfkit bench --technique 'batch:size=4|8|16,accum:steps=2'
  perfkit bench --technique batch:auto --memory-limit 6GiB
  perfkit bench --technique ckpt:fit=8GiB                the least recomputation with a peak within 8 GiB
  perfkit bench --technique ckpt --precision 2% --budget 20min
  perfkit bench --technique all --workload gpt:size=nano
  perfkit bench --technique amp --price '$2.49/h'
  perfkit bench --technique amp,ckpt --plan               predicted beside measured
  perfkit bench --into runs/gpt --technique compile       one more variant, beside the suite's baseline
  perfkit bench --into runs/gpt --retry failed --timeout 1200
  perfkit bench --resume runs/gpt                         after Ctrl-C, a crash or a power cut
\b
Techniques are separated by commas, joined by + where they go together, and take :key=value parameters.
A parameter with several values, 'size=4|8', makes a variant of each; quote it, | is the shell's.
`perfkit techniques` and `perfkit workloads` list what there is.
\b
Exit codes: 0 done, 1 a run failed or its loss is not finite, 2 the request is wrong,
130 interrupted, 143 terminated (what was measured is kept).
"""


@click.command(epilog=EXAMPLES)
@click.option("-w", "--workload", default="gpt", show_default=True, metavar="NAME[:KEY=VALUE]", help="What to train.")
@click.option(
    "-t",
    "--technique",
    default="amp,ckpt",
    show_default=True,
    metavar="LIST",
    help="What to switch on; all: whatever there is.",
)
@click.option(
    "--combine",
    default="none",
    show_default=True,
    metavar="[none|all]",
    callback=require_one_of("value of --combine", ("none", "all")),
    help="all: also train every combination of the techniques that goes together; those that clash are listed.",
)
@click.option(
    "--precision",
    default="5%",
    show_default=True,
    metavar="PERCENT",
    callback=parse_share_option,
    help="Rounds of fresh processes go on until the 95 % interval of every speed-up is that narrow, to either side ...",
)
@click.option(
    "--budget",
    metavar="TIME",
    callback=parse_duration_option,
    help="... or for so long, such as 90s.  [default: 5min, or three rounds where those take longer]",
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(min=0),
    help="Just as many rounds in their place. 0: each variant runs once, which decides nothing about its speed.",
)
@click.option("--steps", metavar="N", type=COUNT, help="Timed steps of each process.  [default: as many as pay]")
@click.option(
    "--warmup",
    default=DEFAULTS.warmup,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=0),
    help=f"Steps before timing, at least; goes on until steps are steady, for at most {DEFAULTS.max_warmup}.",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar=f"[{'|'.join(DEVICES)}]",
    callback=require_one_of("device", DEVICES),
    help="auto: the GPU that is there, or the CPU.",
)
@add_scaling_options
@click.option(
    "--timeout",
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="A run that takes longer is ended and reported as such.",
)
@click.option(
    "--memory-limit", metavar="AMOUNT", callback=parse_memory_option, help="Address space of each rank, such as 6GiB."
)
@click.option(
    "--threads",
    metavar="N",
    type=COUNT,
    help="CPU threads of each rank.  [default: cores / ranks on a CPU, of several numbers of ranks the most]",
)
@click.option(
    "--launcher",
    default="process",
    show_default=True,
    metavar=f"[{'|'.join(_STARTED_BY)}]",
    callback=require_one_of("launcher", _STARTED_BY),
    is_eager=True,  # what --out stands for depends on it
    help="What starts the ranks of a run: a process each, torchrun's elastic agent, Slurm, or Ray. kubernetes: nothing "
    "is run, and the manifest of a bench in pods is printed.",
)
@click.option(
    "--nnodes",
    default=1,
    show_default=True,
    metavar="N",
    type=COUNT,
    help="Machines, each with as many ranks, with any launcher but process.",
)
@click.option(
    "--slurm",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_slurm_options,
    help="With slurm, for each option of the job: as sbatch calls it, such as partition=gpu or exclusive.",
)
@click.option(
    "--rdzv-endpoint",
    default="",
    metavar="HOST:PORT",
    help="With torchrun, where machines meet: this one, and on each other `perfkit join HOST:PORT --node-rank K`.",
)
@add_kubernetes_options
@click.option(
    "--seed", default=0, show_default=True, metavar="N", type=click.IntRange(min=0), help="Seed of parameters and data."
)
@click.option(
    "--out",
    metavar="FOLDER",
    type=FolderOrUrl(new=True),
    help="Folder to write, or a URL such as s3://bucket/x, to which it is copied.  [default: runs/TIME-WORKLOAD]",
)
@click.option(
    "--into",
    metavar="FOLDER",
    type=FolderOrUrl(),
    help="Add variants to this suite. Whatever is not given is the suite's; another machine or workload is refused.",
)
@click.option(
    "--retry",
    metavar="failed",
    callback=require_one_of("value of --retry", ("failed",)),
    help="With --into: repeat the runs that failed, crashed, ran out of memory or took too long.",
)
@click.option(
    "--resume",
    metavar="FOLDER",
    type=FolderOrUrl(),
    help="Go on with a suite that was interrupted, with the suite's own options.",
)
@click.option(
    "--plan",
    is_flag=True,
    help="Plan the variants first, as perfkit plan does; the report shows predicted beside measured.",
)
@click.option(
    "--no-calibrate",
    is_flag=True,
    help="Do not measure this machine's ceilings, not even unknown or refuted ones.",
)
@click.option(
    "--counters",
    is_flag=True,
    help="Also count FLOPs and bytes on the GPU: one more run of each variant of one rank, under Nsight Compute (ncu).",
)
@click.option(
    "--energy",
    is_flag=True,
    help=f"Also measure the GPU's energy: every process runs its steps for {ENERGY_S:.0f} more seconds.",
)
@click.option(
    "--price",
    metavar="AMOUNT/h",
    callback=parse_price_option,
    help="What an hour of all that a run uses costs, such as 2.49/h or $2.49/h (quote it): adds the cost of a million "
    "tokens or a thousand samples.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print all findings and tables.")
@click.option("-q", "--quiet", is_flag=True, help="Print the path of the report only.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Compare training techniques on a real workload.

    The workload is trained in processes of its own: as it is (the baseline) and with each technique. Memory, FLOPs,
    losses and the trace are measured once per variant, in separate passes, and every technique must show that it acted.
    Then rounds of fresh processes are timed beside each other, until every speed-up is known to --precision. The
    comparison is written as one HTML file beside the raw results.
    """
    from rich.console import Console

    from perfkit.measure.bench import name_default_folder
    from perfkit.store.layout import SUITE_FILE
    from perfkit_cli.main import describe_interrupt

    if options["launcher"] == KUBERNETES:
        write_manifest(ctx)
        return
    refuse_kubernetes_options(ctx)
    quiet, verbose, calibrate = options["quiet"], options["verbose"], not options["no_calibrate"]
    console = Console(stderr=True, quiet=quiet)
    new = options["into"] is None and options["resume"] is None
    if is_submitted(ctx):
        folder = options["resume"] or options["into"] or options["out"] or name_default_folder(options["workload"])
        ctx.exit(run_as_job(ctx, folder))
    if new:
        folder = options["out"] or name_default_folder(options["workload"])
        measure = _prepare_new_suite(ctx, folder, console)
    else:
        from perfkit_cli.bench_again import prepare_existing_suite

        folder, measure = prepare_existing_suite(ctx, console)
    ended: int | None = None
    signal.signal(signal.SIGTERM, raise_terminated)
    try:
        measure()
    except KeyboardInterrupt as error:
        word, ended = describe_interrupt(error)
        if not (folder / SUITE_FILE).is_file():
            click.echo(f"{word}: nothing was measured", err=True)
            ctx.exit(ended)
        click.echo(f"{word}: what was measured is kept in {folder}; --resume {folder} goes on", err=True)

    # Not sooner: the imports would take time while a child measures.
    from perfkit_cli.remeasure import analyze_measured_suite
    from perfkit_cli.report_output import show_tracebacks, write_and_show
    from perfkit_reports.subjects.suite.document import build_document

    analysis = analyze_measured_suite(folder, calibrate=calibrate and ended is None, console=console)
    write_and_show(build_document(analysis), folder, quiet=quiet, verbose=verbose)
    if not quiet:
        show_tracebacks(analysis)
    ctx.exit(_get_exit_code(analysis) if ended is None else ended)


def _prepare_new_suite(ctx: click.Context, folder: Path, console: "Console") -> Callable[[], None]:
    """What measures a suite in a new folder; a wrong request is a `UsageError` before."""
    from perfkit.devices.device_choice import find_device
    from perfkit.devices.machine import count_available_cores
    from perfkit.measure.bench import run_bench
    from perfkit.measure.launch.launcher_table import STARTS_HERE
    from perfkit.measure.limits import check_limits, check_sampling
    from perfkit.measure.output_dir import refuse_occupied
    from perfkit.measure.resolve_request import resolve_request
    from perfkit.measure.schedule import check_launcher
    from perfkit.store.request import BenchRequest
    from perfkit.workloads.workload_table import resolve_workload
    from perfkit_cli.planning import plan_bench
    from perfkit_cli.progress import show_progress
    from perfkit_cli.resolve_auto import resolve_auto_params

    options = ctx.params
    if options["retry"] is not None:
        raise UsageError("--retry failed repeats runs of a suite that is there: name it with --into FOLDER")
    refuse_impossible(folder)
    refuse_occupied(folder)
    check_limits(options["timeout"], options["memory_limit"])
    check_sampling(options["rounds"], options["precision"], options["budget"])
    target = find_device(options["device"], here=options["launcher"] in STARTS_HERE)
    ncu = require_ncu(target.kind) if options["counters"] else None
    sizes = options["batch_size"], options["seq_len"], options["accumulate"]
    request = BenchRequest(
        workload=resolve_workload(options["workload"], target.kind, *sizes),
        variants=(),
        device=target.kind,
        device_count=target.visible,
        cores=count_available_cores(),
    )
    request = apply_options(request, {name: options[name] for name in TAKEN})
    request = resolve_request(request)
    refuse_energy(request)
    check_launcher(request)
    request = msgspec.structs.replace(request, variants=choose_variants(options, request, console))

    def measure() -> None:
        calibrate = not options["no_calibrate"]
        if options["plan"]:
            plan_bench(folder, request, target.name, console)
        ceilings = resolve_ceilings(request, target.name, calibrate=calibrate, console=console)
        with show_progress(console) as progress:
            run_bench(
                request,
                folder,
                command=get_command_line(),
                ceilings=ceilings,
                progress=progress,
                ncu=ncu,
                price=options["price"],
                find=resolve_auto_params,
            )

    return measure


def _get_exit_code(analysis: "Analysis") -> int:
    from perfkit.record import RunStatus
    from perfkit_cli.main import EXIT_FAILED

    fine = (RunStatus.OK, RunStatus.SKIPPED)
    trained = all(variant.status in fine and variant.parity.not_finite_step is None for variant in analysis.variants)
    return 0 if trained else EXIT_FAILED
