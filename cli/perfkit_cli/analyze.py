"""`perfkit analyze`: finds where the time of a recorded trace went."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import choose_folder
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.option_values import (
    parse_duration_option,
    parse_memory_option,
    parse_part_option,
    parse_window_option,
    require_one_of,
)
from perfkit_cli.options.report_options import add_out_option, add_static_option
from perfkit_cli.output.json_output import print_json

ENGINES = ("processes", "ray")
EXPORTS = ("perfetto", "speedscope")
OUT = Path("perfkit-analyze")

EXAMPLES = """\b
Examples:
  perfkit analyze trace.json.gz
  perfkit analyze traces/                              every rank of a job, in one report
  perfkit analyze 'traces/rank*.json.gz' --jobs 4
  ssh node cat trace.json.gz | perfkit analyze -       from a pipe
  perfkit analyze after.json --against before.json     what changed, op by op
  perfkit analyze trace.json --device h100-sxm         compare with this device's peaks
  perfkit analyze trace.json --device here             recorded on this machine: use what `perfkit calibrate` measured
  perfkit analyze trace.json --counters ncu.csv        counted FLOPs and bytes instead of modeled ones
  perfkit analyze replay.json --capture capture/       ops of the kernels of replayed CUDA graphs
  perfkit analyze trace.json --what-if gemm=0.8 --what-if comm=0    simulated along dependencies
  perfkit analyze trace.json --export perfetto         the trace with bounds, causes and findings for ui.perfetto.dev
  perfkit analyze trace.json --window 1.2s:1.25s       all slices of this time in the timeline
  perfkit analyze gs://bucket/run/ --engine ray        hundreds of ranks, on a Ray cluster
  perfkit analyze traces/ --part 3/16 --into parts/    a task of a job array; then perfkit merge parts/
  perfkit analyze comm_lib_trace_rank_*                a hang: ranks that did not enter a collective
  perfkit analyze trace.json --json | jq .traces[0].time_split
