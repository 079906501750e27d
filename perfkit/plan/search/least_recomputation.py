"""Finds the least recomputation whose peak is within a limit: the first that fits by plan and by run."""

from bisect import bisect_left
from collections.abc import Callable
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.memory.allocation_lifetimes import build_lifetimes
from perfkit.analysis.memory.totals import compute_totals
from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.files import read_json
from perfkit.core.record import Measurement, RankRecord, RunStatus
from perfkit.core.spec import format_variant_label
from perfkit.core.units import format_bytes
from perfkit.measure.bench import schedule_first_run
from perfkit.measure.run_events import Event
from perfkit.measure.schedule import Techniques
from perfkit.measure.trial import is_out_of_memory, run_trial, shorten_run
from perfkit.store.layout import MEMORY_FILE, RECORD_FILE, RecomputationSearch, RecomputationTrial
from perfkit.store.memory_file import read_allocations
from perfkit.store.request import BenchRequest
from perfkit.techniques.activations.recomputation import list_rungs

Plan = Callable[[Techniques], PlannedVariant]
Try = Callable[[Techniques, RecomputationTrial], RecomputationTrial]  # a trial, planned and run for a few steps
Searched = tuple[Techniques, RecomputationSearch]


def accept_planned(_techniques: Techniques, trial: RecomputationTrial) -> RecomputationTrial:
    """Accept planned trials without a run."""
    return trial


def find_least_recomputation(
    techniques: Techniques, limit_bytes: float, plan: Plan, run: Try = accept_planned
) -> Searched:
    """The first combination in the order of recomputation whose peak is within a limit, and the search for it.

    If none fits, the combination is unchanged and the search has the reason.

    Args:
        techniques: those of the variant, with `ckpt:fit`.
        limit_bytes: what the peak of torch's allocator may be.
        plan: the plan of a combination of techniques.
        run: tries the first that is planned to fit. If it does not, the next ones are planned and tried.
    """
    search = _RecomputationFinder(limit_bytes, plan, run)
    chosen, reason = search.search_techniques(techniques)
    return techniques if chosen is None else chosen, RecomputationSearch(
        requested_variant=format_variant_label(techniques),
        selected_variant=None if chosen is None else format_variant_label(chosen),
        limit_bytes=limit_bytes,
        trials=tuple(search.trials.values()),
        reason=reason,
    )


class _RecomputationFinder:
    """Trials by variant, in planning order."""

    def __init__(self, limit_bytes: float, plan: Plan, run: Try) -> None:
        self.trials: dict[str, RecomputationTrial] = {}
        self._limit_bytes = limit_bytes
        self._plan = plan
        self._run = run

    def search_techniques(self, techniques: Techniques) -> tuple[Techniques | None, str]:
        """The first fit, or None, with the reason."""
        ((without,), *_) = list_rungs(techniques, blocks=0)
        planned = self._plan(without)
        self._record_trial(without, planned)
        if planned.peak_allocated_bytes is None:
            return None, f"{format_variant_label(without)} cannot be planned: {planned.reason}"
        left = list_rungs(techniques, planned.blocks)
        most = next(rung[-1] for rung in reversed(left) if rung)
        while (place := self._find_first_fit(left)) is not None:
            number, within = place
            if self._is_confirmed(left[number][within]):
                return left[number][within], ""
            left = (left[number][within + 1 :], *left[number + 1 :])
        lacking = "" if planned.blocks else "; the workload names no blocks to checkpoint"
        return None, self._explain_shortfall(most) + lacking

    def _find_first_fit(self, left: tuple[tuple[Techniques, ...], ...]) -> tuple[int, int] | None:
        """Rung and position of the first fit, by bisection, since the peak falls along a rung."""
        for number, rung in enumerate(left):
            if rung and self._is_fitting(rung[-1]):
                return number, bisect_left(rung, 1, key=self._is_fitting)
        return None

    def _is_fitting(self, techniques: Techniques) -> bool:
        known = self.trials.get(format_variant_label(techniques))
        return bool((known or self._record_trial(techniques, self._plan(techniques))).fits)

    def _record_trial(self, techniques: Techniques, planned: PlannedVariant) -> RecomputationTrial:
        peak = planned.peak_allocated_bytes
        trial = RecomputationTrial(
            variant=format_variant_label(techniques),
            planned_bytes=None if peak is None else float(peak.high),
            fits=None if peak is None else peak.high <= self._limit_bytes,
            reason=planned.reason,
        )
        self.trials[trial.variant] = trial
        return trial

    def _is_confirmed(self, techniques: Techniques) -> bool:
        """True unless a run out of memory refutes the plan."""
        name = format_variant_label(techniques)
        trial = self._run(techniques, self.trials[name])
        if trial.measured_bytes is not None:
            trial = replace(trial, fits=trial.measured_bytes <= self._limit_bytes)
        self.trials[name] = trial
        return trial.fits is not False

    def _explain_shortfall(self, techniques: Techniques) -> str:
        trial = self.trials[format_variant_label(techniques)]
        peaks = ((trial.measured_bytes, "measured"), (trial.planned_bytes, "planned"))
        known = next((f"{how} peak {format_bytes(peak)}" for peak, how in peaks if peak is not None), trial.reason)
        return f"not even {trial.variant} fits in {format_bytes(self._limit_bytes)}: {known}"


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
