"""`perfkit tune`: searches for the best combination of techniques, and proves its gain by measurement."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfkit.core.errors import raise_terminated
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.option_values import parse_duration_option, parse_memory_option, require_one_of
from perfkit_cli.options.run_options import add_device_option, add_timeout_option
from perfkit_cli.options.size_options import COUNT, add_size_options
from perfkit_cli.output.json_output import print_json

if TYPE_CHECKING:
    from perfkit.tune.model.tune_result import TuneResult

OBJECTIVES = ("time", "memory", "cost")
ALLOWED_LOSSES = ("lossless", "tolerance", "any")

EXAMPLES = """\b
Examples:
  perfkit tune -w gpt:size=nano --budget 10min
  perfkit tune -w train.py:build --objective memory
  perfkit tune -w train.py:build --memory 24GiB --allow lossless
  perfkit tune -w hf:LlamaConfig:num_hidden_layers=2 --technique amp,flash,compile,optim:use=fused
  perfkit tune -w train.py:build --objective cost --allow any -t 'all,batch:size=16|32|64'
  perfkit tune -w train.py:build --apply            write the gain into train.py, if it is proven there
  perfkit tune train.py -- --lr 3e-4                a script of your own: edits of its source, proven one by one
  perfkit tune --budget 10min --apply train.py
  perfkit tune --resume runs/tune-gpt               after Ctrl-C: what was measured counts
  perfkit tune -w gpt --json | jq -r .best
\b
Exit codes: 0 a proven gain, or certainly none; 2 invalid request, 3 a gain that was not proven,
130 interrupted, 143 terminated (results are kept).
"""


@click.command(epilog=EXAMPLES, short_help="Search for the best techniques, and prove their gain.")
@click.argument("script", required=False, type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-w",
    "--workload",
    default="gpt",
    show_default=True,
    metavar="NAME[:KEY=VALUE]",
    help="Workload to tune; perfkit workloads lists them.",
)
@click.option(
    "-t",
    "--technique",
    default="all",
    show_default=True,
    metavar="LIST",
    help="Techniques to choose from, written as for bench; all: every technique.",
)
@click.option(
    "--objective",
    default=OBJECTIVES[0],
    show_default=True,
    metavar=f"[{'|'.join(OBJECTIVES)}]",
    callback=require_one_of("objective", OBJECTIVES),
    help="What to minimize: step time, peak memory, or time per sample.",
)
@click.option(
    "--allow",
    default=ALLOWED_LOSSES[1],
    show_default=True,
    metavar=f"[{'|'.join(ALLOWED_LOSSES)}]",
    callback=require_one_of("value of --allow", ALLOWED_LOSSES),
    help="Losses to accept: the baseline's up to summation order, within the technique's tolerance, or any.",
)
@click.option("--memory", metavar="SIZE", callback=parse_memory_option, help="Limit of peak memory, such as 24GiB.")
@click.option(
    "--budget",
    default="20min",
    show_default=True,
    metavar="TIME",
    callback=parse_duration_option,
    help="Time for the whole search.",
)
@add_device_option
@add_size_options
@click.option("--threads", metavar="N", type=COUNT, help="CPU threads per rank.  [default: cores / ranks]")
@add_timeout_option
@click.option(
    "--out",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Report folder.  [default: runs/TIME-tune-WORKLOAD]",
)
@click.option(
    "--resume",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Continue the interrupted search in this folder, with its own options.",
)
@click.option(
    "--apply",
    "apply_patch",
    is_flag=True,
    help="Write the patch into the workload's file, if it was measured to be faster with the same losses.",
)
@click.option("--no-calibrate", is_flag=True, help="Do not measure this machine's ceilings, even if unknown.")
@add_json_option("the result")
@click.option("-v", "--verbose", is_flag=True, help="Print more of the report.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the report's path.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Search for the techniques that minimize step time or memory, and prove the gain.

    Candidates are ranked by simulating the recorded step; with a memory limit, plans exclude what does not fit. Each
    stage measures the best candidates on top of those accepted so far, in interleaved rounds from which losers are
    dropped. A trial counts only if every technique was active and the losses are as allowed. The best variant
    is measured again in new processes: that gain is reported.

    For a workload of your own, tuned.patch has the changes of its file as far as they can be written safely, and the
    patched file is measured against the original.

    SCRIPT is a training script in place of a workload, with its own ARGUMENTS after --. It is recorded as by perfkit
    run, and edits of its source are measured in copies of its folder: its files are linked, new ones stay in the copy.
    """
    from perfkit.plan.rehearsal.quiet_libraries import silence_kineto

    silence_kineto()

    from perfkit.store.summary import TUNE_FILE
    from perfkit.tune.model.tune_result import read_tune_result
    from perfkit_cli.modes.tune_edits import PreparedScript, names_script, prepare_script, search_edits
    from perfkit_cli.modes.tune_search import prepare_search, run_search
    from perfkit_cli.output.console import make_console
    from perfkit_cli.output.error_output import EXIT_UNDECIDED, describe_interrupt
    from perfkit_cli.output.report_output import write_and_show

    as_json, quiet = options["as_json"], options["quiet"] or options["as_json"]
    search = prepare_search(ctx) if not names_script(ctx) else prepare_script(ctx)
    folder, ended = search.folder, 0
    signal.signal(signal.SIGTERM, raise_terminated)
    try:
        console = make_console(stderr=True, quiet=quiet)
        if isinstance(search, PreparedScript):
            search_edits(search, console)
        else:
            run_search(search, console, calibrate=not options["no_calibrate"])
    except KeyboardInterrupt as error:
        word, ended = describe_interrupt(error)
        if not (folder / TUNE_FILE).is_file():
            click.echo(f"{word}: nothing was measured", err=True)
            ctx.exit(ended)
        click.echo(f"{word}: trials so far are in {folder}; continue with --resume {folder}", err=True)
    from perfkit_reports.subjects.tune.tune_document import build_document

    result = read_tune_result(folder)
    if as_json:
        print_json(result)
    else:
        write_and_show(build_document(result), folder, quiet=quiet, verbose=options["verbose"])
    if options["apply_patch"] and not ended:
        _apply(result)
    ctx.exit(ended or (EXIT_UNDECIDED if result.conclusion == "not proven" else 0))


def _apply(result: "TuneResult") -> None:
    """Apply the patch of a search, or say why not."""
    if result.patch is None or (result.script is not None and not result.patch.diff):
        click.echo("nothing to apply: only a proven gain of a file of yours has a patch", err=True)
        return
    if result.script is not None:
        from perfkit.tune.script.write_script_patch import apply_script_patch

        apply_script_patch(result.patch, Path(result.folder))
    else:
        from perfkit.tune.patch.patch_workload import apply_patch

        apply_patch(result.patch, result.best, result.device_type)
    click.echo(f"patched: {result.patch.path} ({', '.join(result.patch.written)})", err=True)
    click.echo(f"undo: {result.patch.undo}", err=True)
