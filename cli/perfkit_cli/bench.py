"""`perfkit bench`: train a workload once per variant, measure, compare, report."""

import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfkit.devices.wanted import DEVICES
from perfkit.errors import UsageError, raise_terminated
from perfkit.spec import ENERGY_S, Schedule
from perfkit_cli.folders import refuse_impossible
from perfkit_cli.values import amount, duration, one_of, share

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.analysis.model.suite import Analysis
    from perfkit.devices.ceiling import DeviceCeilings
    from perfkit.measure.schedule import BenchRequest

DEFAULTS = Schedule()
DTYPES = ("fp32", "bf16", "fp16")
COUNT = click.IntRange(min=1)

EXAMPLES = """\b
Examples:
  perfkit bench --technique amp,ckpt
  perfkit bench --technique amp,ckpt,flash --combine all
  perfkit bench --workload gpt:size=small --technique compile:mode=max-autotune,amp+compile --batch-size 8
  perfkit bench --workload train.py:build --technique zero1,zero2,zero3 --world-size 2
  perfkit bench --workload gpt:size=small --technique amp,amp+flash --energy
  perfkit bench --technique 'batch:size=4|8|16,accum:steps=2'
  perfkit bench --technique batch:auto --memory-limit 6GiB
  perfkit bench --technique ckpt --precision 2% --budget 20min
  perfkit bench --technique all --workload gpt:size=nano
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
    callback=one_of("value of --combine", ("none", "all")),
    help="all: also train every combination of the techniques that goes together; those that clash are listed.",
)
@click.option(
    "--precision",
    default="5%",
    show_default=True,
    metavar="PERCENT",
    callback=share,
    help="Rounds of fresh processes go on until the 95 % interval of every speed-up is that narrow, to either side ...",
)
@click.option(
    "--budget",
    metavar="TIME",
    callback=duration,
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
    callback=one_of("device", DEVICES),
    help="auto: the GPU that is there, or the CPU.",
)
@click.option(
    "--dtype",
    default="fp32",
    show_default=True,
    metavar=f"[{'|'.join(DTYPES)}]",
    callback=one_of("dtype", DTYPES),
    help="Dtype of the parameters.",
)
@click.option(
    "--world-size",
    metavar="N",
    type=COUNT,
    help="Ranks of every run.  [default: 1, and as many as they need for techniques that need several]",
)
@click.option(
    "--batch-size",
    metavar="N",
    type=COUNT,
    help="Of one microbatch of one rank.  [default: the workload's]",
)
@click.option("--seq-len", metavar="N", type=COUNT, help="Tokens in a sequence.  [default: the workload's]")
@click.option("--accumulate", default=1, show_default=True, metavar="N", type=COUNT, help="Microbatches per step.")
@click.option(
    "--timeout",
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="A run that takes longer is ended and reported as such.",
)
@click.option("--memory-limit", metavar="AMOUNT", callback=amount, help="Address space of each rank, such as 6GiB.")
@click.option(
    "--threads",
    metavar="N",
    type=COUNT,
    help="CPU threads of each rank.  [default: cores / ranks on a CPU]",
)
@click.option(
    "--seed", default=0, show_default=True, metavar="N", type=click.IntRange(min=0), help="Seed of parameters and data."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write.  [default: runs/TIME-WORKLOAD]")
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
@click.option("-v", "--verbose", is_flag=True, help="Print all findings and tables.")
@click.option("-q", "--quiet", is_flag=True, help="Print the path of the report only.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    workload: str,
    technique: str,
    combine: str,
    precision: float,
    budget: float | None,
    rounds: int | None,
    steps: int | None,
    warmup: int,
    device: str,
    dtype: str,
    world_size: int | None,
    batch_size: int | None,
    seq_len: int | None,
    accumulate: int,
    timeout: float,
    memory_limit: int | None,
    threads: int | None,
    seed: int,
    out: Path | None,
    no_calibrate: bool,
    counters: bool,
    energy: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Compare training techniques on a real workload.

    The workload is trained in processes of its own: as it is (the baseline) and with each technique. Memory, FLOPs,
    losses and the trace are measured once per variant, in separate passes, and every technique must show that it acted.
    Then rounds of fresh processes are timed beside each other, until every speed-up is known to --precision. The
    comparison is written as one HTML file beside the raw results.
    """
    from rich.console import Console

    from perfkit.devices.machine import available_cores
    from perfkit.devices.wanted import find_device
    from perfkit.measure.bench import default_folder, standing_refusal
    from perfkit.measure.limits import check_limits, check_sampling
    from perfkit.measure.schedule import BenchRequest
    from perfkit.workloads.table import sized_workload
    from perfkit_cli.main import how_interrupted
    from perfkit_cli.variants import combined, named_variants

    folder = out or default_folder(workload)
    _refuse_existing(folder)
    check_limits(timeout, memory_limit)
    check_sampling(rounds, precision, budget)
    target = find_device(device)
    ncu = _ncu(target.kind) if counters else None
    if energy and target.kind != "cuda":
        raise UsageError(
            f"--energy reads the energy counter of an NVIDIA GPU, and the device is {target.kind}: leave it out"
        )
    named = named_variants(technique)
    request = BenchRequest(
        workload=sized_workload(workload, target.kind, batch_size, seq_len, accumulate),
        variants=named,
        device=target.kind,
        device_count=target.visible,
        cores=available_cores(),
        dtype=dtype,
        seed=seed,
        accumulation=accumulate,
        schedule=Schedule(
            warmup=warmup,
            max_warmup=max(warmup, DEFAULTS.max_warmup),
            timed=steps or DEFAULTS.timed,
            energy_s=ENERGY_S if energy else 0.0,
        ),
        rounds=rounds,
        precision=precision,
        budget_s=budget,
        turns=steps,
        world_size=world_size,
        threads=threads,
        timeout_s=timeout,
        memory_limit_bytes=memory_limit,
    )
    console = Console(stderr=True, quiet=quiet)
    if combine == "all":
        variants, left_out = combined(named, lambda technique: standing_refusal(request, technique))
        for item in left_out:
            console.out(f"left out: {item.variant}: {item.reason}")
        request = replace(request, variants=variants)
    ended: int | None = None
    try:
        _measure(request, folder, target.name, calibrate=not no_calibrate, ncu=ncu, console=console)
    except KeyboardInterrupt as error:
        word, ended = how_interrupted(error)
        click.echo(f"{word}: what was measured is kept in {folder}", err=True)

    # Not sooner: the imports would take time while a child measures.
    from perfkit_cli.remeasure import analysed
    from perfkit_cli.show import show_tracebacks, write_and_show
    from perfkit_reports.subjects.suite.document import document

    analysis = analysed(folder, calibrate=not no_calibrate and ended is None, console=console)
    write_and_show(document(analysis), folder, quiet=quiet, verbose=verbose)
    if not quiet:
        show_tracebacks(analysis)
    ctx.exit(_exit_code(analysis) if ended is None else ended)


