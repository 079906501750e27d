"""The largest batch that fits in memory: doubled until one does not, then bisected, each in processes of its own."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import psutil

from perfkit.files import read_json
from perfkit.measure.events import Event, PassStarted, RunFinished, RunStarted
from perfkit.measure.launch.process import launch
from perfkit.measure.schedule import BenchRequest
from perfkit.record import Measurement, RankRecord, Run, Status
from perfkit.spec import RunSpec, Schedule, TechniqueSpec, variant_label
from perfkit.store.layout import RECORD_FILE, BatchSearch, BatchTrial, rank_folder
from perfkit.techniques.batch import Batch
from perfkit.techniques.compose import compose
from perfkit.units import nbytes

# Steps of a real training need more than these few at times: fragments, longer evaluations, other ranks.
MARGIN = 0.1

# Sizes closer together than this share are not told apart.
_RESOLUTION = 1 / 16

_SHORT = Schedule(warmup=1, max_warmup=1, timed=1)

Techniques = tuple[TechniqueSpec, ...]
Launch = Callable[[RunSpec], tuple[Run, list[RankRecord]]]


def largest_fitting(fits: Callable[[int], bool], first: int, most: int) -> int:
    """The largest size up to `most` that fits, found from `first` on; 0 where none does."""
    low, high, size = 0, most + 1, min(first, most)
    while high > most and low < most:
        if fits(size):
            low, size = size, min(2 * size, most)
        else:
            high = size
    while high <= most and high - low > max(1, low * _RESOLUTION):
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def searches(techniques: Techniques) -> Batch | None:
    """The technique that asks for a search; None where none does."""
    named = (technique for technique in compose(techniques) if isinstance(technique, Batch))
    return next((technique for technique in named if technique.size is None), None)


def sized(techniques: Techniques, size: int) -> Techniques:
    """The same with this size of the batch."""
    return tuple(
        TechniqueSpec(name=Batch.name, params={"size": size}) if technique.name == Batch.name else technique
        for technique in techniques
    )


def with_largest_batches(
    request: BenchRequest,
    spec_of: Callable[[Techniques], RunSpec | None],
    first: int,
    progress: Callable[[Event], None],
) -> tuple[BenchRequest, tuple[BatchSearch, ...]]:
    """The request with a size wherever one is to be searched for, and the searches.

    Args:
        request: what was asked for.
        spec_of: the run of a combination of techniques; None where it cannot run here.
        first: the size to begin with.
        progress: is told of every trial.
    """
    variants, made = [], []
    for techniques in request.variants:
        asked = searches(techniques)
        if asked is None or spec_of(sized(techniques, 1)) is None:
            variants.append(techniques if asked is None else sized(techniques, 1))  # whose run says why it is skipped
            continue
        search = _Search(techniques, spec_of, _launcher(progress), progress)
        size = max(1, largest_fitting(search.fits, first, asked.most))
        variants.append(sized(techniques, size))
        made.append(
            BatchSearch(
                asked=variant_label(techniques),
                found=variant_label(sized(techniques, size)),
                limit_bytes=search.limit_bytes,
                margin=MARGIN,
                most=asked.most,
                trials=tuple(search.trials),
            )
        )
    return replace(request, variants=tuple(variants)), tuple(made)


@dataclass
class _Search:
    """Trials of one variant. `limit_bytes` is what a rank may take, None until a GPU has told."""

    techniques: Techniques
    spec_of: Callable[[Techniques], RunSpec | None]
    launch: Launch
    progress: Callable[[Event], None]
    available: Callable[[], float] = lambda: float(psutil.virtual_memory().available)
    limit_bytes: float | None = None
    trials: list[BatchTrial] = field(default_factory=list)

    def fits(self, size: int) -> bool:
        """Whether a few steps of this size leave the margin free."""
        spec = self.spec_of(sized(self.techniques, size))
        assert spec is not None, "only a variant that runs here is searched for"
        launch_spec = spec.launch
        if launch_spec.memory_limit_bytes is not None:
            self.limit_bytes = float(launch_spec.memory_limit_bytes)
        elif launch_spec.device == "cpu":  # nothing stops a process that takes more: what would is not begun
            self.limit_bytes = self.limit_bytes or self.available() / launch_spec.world_size
            expected = self._expected(size)
            if expected > self._usable:
                return self._told(BatchTrial(size=size, fits=False, reason=f"not run: {nbytes(expected)} expected"))
        label = f"{variant_label(sized(self.techniques, size))} (trial)"
        self.progress(RunStarted(len(self.trials), len(self.trials) + 1, label, 0))
        run, records = self.launch(msgspec.structs.replace(spec, passes=(), schedule=_SHORT))
        self.progress(
            RunFinished(len(self.trials), len(self.trials) + 1, label, 0, run.status, run.reason, run.seconds)
        )
        return self._told(self._judged(size, run, records))

    @property
    def _usable(self) -> float:
        assert self.limit_bytes is not None
        return (1 - MARGIN) * self.limit_bytes

    def _judged(self, size: int, run: Run, records: list[RankRecord]) -> BatchTrial:
        seconds = run.seconds
        if run.status != Status.OK:
            return BatchTrial(size=size, fits=False, seconds=seconds, reason=f"{run.status}: {run.reason}")
        memory = [record.memory for record in records if record.memory is not None]
        on_device = records[0].environment is not None and records[0].environment.device != "cpu"
        if on_device and records[0].environment is not None and self.limit_bytes is None:
            known = records[0].environment.device_memory_bytes
            self.limit_bytes = None if known is None else float(known)
        peaks = [each.reserved if on_device else each.rss for each in memory]
        found = [peak.value for peak in peaks if isinstance(peak, Measurement)]
        if not found or self.limit_bytes is None:
            return BatchTrial(size=size, fits=False, seconds=seconds, reason="its memory is not known")
        peak = max(found)
        reason = "" if peak <= self._usable else f"leaves less than {MARGIN:.0%} of {nbytes(self.limit_bytes)}"
        return BatchTrial(size=size, fits=not reason, peak_bytes=peak, seconds=seconds, reason=reason)

    def _expected(self, size: int) -> float:
        """What a batch of this size will take by the line through the two largest trials; in proportion to one."""
        known = sorted((trial.size, trial.peak_bytes) for trial in self.trials if trial.peak_bytes is not None)
        if not known:
            return 0.0
        last, peak = known[-1]
        if len(known) == 1:
            return peak * max(1.0, size / last)
        before, lower = known[-2]
        return peak + (size - last) * max(0.0, (peak - lower) / (last - before))

    def _told(self, trial: BatchTrial) -> bool:
        self.trials.append(trial)
        return trial.fits


def _launcher(progress: Callable[[Event], None]) -> Launch:
    def launched(spec: RunSpec) -> tuple[Run, list[RankRecord]]:
        with tempfile.TemporaryDirectory(prefix="perfkit-trial-") as parent:
            folder = Path(parent) / "run"
            run = launch(spec, folder, lambda name: progress(PassStarted(name)))
            paths = (rank_folder(folder, rank) / RECORD_FILE for rank in range(spec.launch.world_size))
            return run, [read_json(path, RankRecord) for path in paths if path.is_file()]

    return launched
