"""`perfkit memory`: finds what filled the memory, from a recording of its allocations."""

import re
from pathlib import Path

import click

from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import choose_folder
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.report_options import add_out_option, add_static_option
from perfkit_cli.output.json_output import print_json

OUT = Path("perfkit-memory")

EXAMPLES = """\b
Examples:
  perfkit memory snapshot.pickle                     torch.cuda.memory._dump_snapshot
  perfkit memory trace.json.gz                       torch.profiler with profile_memory=True
  perfkit memory runs/gpt/amp/0/rank1/memory.parquet
  perfkit memory snapshot.pickle --json | jq '.accounts[0].peak_bytes'
\b
Exit codes: 0 done, 1 failed, 2 invalid request or unreadable file, 130 interrupted.
"""


@click.command(epilog=EXAMPLES, short_help="Find out what filled the memory, from a snapshot or trace.")
@click.argument("file", metavar="FILE", type=str)
@add_out_option(f"{OUT}/NAME")
@add_static_option
@add_json_option("the whole analysis", "; write no report")
@click.option("-v", "--verbose", is_flag=True, help="Print more of the report.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the report's path.")
def command(*, file: str, out: Path | None, static: bool, as_json: bool, verbose: bool, quiet: bool) -> None:
    """Find out what filled the memory at its peak: every byte by category, module and op.

    FILE is the path or URL of a snapshot of the CUDA caching allocator, a raw memory timeline of torch.profiler, a
    trace with memory events, or the memory.parquet of a run of perfkit bench. Its kind is recognized by content. A
    snapshot is a pickle, and is read without executing code. No GPU is needed.
    """
    from perfkit.analysis.pipeline.memory_analysis import analyze_memory
    from perfkit.store.summary import MEMORY_REPORT_FILE
    from perfkit_cli.output.report_output import write_and_show
    from perfkit_reports.subjects.memory.memory_document import build_document

    folder = (
        None
        if as_json
        else choose_folder([file], out, OUT / _derive_report_name(file), MEMORY_REPORT_FILE, "perfkit memory")
    )
    analysis = analyze_memory(file, command=get_command_line())
    if folder is None:
        print_json(analysis)
        return
    write_and_show(build_document(analysis), folder, static=static, verbose=verbose, quiet=quiet)


def _derive_report_name(file: str) -> str:
    """A name for the report's folder: the file's, without the suffixes of its kind."""
    from perfkit.trace.readers.trace_sources import derive_trace_name

    return re.sub(r"[^\w.-]+", "-", derive_trace_name(file).split(".")[0]).strip("-.") or "memory"
