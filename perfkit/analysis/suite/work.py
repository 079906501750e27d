"""How much a step works on: what a variant and its baseline are compared by where their batches differ."""

from dataclasses import dataclass

from perfkit.analysis.suite.runs import VariantRuns


@dataclass(frozen=True)
class WorkRatio:
    """How many times as many units a step of the variant trains on as one of the baseline.

    `per` is the unit that figures are compared by, `token` or `sample`; "" where steps train on the same and are
    compared as a whole.
    """

    value: float = 1.0
    per: str = ""


def compute_work_ratio(variant: VariantRuns, baseline: VariantRuns) -> WorkRatio | None:
    """The ratio by the units of a step; None where the batches differ and what they hold is not known."""
    if variant.main is None or baseline.main is None:
        return WorkRatio()
    ours, theirs = variant.main.spec, baseline.main.spec
    if (ours.workload, ours.accumulation) == (theirs.workload, theirs.accumulation):
        return WorkRatio()
    units, reference = variant.units_per_step, baseline.units_per_step
    if isinstance(units, str) or isinstance(reference, str) or variant.unit != baseline.unit:
        return None
    return WorkRatio(units / reference, variant.unit.removesuffix("s") or "unit")
