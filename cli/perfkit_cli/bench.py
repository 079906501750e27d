"""`perfkit bench`: trains a workload once per variant, measures, compares, reports."""

import signal
from typing import TYPE_CHECKING, Any

import click

from perfkit.core.errors import raise_terminated
from perfkit.core.spec import ENERGY_S
from perfkit.measure.launch.launcher_table import LAUNCHERS
from perfkit_cli.modes.bench_kubernetes import (
    KUBERNETES,
    add_kubernetes_options,
    refuse_kubernetes_options,
    write_manifest,
)
from perfkit_cli.modes.slurm import is_submitted, parse_slurm_options, run_as_job
from perfkit_cli.options.bench_request import DEFAULTS, refuse_given
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.option_values import (
    parse_duration_option,
    parse_memory_option,
    parse_price_option,
    parse_share_option,
    require_one_of,
)
from perfkit_cli.options.run_options import add_device_option, add_timeout_option
from perfkit_cli.options.size_options import COUNT, add_scaling_options
from perfkit_cli.options.suite_trust import add_trust_option, trust_suite
from perfkit_cli.options.url_folders import FolderOrUrl

if TYPE_CHECKING:
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
  perfkit bench --technique amp,ckpt --plan               predicted vs. measured
  perfkit bench --into runs/gpt --technique compile       add a variant to the suite
  perfkit bench --into runs/gpt --retry failed --timeout 1200
  perfkit bench --resume runs/gpt                         after Ctrl-C, a crash or a power cut
