"""Starts a search, new or interrupted: its suite of trials, and a cache of compiled code for all of them."""

from collections.abc import Callable
from pathlib import Path

from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.measure.bench import open_compile_caches
from perfkit.measure.run_events import Event
from perfkit.plan.search.resolve_auto import find_open_params
from perfkit.tune.model.tune_request import TuneRequest
from perfkit.tune.model.tune_result import TRIALS_FOLDER, TuneResult
from perfkit.tune.search.measure_trials import TrialBench
from perfkit.tune.search.tune_workload import tune_workload


def start_search(
    request: TuneRequest,
    folder: Path,
    *,
    command: str,
    ceilings: DeviceCeilings | None,
    progress: Callable[[Event], None],
    report: Callable[[str], None],
) -> TuneResult:
    """Search for the best variant in `folder`, as `perfkit.tune.search.tune_workload.tune_workload` does.

    `command` is stored with the result; `ceilings` are the device's; `progress` receives the events of runs, `report` a
    line per stage.
    """
    with open_compile_caches() as caches:
        bench = TrialBench(
            folder / TRIALS_FOLDER,
            request.bench,
            command=command,
            ceilings=ceilings,
            progress=progress,
            find=find_open_params,
            compile_caches=caches,
        )
        return tune_workload(request, folder, bench, command=command, report=report)
