"""The runs of one variant, and the figures that come straight from their records.

Over ranks: a step takes as long as its slowest rank, FLOPs and energy add up, memory is that of the fullest rank.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from perfkit.core.note import Note, make_note
from perfkit.core.record.quantity import Measurement, Quantity, Unknown
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RankWait, RunResult, find_traceback
from perfkit.core.record.step_samples import StepSamples, merge_slowest_ranks
from perfkit.core.spec import BASELINE
from perfkit.store.suite_reader import StoredRun


@dataclass(frozen=True)
class VariantRuns:
    """A variant's runs in the order of repeats; none where the suite ended before the first."""

    name: str
    runs: tuple[StoredRun, ...]

    @property
    def main(self) -> StoredRun | None:
        """The run with the instrumented passes: facts, claims, trace and memory come from it."""
        with_records = [run for run in self.runs if run.ranks]
        instrumented = [run for run in with_records if run.spec.passes]
        return next(iter(instrumented or with_records), None)

    @property
    def records(self) -> tuple[RankRecord, ...]:
        """The records of the main run, in order of rank."""
        return () if self.main is None else tuple(rank.record for rank in self.main.ranks)

    @property
    def attached(self) -> bool:
        """True if this is an attached loop."""
        return any(record.attached_loop is not None for record in self.records)

    @property
    def world_size(self) -> int:
        if self.runs:
            return self.runs[0].spec.launch.world_size
        _, at, ranks = self.name.rpartition("@")
        return int(ranks) if at and ranks.isdigit() else 1

    @property
    def techniques(self) -> tuple[str, ...]:
        if self.runs:
            return tuple(technique.label for technique in self.runs[0].spec.techniques)
        name = self.name.partition("@")[0]
        return () if name == BASELINE else tuple(name.split("+"))

    @property
    def outcome(self) -> tuple[RunStatus, str, str]:
        """The outcome of the variant, with the reason and its id.

        A variant with a failed repeat has failed, although the other repeats' measurements are kept. An interrupt after
        a complete repeat does not affect that repeat.
        """
        if not self.runs:
            return RunStatus.INTERRUPTED, "the suite ended before this variant ran", ""
        bad = [run for run in self.runs if run.run.status != RunStatus.OK]
        if len(bad) < len(self.runs):
            bad = [run for run in bad if run.run.status != RunStatus.INTERRUPTED]
        if not bad:
            return RunStatus.OK, "", ""
        first = bad[0]
        ends: list[RunResult | RankRecord] = [first.run, *(rank.record for rank in first.ranks)]
        end_run = next((end for end in ends if end.reason), first.run)
        where = f"{self._describe_run(first)}: " if len(bad) < len(self.runs) else ""
        return first.run.status, where + end_run.reason, end_run.reason_id

    def _describe_run(self, run: StoredRun) -> str:
        return f"process {self.runs.index(run) + 1} of {len(self.runs)}"

    @property
    def traceback(self) -> str:
        """The traceback of the rank that explains the first failed run, else the end of the run's output."""
        bad = self._first_failed
        if bad is None:
            return ""
        return find_traceback(bad.run, (rank.record for rank in bad.ranks)) or bad.run.output_tail

    @property
    def waits(self) -> tuple[RankWait, ...]:
        """The locations of the ranks of the first failed run."""
        return () if self._first_failed is None else self._first_failed.run.rank_waits

    @property
    def _first_failed(self) -> StoredRun | None:
        return next((run for run in self.runs if run.run.status not in (RunStatus.OK, RunStatus.SKIPPED)), None)

    @property
    def unit(self) -> str:
        """The training unit: `tokens`, `samples`; "" where unknown."""
        known = (record.workload for record in self.records)
        return next((workload.unit for workload in known if workload is not None and workload.unit), "")

    @property
    def units_source(self) -> str:
        """The source of the units of a loop's step; "" for perfkit's own runs."""
        return next(
            (record.attached_loop.units_source for record in self.records if record.attached_loop is not None), ""
        )

    @property
    def units_per_step(self) -> int | str:
        """Units of all ranks and microbatches of a step, or why they are not known."""
        workloads = [record.workload for record in self.records]
        if self.main is None or None in workloads or len(workloads) != self.world_size:
            return "a rank did not record its batch size"
        per_batch = sum(workload.units_per_batch for workload in workloads if workload is not None)
        if not per_batch:
            source = self.units_source or "unknown: neither given nor detected"
            return f"units per step: {source}"
        return per_batch * self.main.spec.accumulation

    @property
    def timed(self) -> tuple[StoredRun, ...]:
        """The runs for step times: the interleaved ones where there are any.

        The first run had the machine to itself, and may have fewer steps.
        """
        return tuple(run for run in self.runs if run.run.interleaved_variants) or self.runs

    def list_median_steps(self, series: Callable[[StepSamples], tuple[float, ...]]) -> list[float]:
        """The median step of each timed run; only of runs in which every rank has samples."""
        return [median(steps) for run in self.timed if (steps := series(merge_rank_steps(run)))]

    def get_slowest_samples(self, pick: Callable[[RankRecord], StepSamples]) -> tuple[tuple[float, ...], ...]:
        """Per run, the step times of the rank whose median is the largest."""
        per_run = []
        for run in self.timed:
            ranks = [get_step_times(pick(rank.record)) for rank in run.ranks]
            if any(ranks):
                per_run.append(max((series for series in ranks if series), key=median))
        return tuple(per_run)

    @property
    def warnings(self) -> tuple[Note, ...]:
        """The distinct warnings of the ranks, missing ranks, and unsteady steps."""
        warnings: dict[Note, None] = {}
        timed = {run.repeat for run in self.timed}
        for run in self.runs:
            for rank in run.ranks:
                warnings.update(dict.fromkeys(rank.record.warnings))
                if rank.record.flops is not None and rank.record.flops.uncounted:
                    calls = ", ".join(f"{count} x {name}" for name, count in rank.record.flops.uncounted.items())
                    text = f"no FLOPs counted for ops without a formula: {calls}"
                    warnings[make_note("run.uncounted_flops", text)] = None
                if run.repeat in timed and rank.record.samples.wall_s and not rank.record.is_steady:
                    text = "step times were not yet steady when timing began; add warm-up steps"
                    warnings[make_note("run.unsteady", text)] = None
            if run.ranks and not run.complete:
                have = {rank.record.rank for rank in run.ranks}
                lost = [str(rank) for rank in range(run.spec.launch.world_size) if rank not in have]
                text = f"{self._describe_run(run)}: no record from rank {', '.join(lost)}"
                warnings[make_note("run.missing_ranks", text, missing=len(lost))] = None
        return tuple(warnings)


