"""Finds the least recomputation whose peak is within a limit: the first that fits by plan and by run."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.memory.allocation_lifetimes import build_lifetimes
from perfkit.analysis.memory.totals import compute_totals
from perfkit.core.files import read_json
from perfkit.core.fit_search import Trials, find_largest_fitting
from perfkit.core.record.quantity import Measurement
from perfkit.core.record.rank_record import RankRecord
from perfkit.core.spec import format_variant_label
from perfkit.core.units import format_bytes
from perfkit.devices.accelerator import is_cpu
from perfkit.measure.bench import schedule_first_run
from perfkit.measure.run_events import Event
from perfkit.measure.schedule import Techniques
from perfkit.measure.trial import judge_trial, run_trial, shorten_run
from perfkit.plan.variants.plan import PlanOne
from perfkit.store.layout import MEMORY_FILE, RECORD_FILE, RecomputationSearch, RecomputationTrial
from perfkit.store.memory_file import read_allocations
from perfkit.store.request import BenchRequest
from perfkit.techniques.activations.recomputation import list_rungs

Try = Callable[[Techniques, RecomputationTrial], RecomputationTrial]  # a trial, planned and run for a few steps
Searched = tuple[Techniques, RecomputationSearch]


def find_least_recomputation(
    techniques: Techniques, limit_bytes: float, plan: PlanOne, run: Try | None = None
) -> Searched:
    """The first combination in the order of recomputation whose peak is within a limit, and the search for it.

    If none fits, the combination is unchanged and the search has the reason.

    Args:
        techniques: those of the variant, with `ckpt:fit`.
        limit_bytes: what the peak of torch's allocator may be.
        plan: plans a combination of techniques, each once.
        run: tries the first that is planned to fit. If it does not, the next ones are planned and tried.
    """

    def plan_trial(candidate: Techniques) -> RecomputationTrial:
        planned = plan(candidate)
        peak = planned.peak_allocated_bytes
        return RecomputationTrial(
            variant=format_variant_label(candidate),
            planned_bytes=None if peak is None else float(peak.high),
            fits=None if peak is None else peak.high <= limit_bytes,
            reason=planned.reason,
        )

    def is_confirmed(candidate: Techniques) -> bool:
        """True unless a run out of memory refutes the plan."""
        trial = trials.try_candidate(candidate)
        if run is not None:
            trial = run(candidate, trial)
            if trial.measured_bytes is not None:
                trial = replace(trial, fits=trial.measured_bytes <= limit_bytes)
            trials.results[trial.variant] = trial
        return trial.fits is not False

    trials = Trials(plan_trial, format_variant_label)
    ((without,), *_) = list_rungs(techniques, blocks=0)
    baseline = trials.try_candidate(without)
    chosen, reason = None, ""
    if baseline.planned_bytes is None:
        reason = f"{baseline.variant} cannot be planned: {baseline.reason}"
    else:
        blocks = plan(without).blocks
        rungs = [rung for rung in list_rungs(techniques, blocks) if rung]
        fitting = _list_fitting(rungs, lambda candidate: bool(trials.try_candidate(candidate).fits))
        chosen = next(filter(is_confirmed, fitting), None)
        if chosen is None:
            lacking = "" if blocks else "; the workload names no blocks to checkpoint"
            reason = _explain_shortfall(trials.try_candidate(rungs[-1][-1]), limit_bytes) + lacking
    return techniques if chosen is None else chosen, RecomputationSearch(
        requested_variant=format_variant_label(techniques),
        selected_variant=None if chosen is None else format_variant_label(chosen),
        limit_bytes=limit_bytes,
        trials=tuple(trials.results.values()),
        reason=reason,
    )


def _list_fitting(
    rungs: Iterable[tuple[Techniques, ...]], is_fitting: Callable[[Techniques], bool]
) -> Iterator[Techniques]:
    """The first that fits by plan; then, as long as a run refutes it, the next."""
    for rung in rungs:
        left = rung[::-1]  # the peak rises from the most recomputation on
        while left and is_fitting(left[0]) and (found := find_largest_fitting(left, is_fitting)) is not None:
            yield found
            left = left[: left.index(found)]


def _explain_shortfall(trial: RecomputationTrial, limit_bytes: float) -> str:
    peaks = ((trial.measured_bytes, "measured"), (trial.planned_bytes, "planned"))
    known = next((f"{how} peak {format_bytes(peak)}" for peak, how in peaks if peak is not None), trial.reason)
    return f"not even {trial.variant} fits in {format_bytes(limit_bytes)}: {known}"


def make_trial_runner(request: BenchRequest, progress: Callable[[Event], None]) -> Try:
    """A runner of combinations of techniques, like a bench on this machine, that returns the peak of each."""
    numbers = count()

    def trial(techniques: Techniques, planned: RecomputationTrial) -> RecomputationTrial:
        item = schedule_first_run(request, techniques)
        if item.skip:
            return replace(planned, fits=None, reason=item.skip)
        # A CPU's allocator keeps no statistics: the memory recording counts its events.
        passes = ("memory",) if is_cpu(item.spec.launch.device) else ()
        run, peaks = run_trial(shorten_run(item.spec, passes), next(numbers), progress, read_allocator_peak)
        outcome = judge_trial(run, (peak for peak in peaks if peak is not None))
        return replace(
            planned,
            fits=outcome.fits,
            measured_bytes=outcome.peak_bytes,
            seconds=run.seconds,
            reason=outcome.reason or planned.reason,
        )

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
