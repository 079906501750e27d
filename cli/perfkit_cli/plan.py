"""`perfkit plan`: predicts the memory and step time of each variant, before anything is trained."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfkit.core.errors import UsageError
from perfkit.devices.accelerator import is_cpu
from perfkit.measure.rank.limits import MARGIN
from perfkit_cli.options.bench_request import refuse_given
from perfkit_cli.options.folders import refuse_foreign
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.option_values import parse_memory_option, parse_share_option, require_one_of
from perfkit_cli.options.phase_options import add_phase_options
from perfkit_cli.options.rental_options import add_rental_options
from perfkit_cli.options.report_options import add_out_option
from perfkit_cli.options.size_options import COUNT, add_scaling_options
from perfkit_cli.options.suite_trust import add_trust_option, trust_suite
from perfkit_cli.output.json_output import print_json

if TYPE_CHECKING:
    from rich.console import Console


_OF_A_SEARCH = ("margin", "cap")
_OF_LINKS = ("network", "gpus_per_node")
_OF_A_GPU = (*_OF_LINKS, "counts", "price", "prices", "tokens")
_OF_PHASES = ("eval_batch_size", "eval_batches", "eval_accumulation_steps", "disk")
_OF_OFFERS = ("counts", "price", "prices", "tokens", "seq_lengths", "packing", "length_shares")
_GPU_OF_A_CPU = "these describe GPUs, and a plan without --gpu is for a CPU"

# Options of a new plan.
_OF_A_PLAN = (
    "workload",
    "technique",
    "dtype",
    "world_sizes",
    "scaling",
    "batch_size",
    "seq_len",
    "accumulate",
    "gpu",
    *_OF_A_GPU,
    "seq_lengths",
    "packing",
    "length_shares",
    *_OF_PHASES,
    "out",
    "no_report",
    "max",
    "search",
    *_OF_A_SEARCH,
)

EXAMPLES = """\b
Examples:
  perfkit plan --workload gpt:size=small --technique amp,ckpt,amp+ckpt
  perfkit plan llama-3-8b --gpu h100,l40s --gpus 8 -t amp+zero3+ckpt --price h100=2.49/h --tokens 20B
  perfkit plan qwen3-8b --gpu l40s --gpus 1..64 -t zero3+ckpt                 the fewest GPUs that fit, and the cheapest
  perfkit plan gpt2 --gpu all -t amp --seq-lengths 256:0.7,1024:0.3           every GPU, for mixed lengths
  perfkit plan gpt2 --gpu l40s -t amp+flash --seq-lengths 256:0.7,1024:0.3 --packing 4096     packed, against padded
  perfkit plan --workload hf:LlamaConfig:num_hidden_layers=8 --technique ckpt,optim:use=adafactor
  perfkit plan --workload gpt:size=medium --technique zero1,zero2,zero3 --world-size 64
  perfkit plan --workload gpt:size=small --gpu rtx-4090 --memory 0.9          does it fit, or what would?
  perfkit plan --workload gpt:size=medium --technique zero3 --gpu h100-sxm --world-size 1,2,8,64 --network 50GB
  perfkit plan --workload train.py:build --technique 'batch:size=8|16|32' --json | jq '.variants[0]'
  perfkit plan --out runs/gpt --technique amp && perfkit bench --out runs/gpt --technique amp
  perfkit plan --learn runs/ traces/              learn op times from measured steps
  perfkit plan -w hf:LlamaConfig --technique ckpt --max batch_size --gpu h100-80g             or --max seq_len
  perfkit plan -w gpt:size=large --gpu rtx-4090 --search
  perfkit plan -w gpt:size=medium -t amp+ckpt:fit=20GiB --gpu rtx-4090       the least recomputation that fits
  perfkit plan gpt2 --gpu l40s -t amp --eval-batch-size 32 --eval-batches 100 --disk 2GB       evaluation, checkpoints
  perfkit plan --into runs/gpt                    predicted vs. measured, for all variants of the suite
  perfkit plan --into runs/gpt --world-size 8,64,4096             predicted scaling of the suite