\b
`perfkit devices` lists the ids that --device takes.
\b
Exit codes: 0 done, 1 failed, 2 invalid request or unreadable trace, 130 interrupted.
"""


@click.command(epilog=EXAMPLES, short_help="Analyze recorded traces: where the time went.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True)
@click.option(
    "--against",
    metavar="TRACE",
    multiple=True,
    help="Earlier trace to compare with; for a folder of ranks, the same rank is used.",
)
@click.option(
    "--device",
    metavar="ID",
    help="Device that TRACE was recorded on, by id or name; overrides the trace's own. here: this machine.",
)
@click.option(
    "--counters",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Hardware counters: a CSV export of Nsight Compute (ncu --csv --page raw).",
)
@click.option(
    "--capture",
    metavar="TRACE",
    multiple=True,
    help="Traces of the CUDA graph captures that TRACE replays (file or folder), to name the ops of replayed kernels."
    "  [default: files next to TRACE, named as inference servers do]",
)
@click.option(
    "--what-if",
    "what_ifs",
    metavar="CHANGES",
    multiple=True,
    help="Simulate changes: a scale factor per op, such as "
    "'aten::mm=0.8,elementwise=0.5,comm=0,host=0.5,sync=none,graphs,fuse=elementwise'. Repeat the option for a table.",
)
@click.option(
    "--window",
    metavar="FROM:TO",
    callback=parse_window_option,
    help="Show this time of the trace in the timeline instead of steps, such as 1.2s:1.25s since its first event.",
)
@add_out_option(f"{OUT}/NAME")
@add_static_option
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar=f"[{'|'.join(EXPORTS)}]",
    type=click.Choice(EXPORTS),
    help="Also export each trace into the report folder: with findings as tracks for ui.perfetto.dev, or ops by "
    "phase and module for speedscope.app.",
)
@click.option(
    "--engine",
    default=ENGINES[0],
    show_default=True,
    metavar=f"[{'|'.join(ENGINES)}]",
    callback=require_one_of("engine", ENGINES),
    help="How to analyze several traces: in processes on this machine, or as tasks of a Ray cluster.",
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Traces or dumps read at once.  [default: limited by cores and memory]",
)
@click.option(
    "--max-bytes",
    metavar="SIZE",
    callback=parse_memory_option,
    help="Limit on a trace's decompressed JSON, such as 40GiB.  [default: 16GiB, less for a small file]",
)
@click.option(
    "--time-limit",
    metavar="TIME",
    callback=parse_duration_option,
    help="Time limit for reading a trace, such as 30s. The report says if a part was not read.",
)
@click.option(
    "--part",
    metavar="I/N",
    callback=parse_part_option,
    help="Summarize only each N-th trace, from the I-th on, for perfkit merge: a task of a job array. Needs --into.",
)
@click.option("--into", metavar="FOLDER", help="Folder or URL for the summaries of --part, the same for all parts.")
@add_json_option("the whole analysis", "; write no report")
@click.option("-v", "--verbose", is_flag=True, help="Print all findings and tables.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the report's path.")
def command(
    *,
    traces: tuple[str, ...],
    against: tuple[str, ...],
    device: str | None,
    counters: Path | None,
    capture: tuple[str, ...],
    what_ifs: tuple[str, ...],
    window: tuple[float, float] | None,
    out: Path | None,
    static: bool,
    exports: tuple[str, ...],
    engine: str,
    jobs: int | None,
    max_bytes: int | None,
    time_limit: float | None,
    part: tuple[int, int] | None,
    into: str | None,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Find out where the time of a recorded trace went, and what could be saved.

    TRACE is a trace of torch.profiler or of JAX's profiler, from any machine: a file (.json, .json.gz, .json.zst), a
    folder of ranks, a pattern, a URL or `-` for standard input. Nothing is run, and no GPU is needed. Kernels are
    classified, compared with the device's peaks, and ranked by the time that reaching the roofline would save.

    Dumps of torch's flight recorder (one file per rank) are recognized by content. The report names the collective that
    ranks wait in, the ranks that did not enter it, and mismatched shapes or order.
    """
    from perfkit.analysis.pipeline.trace_analysis import analyze_traces
    from perfkit.core.errors import UsageError
    from perfkit.core.text_blocks import ReadLimits
    from perfkit.flight.flight_dumps import select_dumps
    from perfkit.store.summary import TRACE_REPORT_FILE
    from perfkit.trace.readers.trace_sources import expand_sources
    from perfkit_cli.output.console import make_console
    from perfkit_cli.output.trace_progress import show_reading

    limits = ReadLimits(json_bytes=max_bytes, seconds=math.inf if time_limit is None else time_limit)
    if part is not None or into is not None:
        whole = {
            "against": against,
            "counters": counters,
            "window": window,
            "out": out,
            "static": static,
            "export": exports,
        }
        reason = "--part writes no report, but {} is for one; omit it, or give it to `perfkit merge`"
        _refuse_options({**whole, "json": as_json, "verbose": verbose}, reason)
        if part is None or into is None:
            raise UsageError("--part and --into need each other: a part, and the folder", id="usage.missing_option")
        from perfkit.analysis.pipeline.trace_parts import Part, write_part

        asked: dict[str, Any] = {"device": device, "capture": capture, "what_ifs": what_ifs, "engine": engine}
        with show_reading(make_console(stderr=True, quiet=quiet)) as progress:
            ranks = write_part(traces, Part(*part), into, jobs=jobs, limits=limits, progress=progress, **asked)
        if not quiet:
            click.echo(f"part {part[0]} of {part[1]}: {ranks} traces summarized in {into}")
        return
    if dumps := select_dumps(traces):
        options = {"against": against, "device": device, "counters": counters, "capture": capture, "what-if": what_ifs}
        amounts = {"window": window, "max-bytes": max_bytes, "time-limit": time_limit}
        reason = "these are flight recorder dumps, but {} is for traces; omit it"
        _refuse_options({**options, **amounts, "engine": engine != ENGINES[0], "export": exports}, reason)
        _analyze_dumps(dumps, out, jobs, static=static, as_json=as_json, verbose=verbose, quiet=quiet)
        return
    sources = expand_sources(traces)
    if exports:
        _check_exports(exports, sources, as_json=as_json)
    folder = (
        None
        if as_json
        else choose_folder(
            sources, out, OUT / _derive_report_name(sources, window), TRACE_REPORT_FILE, "perfkit analyze"
        )
    )
    with show_reading(make_console(stderr=True, quiet=quiet or as_json)) as progress:
        analysis = analyze_traces(
            sources,
            against=against,
            device=device,
            counters=counters,
            capture=capture,
            what_ifs=what_ifs,
            window=window,
            engine=engine,
            jobs=jobs,
            limits=limits,
            command=get_command_line(),
            progress=progress,
        )
    if folder is None:
        print_json(analysis)
        return
    from perfkit_cli.output.report_output import write_and_show
    from perfkit_reports.subjects.trace import build_document

    write_and_show(build_document(analysis), folder, static=static, quiet=quiet, verbose=verbose)
    if exports:
        from perfkit.analysis.export.export_files import write_exports

        for path in write_exports(
            analysis,
            folder,
            exports,
            device=device,
            captures=expand_sources(capture) if capture else (),
            counted=counters,
            limits=limits,
        ):
            if not quiet:
                click.echo(f"export: {path}")