\b
Separate techniques by commas, combine them with +, and give parameters as :key=value.
A parameter with several values, 'size=4|8', makes one variant per value; quote it because of the |.
See `perfkit techniques` and `perfkit workloads`.
\b
Exit codes: 0 done, 1 a run failed or its loss is not finite, 2 invalid request,
3 nothing compared or decided, 130 interrupted, 143 terminated (results are kept).
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "-w",
    "--workload",
    default="gpt",
    show_default=True,
    metavar="NAME[:KEY=VALUE]",
    help="Workload to train; perfkit workloads lists them.",
)
@click.option(
    "-t",
    "--technique",
    default="amp,ckpt",
    show_default=True,
    metavar="LIST",
    help="Techniques to compare with the baseline; all: every available one.",
)
@click.option(
    "--combine",
    default="none",
    show_default=True,
    metavar="[none|all]",
    callback=require_one_of("value of --combine", ("none", "all")),
    help="all: also train every compatible combination of the techniques; clashes are listed.",
)
@click.option(
    "--precision",
    default="5%",
    show_default=True,
    metavar="PERCENT",
    callback=parse_share_option,
    help="Stop when each speed-up's 95 % CI is within ±PERCENT.",
)
@click.option(
    "--budget",
    metavar="TIME",
    callback=parse_duration_option,
    help="Time limit with first runs, such as 90s; one round is always run.  [default: 5min of rounds, 3 at least]",
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(min=0),
    help="Run exactly N rounds. 0: one run per variant, without a verdict on speed.",
)
@click.option("--steps", metavar="N", type=COUNT, help="Timed steps per process.  [default: automatic]")
@click.option(
    "--warmup",
    metavar="N",
    type=click.IntRange(min=0),
    help=f"Warm-up steps.  [default: until steps are steady, {DEFAULTS.warmup} to {DEFAULTS.max_warmup}]",
)
@add_device_option
@add_scaling_options
@add_timeout_option
@click.option(
    "--memory-limit", metavar="SIZE", callback=parse_memory_option, help="Address space limit per rank, such as 6GiB."
)
@click.option(
    "--threads",
    metavar="N",
    type=COUNT,
    help="CPU threads per rank.  [default on a CPU: cores / largest world size]",
)
@click.option(
    "--launcher",
    default="process",
    show_default=True,
    metavar=f"[{'|'.join(_STARTED_BY)}]",
    callback=require_one_of("launcher", _STARTED_BY),
    is_eager=True,  # the meaning of --out depends on it
    help="How ranks are started: local processes, torchrun's elastic agent, Slurm or Ray. kubernetes prints a "
    "manifest for pods and runs nothing.",
)
@click.option(
    "--nnodes",
    default=1,
    show_default=True,
    metavar="N",
    type=COUNT,
    help="Number of nodes, with the same number of ranks each; not for --launcher process.",
)
@click.option(
    "--slurm",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_slurm_options,
    help="With --launcher slurm: job option, as for sbatch, such as partition=gpu or exclusive. May be repeated.",
)
@click.option(
    "--rdzv-endpoint",
    default="",
    metavar="HOST:PORT",
    help=(
        "With --launcher torchrun: rendezvous address on this machine; on every other machine, run "
        "`perfkit join HOST:PORT --node-rank K`."
    ),
)
@add_kubernetes_options
@click.option(
    "--seed",
    default=0,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=0),
    help="Seed for parameters and data.",
)
@click.option(
    "--out",
    metavar="FOLDER",
    type=FolderOrUrl(new=True),
    help="Report folder, or a URL such as s3://bucket/x to copy it to.  [default: runs/TIME-WORKLOAD]",
)
@click.option(
    "--into",
    metavar="FOLDER",
    type=FolderOrUrl(),
    help="Add variants to this suite. Other options default to the suite's; another machine or workload is refused.",
)
@click.option(
    "--retry",
    metavar="failed",
    callback=require_one_of("value of --retry", ("failed",)),
    help="With --into: repeat runs that failed, crashed, ran out of memory or timed out.",
)
@click.option(
    "--resume",
    metavar="FOLDER",
    type=FolderOrUrl(),
    help="Continue an interrupted suite, with the suite's own options.",
)
@add_trust_option
@click.option(
    "--plan",
    is_flag=True,
    help="Plan the variants first, as perfkit plan does; the report compares predicted with measured.",
)
@click.option(
    "--no-calibrate",
    is_flag=True,
    help="Do not measure this machine's ceilings, even if unknown or exceeded.",
)
@click.option(
    "--counters",
    type=click.Choice(["ncu", "pm"]),
    is_flag=False,
    flag_value="ncu",
    callback=lambda _ctx, _option, value: value or False,  # as in a request without
    help="Also count on the GPU. ncu (default): FLOPs and bytes of each kernel, in one more run of each single-rank "
    "variant under Nsight Compute. pm: activity of SMs and memory, sampled during the traced steps (torch 2.14).",
)
@click.option(
    "--energy",
    is_flag=True,
    help=f"Also measure the GPU's energy: each process runs {ENERGY_S:.0f} s longer.",
)
@click.option(
    "--price",
    metavar="PRICE",
    callback=parse_price_option,
    help="Hourly cost of the hardware, such as 2.49/h or $2.49/h (quote it); adds the cost of a million tokens or a "
    "thousand samples.",
)
@add_json_option("the whole report")
@click.option("-v", "--verbose", is_flag=True, help="Print all findings and tables.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the report's path.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Compare training techniques on a real workload.

    Each variant trains in its own processes: the unmodified workload (the baseline), and the workload with each
    technique. Memory, FLOPs, losses and the trace are measured once per variant, in separate passes, and each technique
    must prove that it was active. Then rounds of fresh processes are timed, interleaved, until every speed-up is known
    to --precision. The report is one HTML file, next to the raw results.
    """
    from perfkit.measure.bench import name_default_folder
    from perfkit.store.layout import SUITE_FILE
    from perfkit_cli.output.console import make_console
    from perfkit_cli.output.error_output import describe_interrupt

    if options["launcher"] == KUBERNETES:
        refuse_given(ctx, ("as_json",), "a manifest is YAML")
        write_manifest(ctx)
        return
    refuse_kubernetes_options(ctx)
    quiet, verbose = options["quiet"], options["verbose"]
    console = make_console(stderr=True, quiet=quiet)
    existing = options["into"] or options["resume"]
    if options["trust"] and existing is not None:
        trust_suite(existing)
    if is_submitted(ctx):
        folder = existing or options["out"] or name_default_folder(options["workload"])
        ctx.exit(run_as_job(ctx, folder))
    if existing is None:
        from perfkit_cli.modes.bench_new import prepare_new_suite

        folder = options["out"] or name_default_folder(options["workload"])
        measure = prepare_new_suite(ctx, folder, console)
    else:
        from perfkit_cli.modes.bench_again import prepare_existing_suite

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
        click.echo(f"{word}: results so far are in {folder}; continue with --resume {folder}", err=True)

    # Not earlier: the imports would take CPU time while a child measures.
    from perfkit.suites.resume import read_last_request
    from perfkit_cli.modes.remeasure import analyze_measured_suite
    from perfkit_cli.output.report_output import show_tracebacks, write_and_print
    from perfkit_reports.subjects.registry import build_document

    calibrate = ended is None and not options["no_calibrate"] and read_last_request(folder).calibrate
    analysis = analyze_measured_suite(folder, calibrate=calibrate, console=console)
    write_and_print(build_document(analysis), folder, quiet=quiet, verbose=verbose, as_json=options["as_json"])
    if not quiet:
        show_tracebacks(analysis)
    ctx.exit(_get_exit_code(analysis) if ended is None else ended)


def _get_exit_code(analysis: "Analysis") -> int:
    from perfkit.core.record.rank_record import RunStatus
    from perfkit.store.suite_state import Conclusion
    from perfkit_cli.output.error_output import EXIT_FAILED, EXIT_UNDECIDED

    fine = (RunStatus.OK, RunStatus.SKIPPED)
    trained = all(variant.status in fine and variant.parity.not_finite_step is None for variant in analysis.variants)
    if not trained:
        return EXIT_FAILED
    # Who asks for a number of rounds does not ask for a verdict.
    asked = analysis.sampling is not None and analysis.sampling.precision is not None
    undecided = asked and analysis.conclusion == Conclusion.UNDECIDED
    return EXIT_UNDECIDED if undecided or analysis.conclusion == Conclusion.EMPTY else 0
