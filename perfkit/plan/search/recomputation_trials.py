"""Runs trials of a search for the least recomputation: a few steps, and their allocator peak."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.memory.allocation_lifetimes import build_lifetimes
from perfkit.analysis.memory.totals import compute_totals
from perfkit.core.files import read_json
from perfkit.core.record import Measurement, RankRecord, RunStatus
from perfkit.measure.bench import schedule_first_run
from perfkit.measure.run_events import Event
from perfkit.measure.schedule import Techniques
from perfkit.measure.trial import is_out_of_memory, run_trial, shorten_run
from perfkit.plan.search.least_recomputation import Try
from perfkit.store.layout import MEMORY_FILE, RECORD_FILE, RecomputationTrial
from perfkit.store.memory_file import read_allocations
from perfkit.store.request import BenchRequest


def make_trial_runner(request: BenchRequest, progress: Callable[[Event], None]) -> Try:
    """A runner of combinations of techniques, like a bench on this machine, that returns the peak of each."""
    numbers = count()

    def trial(techniques: Techniques, planned: RecomputationTrial) -> RecomputationTrial:
        item = schedule_first_run(request, techniques)
        if item.skip:
            return replace(planned, fits=None, reason=item.skip)
        # A CPU's allocator keeps no statistics: the memory recording counts its events.
        passes = ("memory",) if item.spec.launch.device == "cpu" else ()
        run, peaks = run_trial(shorten_run(item.spec, passes), next(numbers), progress, read_allocator_peak)
        told = replace(planned, seconds=run.seconds)
        if run.status != RunStatus.OK:
            fits = False if is_out_of_memory(run) else None
            return replace(told, fits=fits, reason=f"{run.status}: {run.reason}")
        known = [peak for peak in peaks if peak is not None]
        if not known:
            return replace(told, fits=None, reason="memory unknown")
        return replace(told, measured_bytes=max(known))

    return trial


def read_allocator_peak(rank: Path) -> float | None:
    """The most bytes that torch's allocator had handed out in a step of a rank, by what is in its folder."""
    if (rank / MEMORY_FILE).is_file():
        allocations = read_allocations(rank / MEMORY_FILE)
        return float(compute_totals(build_lifetimes(allocations), len(allocations)).max())
    if not (rank / RECORD_FILE).is_file():
        return None
    memory = read_json(rank / RECORD_FILE, RankRecord).memory
    return memory.allocated.value if memory is not None and isinstance(memory.allocated, Measurement) else None