\b
Exit codes: 0 done, 2 invalid request, 130 interrupted.
"""


@click.command(epilog=EXAMPLES, short_help="Predict memory and step time of variants without training.")
@click.option(
    "-w",
    "--workload",
    default="gpt",
    show_default=True,
    metavar="NAME[:KEY=VALUE]",
    help="Workload to plan; perfkit workloads lists them.",
)
@click.option(
    "-t", "--technique", default="amp,ckpt", show_default=True, metavar="LIST", help="Techniques to plan, as for bench."
)
@add_scaling_options
@add_rental_options
@click.option(
    "--network",
    metavar="SIZE",
    callback=parse_memory_option,
    help="Inter-node bandwidth per GPU (bytes per second), such as 50GB; without it, step times over several nodes "
    "are unknown.",
)
@click.option("--gpus-per-node", default=8, show_default=True, metavar="N", type=COUNT, help="GPUs per node.")
@add_phase_options
@click.option("--memory", metavar="SHARE|SIZE", help="Memory limit per rank: a share or a size, such as 0.9 or 64GiB.")
@click.option(
    "--max",
    metavar="batch_size|seq_len",
    callback=require_one_of("value of --max", ("batch_size", "seq_len")),
    help="Find the largest batch or sequence of each variant that fits.",
)
@click.option(
    "--margin",
    default=f"{MARGIN:.0%}",
    show_default=True,
    metavar="PERCENT",
    callback=parse_share_option,
    help="With --max: memory to keep free.",
)
@click.option(
    "--cap",
    metavar="N",
    type=COUNT,
    help="With --max: largest size to try.  [default: 1,024 samples, 131,072 tokens]",
)
@click.option(
    "--search",
    is_flag=True,
    help="Find the combinations of techniques that fit, fastest first; replaces --technique.",
)
@add_out_option("runs/TIME-plan-WORKLOAD")
@click.option("--no-report", is_flag=True, help="Print the plan; write nothing.")
@click.option(
    "--into",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Plan the variants of this suite; its report then compares predicted with measured.",
)
@add_trust_option
@click.option("--learn", is_flag=True, help="Learn op times per device from suites and traces (PATH).")
@add_json_option("the plan", "; write no report")
@click.option("-v", "--verbose", is_flag=True, help="Print more of the report.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the report's path.")
@click.argument("paths", metavar="[WORKLOAD|PATH...]", nargs=-1)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Predict the memory of a training step with each technique, on any number of ranks, and whether it fits.

    The model, the techniques and two steps run with fake tensors, which have shapes and no data: nothing is trained,
    and nothing of the model's size is allocated. The plan predicts the peak of torch's allocator in a rank, as perfkit
    bench measures it, by category; with --gpu also the memory outside the allocator, as an interval; and the step time,
    where the device's speed is known.

    The plan is stored as a report. A suite measured into the same folder (perfkit bench --out FOLDER), or planned with
    --into, compares predicted with measured.

    With --learn, each PATH is a suite of perfkit bench, a folder of suites, or a GPU trace. Their op times are stored
    per device, with its measured ceilings, and used by plans. Use --gpu for traces that do not name their GPU.
    """

    from perfkit_cli.modes.plan_largest import plan_largest_options
    from perfkit_cli.modes.plan_offers import plan_options, select_links
    from perfkit_cli.modes.planning import plan_suite
    from perfkit_cli.output.console import make_console
    from perfkit_cli.output.plan_output import convert_plan
    from perfkit_cli.output.report_output import show_document, write_and_print

    if not options["learn"] and len(options["paths"]) == 1 and _is_workload(options["paths"][0]):
        refuse_given(ctx, ("workload",), "a workload is named already")
        options |= {"workload": options["paths"][0], "paths": ()}
        ctx.params = options
        ctx.set_parameter_source("workload", click.core.ParameterSource.COMMANDLINE)
    as_json, shown = options["as_json"], {"quiet": options["quiet"], "verbose": options["verbose"]}
    console = make_console(stderr=True, quiet=options["quiet"] or as_json)
    if options["learn"] != bool(options["paths"]):
        raise UsageError(
            "--learn and paths of suites or traces must be given together, for example: perfkit plan --learn runs/"
        )
    if options["learn"]:
        from perfkit_cli.modes.plan_learn import learn_and_show

        others = (*(name for name in _OF_A_PLAN if name != "gpu"), "into", "memory")
        refuse_given(ctx, others, "--learn plans nothing")
        learn_and_show(options["paths"], options["gpu"], console, as_json=as_json)
        return
    if options["into"] is not None:
        asked = [name for name in _OF_A_PLAN if name not in ("world_sizes", *_OF_LINKS)]
        refuse_given(ctx, asked, "--into plans the suite's own variants")
        from perfkit.suites.resume import read_first_request
        from perfkit_reports.subjects.registry import load_document

        if options["trust"]:
            trust_suite(options["into"])
        if is_cpu(read_first_request(options["into"]).device):
            refuse_given(ctx, _OF_LINKS, _GPU_OF_A_CPU)
        plan_suite(options["into"], options["memory"], console, options["world_sizes"], **select_links(options))
        write_and_print(load_document(options["into"]), options["into"], as_json=as_json, **shown)
        return
    refuse_given(ctx, ("trust",), "--trust is for the suite of --into")
    if not options["max"]:
        refuse_given(ctx, _OF_A_SEARCH, "these need --max batch_size or --max seq_len")
    if options["gpu"] is None:
        refuse_given(ctx, _OF_A_GPU, _GPU_OF_A_CPU)
    from perfkit_reports.subjects.plan.plan_document import build_document

    if options["search"]:
        _show_search(ctx, console)
        return
    folder = None if as_json or options["no_report"] else _choose_plan_folder(options["workload"], options["out"])
    plan = (plan_largest_options if options["max"] else plan_options)(ctx, options, console)
    if as_json:
        print_json(convert_plan(plan))
    elif folder is None:
        show_document(build_document(plan), verbose=options["verbose"])
    else:
        write_and_print(build_document(plan), folder, as_json=False, **shown)


