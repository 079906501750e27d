"""Prepares a search of `perfkit tune`, new or interrupted, and runs it with progress."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perfkit.core.errors import UsageError
from perfkit_cli.options.bench_request import get_given_options, refuse_given, resolve_ceilings
from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import refuse_impossible
from perfkit_cli.options.variants import parse_named_variants

if TYPE_CHECKING:
    import click
    from rich.console import Console

    from perfkit.tune.model.tune_request import TuneRequest

# Options that an interrupted search keeps.
_OF_A_SEARCH = (
    "workload",
    "technique",
    "objective",
    "allow",
    "memory",
    "device",
    "dtype",
    "world_size",
    "batch_size",
    "seq_len",
    "accumulate",
    "threads",
    "timeout",
    "out",
)


class PreparedSearch(NamedTuple):
    """A search's folder and request."""

    folder: Path
    request: "TuneRequest"


def prepare_search(ctx: "click.Context") -> PreparedSearch:
    """The search that the options name; an invalid one is a `UsageError`, before anything is measured."""
    return _prepare_new(ctx.params) if ctx.params["resume"] is None else _prepare_interrupted(ctx)


def run_search(search: PreparedSearch, console: "Console", *, calibrate: bool) -> None:
    """Search, with progress. A KeyboardInterrupt keeps what was measured."""
    from perfkit.devices.machine.device_choice import find_device
    from perfkit.tune.search.start_search import start_search
    from perfkit_cli.output.progress import show_progress

    request, command = search.request, get_command_line()
    baseline = msgspec.structs.replace(request.bench, variants=((),), calibrate=calibrate)
    ceilings = resolve_ceilings(baseline, find_device(request.bench.device).name, console=console)
    with show_progress(console) as progress:
        start_search(request, search.folder, command=command, ceilings=ceilings, progress=progress, report=console.out)


def _prepare_new(options: dict[str, Any]) -> PreparedSearch:
    from perfkit.devices.machine.device_choice import find_device
    from perfkit.measure.bench import name_default_folder
    from perfkit.measure.output_dir import refuse_occupied
    from perfkit.measure.rank.limits import check_limits
    from perfkit.suites.new_request import make_request
    from perfkit.tune.model.tune_request import TuneRequest

    folder = options["out"] or name_default_folder(f"tune-{options['workload']}")
    refuse_impossible(folder)
    refuse_occupied(folder)
    check_limits(options["timeout"], None)
    sizes = options["batch_size"], options["seq_len"], options["accumulate"]
    bench = msgspec.structs.replace(
        make_request(options["workload"], find_device(options["device"]), *sizes),
        dtype=options["dtype"],
        world_size=options["world_size"],
        accumulation=options["accumulate"],
        threads=options["threads"],
        timeout_s=options["timeout"],
    )
    return PreparedSearch(
        folder,
        TuneRequest(
            bench=bench,
            technique=options["technique"],
            offered=parse_named_variants(options["technique"]),
            objective=options["objective"],
            allow=options["allow"],
            budget_s=options["budget"],
            limit_bytes=options["memory"],
        ),
    )


def _prepare_interrupted(ctx: "click.Context") -> PreparedSearch:
    from perfkit.store.summary import TUNE_FILE
    from perfkit.suites.resume import read_first_request
    from perfkit.tune.model.tune_request import TuneRequest
    from perfkit.tune.model.tune_result import TRIALS_FOLDER, read_tune_result

    folder: Path = ctx.params["resume"]
    refuse_given(ctx, _OF_A_SEARCH, "--resume takes its options from the search")
    if not (folder / TUNE_FILE).is_file():
        raise UsageError(f"{folder} has no {TUNE_FILE}; name the folder of an interrupted search", id="usage.no_file")
    earlier = read_tune_result(folder)
    if earlier.proof is not None:
        raise UsageError(f"the search in {folder} has ended; start a new one with --out")
    given = get_given_options(ctx, ("budget",))
    return PreparedSearch(
        folder,
        TuneRequest(
            bench=msgspec.structs.replace(read_first_request(folder / TRIALS_FOLDER), variants=()),
            technique=earlier.technique,
            offered=parse_named_variants(earlier.technique),
            objective=earlier.objective,
            allow=earlier.allow,
            budget_s=given.get("budget", earlier.budget_s),
            limit_bytes=earlier.limit_bytes,
        ),
    )