def _ncu(device: str) -> Path:
    """Nsight Compute, which counts on NVIDIA GPUs only."""
    from perfkit.instruments.ncu import find_ncu

    if device != "cuda":
        raise UsageError(f"--counters reads the counters of an NVIDIA GPU, and the device is {device}: leave it out")
    return find_ncu()


def _measure(
    request: "BenchRequest",
    folder: Path,
    device_name: str,
    *,
    calibrate: bool,
    ncu: Path | None,
    console: "Console",
) -> None:
    """Run the suite. Ctrl-C and SIGTERM end it early with KeyboardInterrupt; what was measured is kept."""
    from perfkit.measure.bench import bench
    from perfkit_cli.progress import show_progress

    signal.signal(signal.SIGTERM, raise_terminated)
    ceilings = _ceilings(request, device_name, calibrate=calibrate, console=console)
    with show_progress(console) as progress:
        bench(request, folder, command=_command_line(), ceilings=ceilings, progress=progress, ncu=ncu)


def _ceilings(request: "BenchRequest", device_name: str, *, calibrate: bool, console: "Console") -> "DeviceCeilings":
    """What the device can at most do, with every number of threads that the runs will use."""
    from perfkit.measure.bench import ceilings_of
    from perfkit_cli.lines import show_lines

    with show_lines(console) as tell:
        return ceilings_of(request, device_name, calibrate=calibrate, progress=tell)


def _refuse_existing(folder: Path) -> None:
    refuse_impossible(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(
            f"{folder} exists already and is never overwritten: name another folder with --out, or remove it"
        )


def _command_line() -> str:
    return shlex.join(["perfkit", *sys.argv[1:]])


def _exit_code(analysis: "Analysis") -> int:
    from perfkit.record import Status
    from perfkit_cli.main import EXIT_FAILED

    fine = (Status.OK, Status.SKIPPED)
    trained = all(variant.status in fine and variant.parity.not_finite_step is None for variant in analysis.variants)
    return 0 if trained else EXIT_FAILED