def merge_rank_steps(run: StoredRun) -> StepSamples:
    """Merge the steps of a run's ranks; none where a rank has none, or a different number."""
    ranks = [rank.record.samples for rank in run.ranks]
    whole = (
        run.complete
        and len({(len(rank_steps.wall_s), len(rank_steps.cpu_s), len(rank_steps.device_s)) for rank_steps in ranks})
        == 1
    )
    return merge_slowest_ranks(ranks) if whole else StepSamples()


def get_step_times(samples: StepSamples) -> tuple[float, ...]:
    """Step times: between device events on a device, else by the wall clock."""
    return samples.device_s or samples.wall_s


def sum_over_ranks(quantities: Iterable[Quantity], missing: str) -> Quantity:
    """The sum over ranks; unknown if one rank's is."""
    return _combine_quantities(quantities, missing, sum, "sum")


def get_largest_over_ranks(quantities: Iterable[Quantity], missing: str) -> Quantity:
    """The largest over ranks; unknown if one rank's is."""
    return _combine_quantities(quantities, missing, max, "largest")


def _combine_quantities(
    quantities: Iterable[Quantity], missing: str, combine: Callable[[list[float]], float], word: str
) -> Quantity:
    known: list[Measurement] = []
    for quantity in quantities:
        if isinstance(quantity, Unknown):
            return quantity
        known.append(quantity)
    if not known:
        return Unknown(reason=missing)
    first = known[0]
    source = first.source if len(known) == 1 else f"{first.source}; {word} of {len(known)} ranks"
    value = combine([measurement.value for measurement in known])
    bound = next((measurement.bound for measurement in known if measurement.bound), "")
    return Measurement(value=value, unit=first.unit, how=first.how, source=source, bound=bound)


def find_baseline_names(variants: Iterable[VariantRuns], baselines: Mapping[str, str]) -> set[str]:
    """The variants that others are compared with, or that change nothing and are compared with no other."""
    unchanged = {variant.name for variant in variants if not variant.techniques}
    return {name for name in unchanged if baselines.get(name, name) == name} | set(baselines.values())