def _refuse_options(options: Mapping[str, object], reason: str) -> None:
    """Refuse those that have a value, for the reason."""
    from perfkit.core.errors import UsageError

    named = [f"--{name}" for name, value in options.items() if value]
    if named:
        raise UsageError(reason.format(", ".join(named)), id="usage.conflict")


def _analyze_dumps(
    dumps: tuple[str, ...],
    out: Path | None,
    jobs: int | None,
    *,
    static: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Show which ranks missed which collective, as a report or as JSON."""
    from perfkit.analysis.pipeline.flight_analysis import analyze_flight
    from perfkit.store.summary import FLIGHT_REPORT_FILE

    folder = (
        None
        if as_json
        else choose_folder(dumps, out, OUT / _derive_report_name(dumps), FLIGHT_REPORT_FILE, "perfkit analyze")
    )
    analysis = analyze_flight(dumps, command=get_command_line(), jobs=jobs)
    if folder is None:
        print_json(analysis)
        return
    from perfkit_cli.output.report_output import write_and_show
    from perfkit_reports.subjects.flight.flight_document import build_document

    write_and_show(build_document(analysis), folder, static=static, quiet=quiet, verbose=verbose)


def _check_exports(exports: tuple[str, ...], sources: tuple[str, ...], *, as_json: bool) -> None:
    """Refuse impossible exports before reading anything."""
    from perfkit.core.errors import UsageError
    from perfkit.trace.readers.trace_sources import STANDARD_INPUT

    if as_json:
        raise UsageError(
            "--export and --json conflict: --json writes no report; use only one",
            id="usage.conflict",
        )
    if "perfetto" in exports and STANDARD_INPUT in sources:
        raise UsageError("--export perfetto reads the trace twice, which standard input does not allow; name a file")


def _derive_report_name(sources: tuple[str, ...], window: tuple[float, float] | None = None) -> str:
    """A name for the report's folder: the trace's, or that of the folder the traces are in, with the window's times."""
    from perfkit.trace.readers.trace_sources import derive_trace_name

    first = sources[0]
    name = derive_trace_name(first) if len(sources) == 1 else Path(first).absolute().parent.name
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "trace"
    return plain if window is None else f"{plain}-{window[0]:g}s-{window[1]:g}s"
