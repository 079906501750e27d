"""The work of a step: the basis of comparison where batches differ."""

from dataclasses import dataclass

from perfkit.analysis.suite.runs import VariantRuns


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
