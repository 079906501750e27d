"""Measures the variants of a search: into one suite that grows by stages, and the best one again into a new suite."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.record.quantity import get_value
from perfkit.core.spec import BASELINE, format_variant_label
from perfkit.core.texts.redact import redact_text
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.measure.auto_params import Find
from perfkit.measure.bench import run_bench
from perfkit.measure.run_events import BudgetExceeded, Event
from perfkit.measure.schedule import shorten_first_run
from perfkit.store.layout import SUITE_FILE
from perfkit.store.lock import lock_folder
from perfkit.store.request import BenchRequest
from perfkit.store.suite_reader import read_suite
from perfkit.suites.resume import measure_remaining, open_to_extend
from perfkit.tune.model.tune_request import Techniques
from perfkit.tune.model.tune_result import Proof
from perfkit.tune.search.paired_gains import GainInterval, compute_gain, compute_paired_gains
from perfkit.tune.search.trial_cost import TrialCost, compute_trial_cost

# The proof's interval is to be at most so wide: half of a bench's.
PROOF_PRECISION = 0.025


class MeasuredStage(NamedTuple):
    """What a stage measured: the suite's analysis, the gains over the stage's base that were measured in the same
    rounds, by variant, and what a trial takes."""

    analysis: Analysis
    gains: Mapping[str, GainInterval]
    cost: TrialCost


class TrialBench:
    """The suite in `folder` to which a search adds its variants. `command` is stored with each session.

    `compile_caches` is a folder for torch.compile's caches, so that a variant is compiled once in a search; None leaves
    them to each session.
    """

    def __init__(
        self,
        folder: Path,
        request: BenchRequest,
        *,
        command: str,
        ceilings: DeviceCeilings | None,
        progress: Callable[[Event], None],
        find: Find,
        compile_caches: Path | None = None,
    ) -> None:
        self.folder = folder
        self._compile_caches = compile_caches
        self._request, self._command, self._ceilings = request, redact_text(command), ceilings
        self._find = find

        def report(event: Event) -> None:
            if not isinstance(event, BudgetExceeded):  # of a stage, which its user has not asked for
                progress(event)

        self._progress = report

    def measure_baseline(self) -> MeasuredStage:
        """Run the baseline once with all instruments, without rounds."""
        short = shorten_first_run(self._request.schedule)
        analysis = self._measure(replace(self._request, variants=((),), rounds=0, schedule=short))
        return MeasuredStage(analysis, {}, compute_trial_cost(read_suite(self.folder)))

    def measure_variants(
        self, variants: Sequence[Techniques], base: Techniques, budget_s: float, *, race: bool
    ) -> MeasuredStage:
        """Measure variants and the `base` that they extend against the baseline in at most about `budget_s`.

        With `race`, only until it is decided which are faster than `base`.
        """
        measured = (*variants, base) if base else tuple(variants)
        analysis = self._measure(
            replace(
                self._request,
                variants=measured,
                rounds=None,
                budget_s=budget_s,
                race=race,
                race_base=base if race else (),
            )
        )
        stored = read_suite(self.folder)
        return MeasuredStage(analysis, compute_paired_gains(stored, base), compute_trial_cost(stored))

    def prove_variant(
        self, folder: Path, techniques: Techniques, single: Techniques | None, budget_s: float
    ) -> Proof | None:
        """Measure one variant and, where it is another, the best technique alone against the baseline in new processes,
        in the new suite `folder`; None where it was not compared.

        Once the gain over the baseline is known, what is left of the time goes into the margin over the best technique
        alone.
        """
        has_margin = single not in (None, techniques)
        variants = (techniques, single) if has_margin else (techniques,)
        request = replace(
            self._request,
            variants=variants,
            rounds=None,
            budget_s=budget_s,
            precision=PROOF_PRECISION,
            race_base=single if has_margin else (),
        )
        self._start_suite(folder, request)
        gains = {} if single is None else compute_paired_gains(read_suite(folder), single)
        return _make_proof(analyze_suite(folder), gains, techniques, single)

    def _measure(self, request: BenchRequest) -> Analysis:
        if not (self.folder / SUITE_FILE).is_file():
            self._start_suite(self.folder, request)
        else:
            with lock_folder(self.folder):
                measure_remaining(
                    open_to_extend(self.folder, request),
                    command=self._command,
                    ceilings=self._ceilings,
                    progress=self._progress,
                    find=self._find,
                    compile_caches=self._compile_caches,
                )
        return analyze_suite(self.folder)

    def _start_suite(self, folder: Path, request: BenchRequest) -> None:
        run_bench(
            request,
            folder,
            command=self._command,
            ceilings=self._ceilings,
            progress=self._progress,
            find=self._find,
        )


def map_by_label(analysis: Analysis) -> dict[str, Variant]:
    """The variants of a suite of one number of ranks by their techniques; the baseline's key is `baseline`."""
    return {"+".join(variant.techniques) or BASELINE: variant for variant in analysis.variants}


def _make_proof(
    analysis: Analysis, gains: Mapping[str, GainInterval], techniques: Techniques, single: Techniques | None
) -> Proof | None:
    variants = map_by_label(analysis)
    baseline, variant = variants.get(BASELINE), variants.get(format_variant_label(techniques))
    alone = None if single is None else variants.get(format_variant_label(single))
    if baseline is None or variant is None or variant.difference is None:
        return None
    difference = variant.difference
    over = None if alone is None or alone is variant else gains.get(variant.name) or compute_gain(variant, alone)
    return Proof(
        ratio=difference.ratio,
        low=difference.low,
        high=difference.high,
        verdict=difference.verdict,
        pairs=difference.pairs,
        step_s=get_step_s(variant),
        baseline_step_s=get_step_s(baseline),
        peak_bytes=get_value(variant.peak_allocated),
        baseline_peak_bytes=get_value(baseline.peak_allocated),
        parity=variant.parity.verdict,
        largest_difference=variant.parity.max_relative,
        tolerance=variant.parity.tolerance,
        active=variant.active,
        single_ratio=None if over is None else over.ratio,
        single_low=None if over is None else over.low,
        single_high=None if over is None else over.high,
    )


def get_step_s(variant: Variant) -> float | None:
    """The median step time in seconds; None where it was not measured."""
    return variant.step_time.value if isinstance(variant.step_time, MedianEstimate) else None
