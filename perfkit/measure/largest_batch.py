"""The largest batch that fits in memory, found by trial runs in new processes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path

import msgspec
import psutil

from perfkit.core.files import read_json
from perfkit.core.fit_search import Trials, find_largest_fitting
from perfkit.core.record.quantity import Measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import RunSpec, TechniqueSpec, format_variant_label
from perfkit.core.units import format_bytes, format_percent
from perfkit.devices.accelerator import is_cpu
from perfkit.measure.rank.limits import MARGIN
from perfkit.measure.run_events import Event
from perfkit.measure.schedule import ScheduledRun, Techniques
from perfkit.measure.trial import judge_trial, run_trial, shorten_run
from perfkit.store.layout import RECORD_FILE, BatchSearch, BatchTrial
from perfkit.techniques.data.batch import Batch

# The search's resolution, as a share of the size.
_RESOLUTION = 1 / 16

Launch = Callable[[RunSpec, int], tuple[RunResult, list[RankRecord]]]  # a run, as the trial of this number


def search_batch_sizes(
    fits: Callable[[int], bool | None], first: int, most: int, step: int | None = None
) -> int | None:
    """The largest batch size up to `most` that fits, to within the resolution; as `find_largest_fitting` finds it."""
    return find_largest_fitting(range(1, most + 1), fits, first=first, step=step, resolution=_RESOLUTION)


def compute_resolution(size: int) -> int:
    """The resolution of the search for sizes around this one."""
    return max(1, int(size * _RESOLUTION))


def set_batch_size(techniques: Techniques, size: int) -> Techniques:
    """The same with this size of the batch."""
    return set_technique(techniques, TechniqueSpec(name=Batch.name, params={"size": size}))


def set_technique(techniques: Techniques, added: TechniqueSpec) -> Techniques:
    """The same with this technique, in the place of one of its name."""
    if all(technique.name != added.name for technique in techniques):
        return (*techniques, added)
    return tuple(added if technique.name == added.name else technique for technique in techniques)


def find_largest_batch(
    techniques: Techniques,
    most: int,
    *,
    scheduled: Callable[[Techniques], ScheduledRun],
    first: int,
    predicted: int | None,
    progress: Callable[[Event], None],
) -> tuple[Techniques, BatchSearch]:
    """A combination of techniques with the largest batch that fits, and the search.

    If none fits, it is the last size tried, whose run says why.

    Args:
        techniques: those of the variant, one of which asks for the size.
        most: the largest size to try.
        scheduled: the run of a combination of techniques.
        first: the initial size without a prediction.
        predicted: the predicted largest size. The search begins there, and goes on in steps of its resolution.
        progress: receives every trial.
    """
    search = _SizeSearch(techniques, scheduled, partial(_launch_trial, progress=progress))
    step = None if predicted is None else compute_resolution(predicted)
    size = search_batch_sizes(search.try_size, predicted or first, most, step)
    trials = tuple(search.trials.results.values())
    chosen = set_batch_size(techniques, size or trials[-1].size)
    return chosen, BatchSearch(
        requested_variant=format_variant_label(techniques),
        selected_variant=format_variant_label(chosen) if size else None,
        limit_bytes=search.limit_bytes,
        margin=MARGIN,
        max_size=most,
        predicted_size=predicted,
        trials=trials,
    )


@dataclass
class _SizeSearch:
    """Trials of one variant. `limit_bytes` is a rank's memory limit, None until a GPU has reported it."""

    techniques: Techniques
    scheduled: Callable[[Techniques], ScheduledRun]
    launch: Launch
    available: Callable[[], float] = lambda: float(psutil.virtual_memory().available)
    limit_bytes: float | None = None

    def __post_init__(self) -> None:
        self.trials: Trials[tuple[int, ScheduledRun], BatchTrial] = Trials(self._run_trial, itemgetter(0))

    def try_size(self, size: int) -> bool | None:
        """True if a few steps of this size leave the margin free; None if they fail for another reason."""
        item = self.scheduled(set_batch_size(self.techniques, size))
        half = 0 if item.skip else self._choose_half(size, item.spec)
        if half and self.try_size(half) is None:
            return None
        return self.trials.try_candidate((size, item)).fits

    def _choose_half(self, size: int, spec: RunSpec) -> int:
        """Half of the only batch whose peak is known, if by that peak the size does not fit; else 0.

        Much of one peak may be the model; with another, of half the batch, what a sample takes is known.
        """
        known = self._list_known_peaks()
        if not _is_unlimited(spec) or len(known) != 1 or self._predict_peak(size) <= self._usable:
            return 0
        half = known[0][0] // 2
        return half if half < size else 0  # a smaller size takes more than its share of the peak: it does not fit

    def _run_trial(self, candidate: tuple[int, ScheduledRun]) -> BatchTrial:
        size, item = candidate
        if item.skip:
            return BatchTrial(size=size, fits=None, reason=item.skip)
        spec = self._limit_memory(shorten_run(item.spec))
        if _is_unlimited(spec) and (expected := self._predict_peak(size)) > self._usable:
            # Nothing stops a process that takes more: what would is not begun.
            return BatchTrial(size=size, fits=False, reason=f"not run: predicted peak {format_bytes(expected)}")
        return self._judge_trial(size, *self.launch(spec, len(self.trials.results)))

    def _limit_memory(self, spec: RunSpec) -> RunSpec:
        """The trial; where a limit is given it is stopped where the margin begins. A GPU's limit is its own."""
        if not is_cpu(spec.launch.device):
            return spec
        limit = spec.launch.memory_limit_bytes
        if limit is None:
            self.limit_bytes = self.limit_bytes or self.available() / spec.launch.world_size
            return spec
        self.limit_bytes = float(limit)
        limited = msgspec.structs.replace(spec.launch, memory_limit_bytes=int(self._usable))
        return msgspec.structs.replace(spec, launch=limited)

    @property
    def _usable(self) -> float:
        assert self.limit_bytes is not None
        return (1 - MARGIN) * self.limit_bytes

    def _judge_trial(self, size: int, run: RunResult, records: list[RankRecord]) -> BatchTrial:
        environment = records[0].environment if records else None
        on_device = environment is not None and not is_cpu(environment.device)
        if environment is not None and on_device and run.status == RunStatus.OK and self.limit_bytes is None:
            known = environment.device_memory_bytes
            self.limit_bytes = None if known is None else float(known)
        memory = [record.memory for record in records if record.memory is not None]
        peaks = [rank_peaks.reserved if on_device else rank_peaks.rss for rank_peaks in memory]
        measured = [peak.value for peak in peaks if isinstance(peak, Measurement)]
        outcome = judge_trial(run, () if self.limit_bytes is None else measured)
        fits, reason = outcome.fits, outcome.reason
        if outcome.peak_bytes is not None and self.limit_bytes is not None:
            fits = outcome.peak_bytes <= self._usable
            reason = "" if fits else f"leaves less than {format_percent(MARGIN, 0)} of {format_bytes(self.limit_bytes)}"
        return BatchTrial(size=size, fits=fits, peak_bytes=outcome.peak_bytes, seconds=run.seconds, reason=reason)

    def _list_known_peaks(self) -> list[tuple[int, float]]:
        """Sizes and peaks of the trials, the smallest first."""
        return sorted(
            (trial.size, trial.peak_bytes) for trial in self.trials.results.values() if trial.peak_bytes is not None
        )

    def _predict_peak(self, size: int) -> float:
        """Predict the peak of a batch size by the line through the two largest trials; in proportion to one."""
        known = self._list_known_peaks()
        if not known:
            return 0.0
        last, peak = known[-1]
        if len(known) == 1:
            return peak * size / last
        before, lower = known[-2]
        return peak + (size - last) * max(0.0, (peak - lower) / (last - before))


def _is_unlimited(spec: RunSpec) -> bool:
    """True if nothing ends a process that takes more memory than there is."""
    return is_cpu(spec.launch.device) and spec.launch.memory_limit_bytes is None


def _launch_trial(
    spec: RunSpec, number: int, *, progress: Callable[[Event], None]
) -> tuple[RunResult, list[RankRecord]]:
    run, records = run_trial(spec, number, progress, _read_record)
    return run, [record for record in records if record is not None]


def _read_record(rank: Path) -> RankRecord | None:
    path = rank / RECORD_FILE
    return read_json(path, RankRecord) if path.is_file() else None
