"""Verdicts on a variant against its baseline: is it faster, does it train the same, did its techniques act."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfkit.analysis.model.estimate import Difference, MedianEstimate
from perfkit.analysis.model.suite import ClaimResult, CompileSummary, KeptCopies, Parity
from perfkit.analysis.suite.compare import compare_to_baseline, compute_log_ratios
from perfkit.analysis.suite.compile_cost import summarize_compile
from perfkit.analysis.suite.engagement import check_claims
from perfkit.analysis.suite.kept_copies import find_kept_copies
from perfkit.analysis.suite.parity import NOT_COMPARABLE, check_parity, compare_gradients, find_non_finite_loss
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.suite.variant_figures import VariantFigures
from perfkit.core.record.quantity import get_value
from perfkit.core.record.rank_record import RankRecord


@dataclass(frozen=True)
class WorkRatio:
    """The units of a variant's step over those of its baseline's.

    `per` is the unit that figures are compared by, `token` or `sample`; "" where steps train on the same and are
    compared as a whole.
    """

    value: float = 1.0
    per: str = ""


def compute_work_ratio(variant: VariantRuns, baseline: VariantRuns) -> WorkRatio | None:
    """The ratio of units per step; None where batches differ and their contents are unknown."""
    if variant.main is None or baseline.main is None:
        return WorkRatio()
    ours, theirs = variant.main.spec, baseline.main.spec
    if (ours.workload, ours.accumulation) == (theirs.workload, theirs.accumulation):
        return WorkRatio()
    units, reference = variant.units_per_step, baseline.units_per_step
    if isinstance(units, str) or isinstance(reference, str) or variant.unit != baseline.unit:
        return None
    return WorkRatio(units / reference, variant.unit.removesuffix("s") or "unit")


@dataclass(frozen=True)
class VariantData:
    """A variant before its verdicts: its runs, the results of its instrumented passes, its figures."""

    runs: VariantRuns
    passes: PassResults
    figures: VariantFigures


@dataclass(frozen=True)
class Verdicts:
    """Verdicts; None without a baseline, or without compilation. `compared_per` is the unit for comparing time and
    memory, "" where whole steps are compared."""

    compared_per: str
    difference: Difference | None
    cpu_difference: Difference | None
    memory_ratio: float | None
    parity: Parity
    claims: tuple[ClaimResult, ...]
    copies: tuple[KeptCopies, ...]
    compile: CompileSummary | None


def compute_verdicts(
    subject: VariantData, baseline: VariantData | None, *, is_baseline: bool, precision: float | None
) -> Verdicts:
    """Compute the verdicts on a variant against `baseline`, None for none.

    `precision` is the requested width of intervals, None for a fixed number of runs.
    """
    records = subject.runs.records
    reference = () if baseline is None else baseline.runs.records
    difference = None
    cpu_difference = None
    emulated = get_emulation_reason(records)
    work = None if baseline is None or emulated else compute_work_ratio(subject.runs, baseline.runs)
    if baseline is not None and work is not None:
        difference, cpu_difference = (
            compare_to_baseline(
                baseline.runs.name,
                [ratio - math.log(work.value) for ratio in compute_log_ratios(baseline.runs, subject.runs, cpu=cpu)],
                precision=precision,
            )
            for cpu in (False, True)
        )
    return Verdicts(
        compared_per="" if work is None else work.per,
        difference=difference,
        cpu_difference=cpu_difference,
        memory_ratio=None if baseline is None or work is None else _compute_memory_ratio(subject, baseline, work),
        parity=_find_worst_parity(subject.runs, baseline, is_baseline),
        claims=check_claims(
            [] if not records else records[0].claims,
            subject.passes.facts,
            None if baseline is None or not baseline.passes.facts else baseline.passes.facts[0],
            {} if not records else records[0].fact_notes,
            {claim.technique for record in reference for claim in record.claims},
        ),
        copies=find_kept_copies(records, reference) if work is not None and not work.per else (),
        compile=_summarize_variant_compile(subject, baseline, difference),
    )


def get_emulation_reason(records: Sequence[RankRecord]) -> str:
    """The reason that the device only emulates a technique of this variant; empty where it does not."""
    notes = (record.fact_notes.get(EMULATED, "") for record in records if record.facts.get(EMULATED))
    return next(notes, "")


def _compute_memory_ratio(subject: VariantData, baseline: VariantData, work: WorkRatio) -> float | None:
    ours, theirs = get_value(subject.figures.allocated), get_value(baseline.figures.allocated)
    return None if ours is None or not theirs else ours / theirs / work.value


EMULATED = "emulated"
# The fact of a claim of `compile`: inductor marks every call of a compiled graph.
_GRAPH_CALLS = "op_calls:## Call CompiledFxGraph*"
_PARITY_ORDER = ("differs", "unknown", NOT_COMPARABLE, "within tolerance", "equal")


def _find_worst_parity(runs: VariantRuns, baseline: VariantData | None, is_baseline: bool) -> Parity:
    """The parity of the rank that is worst off."""
    if is_baseline and baseline is None:
        if broken := [parity for record in runs.records if (parity := find_non_finite_loss(record))]:
            return broken[0]
        return Parity(verdict="equal", max_relative=0.0, tolerance=None, basis="this is the baseline", steps=0)
    if runs.main is None:
        return Parity(verdict="unknown", max_relative=None, tolerance=None, basis="no run left a record", steps=0)
    reference = None if baseline is None else baseline.runs.main
    theirs = {} if reference is None else {rank.record.rank: rank.record for rank in reference.ranks}
    spec = None if reference is None else reference.spec
    gradients = compare_gradients(runs.records, [*theirs.values()])
    verdicts = [
        check_parity(record, runs.main.spec, theirs.get(record.rank), spec, gradients) for record in runs.records
    ]
    return min(verdicts, key=_rank_parity)


def _rank_parity(parity: Parity) -> tuple[int, float, float]:
    """The worst verdict first, and of equal ones the largest differences of losses, then of gradients."""
    other = abs(math.log(parity.gradient_ratio)) if parity.gradient_ratio else 0.0
    return _PARITY_ORDER.index(parity.verdict), -(parity.max_relative or 0.0), -other


def _summarize_variant_compile(
    subject: VariantData, baseline: VariantData | None, difference: Difference | None
) -> CompileSummary | None:
    """Summarize compilation; `difference` None: steps are not compared, and their saving is unknown."""
    records, step_time = subject.runs.records, subject.figures.step_time
    if not records:
        return None
    reference = () if baseline is None else baseline.runs.records
    calls = subject.passes.facts[0].get(_GRAPH_CALLS) if subject.passes.facts else None
    return summarize_compile(
        records[0].facts,
        records[0].fact_notes,
        records[0].setup,
        reference[0].setup if reference else None,
        None
        if difference is None or not isinstance(step_time, MedianEstimate)
        else difference.compute_saved_s(step_time.value),
        decided=difference is None or difference.verdict != "inconclusive",
        recompilations=records[0].recompilations,
        graph_calls=calls if isinstance(calls, float) else None,
        later=[run.ranks[0].record.facts for run in subject.runs.runs if run.ranks and run is not subject.runs.main],
    )