def _is_workload(word: str) -> bool:
    """True for `llama-3-8b` and `src/train.py:build`, False for a path such as `runs/gpt`."""
    return ":" in word or "/" not in word


def _show_search(ctx: click.Context, console: "Console") -> None:
    """Print the result of a search over plans; nothing is stored."""
    from perfkit.plan.rehearsal.quiet_libraries import silence_kineto

    silence_kineto()

    from perfkit_cli.modes import plan_search
    from perfkit_cli.modes.plan_offers import build_plan_request, resolve_target
    from perfkit_cli.output.plan_output import convert_search

    options = ctx.params
    refuse_given(ctx, ("out", "no_report"), "--search writes no report")
    refuse_given(ctx, _OF_OFFERS, "--search is for one GPU and one length")
    refuse_given(ctx, _OF_PHASES, "--search plans training steps")
    refuse_given(ctx, ("technique", "max"), "--search chooses the techniques")
    if len(options["world_sizes"]) > 1:
        raise UsageError("--search takes one --world-size")
    refuse_given(ctx, ("scaling",), "--search is for the batch of one rank")
    request, target = build_plan_request(options, options["world_sizes"]), resolve_target(options)
    searched = plan_search.run_search(request, target, console)
    if options["as_json"]:
        print_json(convert_search(searched))
        return
    for line in plan_search.format_search(searched):
        click.echo(line)


def _choose_plan_folder(workload: str, out: Path | None) -> Path:
    """The report folder; only an earlier plan may be overwritten."""
    from perfkit.measure.bench import name_default_folder
    from perfkit.store.layout import SUITE_FILE
    from perfkit.store.summary import PLAN_FILE

    folder = out or name_default_folder(f"plan-{workload}")
    if (folder / SUITE_FILE).is_file():
        raise UsageError(f"{folder} holds a suite; to plan its variants, give --into {folder}")
    refuse_foreign(folder, PLAN_FILE, "perfkit plan")
    return folder
