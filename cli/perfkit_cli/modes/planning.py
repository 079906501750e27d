"""Plans with progress: for `perfkit plan`, for an existing suite, and before a bench."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.core.errors import UsageError
from perfkit.plan.rehearsal.quiet_libraries import silence_kineto
from perfkit_cli.options.command_line import get_command_line

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.analysis.model.plan import Plan
    from perfkit.measure.auto_params import FoundParams
    from perfkit.measure.run_events import Event
    from perfkit.plan.target.target import Target
    from perfkit.store.request import BenchRequest


def plan_request(request: "BenchRequest", target: "Target", console: "Console") -> "Plan":
    """The plan of a request's variants on each of its numbers of ranks; `batch:auto` is a `UsageError`."""
    from perfkit.plan import plan_workload

    with console.status("planning") as status:
        return plan_workload.plan_request(request, target, command=get_command_line(), progress=status.update)


def plan_suite(folder: Path, memory: str | None, console: "Console", further: Sequence[int] = (), **links: Any) -> None:
    """Plan all variants of a suite, and store the plan in its folder in place of an earlier one.

    A suite of several numbers of ranks is planned on more of them, `further` or else up to 4,096. `links` are those
    between GPUs, as a `Target` has them.
    """
    from msgspec.structs import replace

    from perfkit.core.files import write_json
    from perfkit.measure.resolve_request import resolve_request
    from perfkit.plan.extrapolate_ranks import extrapolate_ranks
    from perfkit.plan.target.target import find_run_target
    from perfkit.store.request import make_rank_fields
    from perfkit.store.suite_reader import read_suite
    from perfkit.store.summary import PLAN_FILE
    from perfkit.suites.resume import read_whole_request

    request = read_whole_request(folder)
    places = (rank.record.environment for run in read_suite(folder).runs for rank in run.ranks)
    environment = next((place for place in places if place is not None), None)
    name = "" if environment is None else environment.device_name
    target = _require_target(find_run_target(request.device, environment, memory), name)._replace(**links)
    sized = (
        replace(request, **make_rank_fields(sorted({*request.sizes, *further})))
        if further
        else extrapolate_ranks(request)
    )
    write_json(folder / PLAN_FILE, plan_request(resolve_request(sized), target, console))


def plan_bench(folder: Path, request: "BenchRequest", device_name: str, console: "Console") -> None:
    """Plan a bench, with its report, in the folder of its future suite."""
    from perfkit.plan.extrapolate_ranks import extrapolate_ranks
    from perfkit.plan.target.target import find_local_target
    from perfkit_reports.render.report_files import write_document
    from perfkit_reports.subjects.plan.plan_document import build_document

    target = _require_target(find_local_target(request.device, device_name), device_name)
    write_document(build_document(plan_request(extrapolate_ranks(request), target, console)), folder)


def resolve_auto_params(request: "BenchRequest", progress: Callable[["Event"], None]) -> "FoundParams":
    """As `perfkit.plan.search.resolve_auto.find_open_params` does. Plans are imported only if needed."""
    silence_kineto()

    from perfkit.plan.search import resolve_auto

    return resolve_auto.find_open_params(request, progress)


def _require_target(target: "Target | None", device_name: str) -> "Target":
    if target is None:
        from perfkit.plan.target.target import explain_unknown_gpu

        raise UsageError(explain_unknown_gpu(device_name))
    return target
