"""Computes the gain of a variant over the one that it extends, with its interval."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import NamedTuple

from perfkit.analysis.model.suite import Variant
from perfkit.analysis.suite.compare import compute_log_ratios
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.core.sampling import compute_log_interval
from perfkit.store.suite_reader import StoredSuite
from perfkit.tune.model.tune_request import Techniques


class GainInterval(NamedTuple):
    """A ratio of step times with its 95 % interval; the ends are None where too few processes were measured."""

    ratio: float
    low: float | None
    high: float | None


NO_GAINS: Mapping[str, GainInterval] = MappingProxyType({})


def compute_paired_gains(stored: StoredSuite, base: Techniques) -> dict[str, GainInterval]:
    """The step times of a suite's variants over those of `base` in the same rounds, by name.

    Without those that were in no round with it, or whose batches are of another size.
    """
    names = dict.fromkeys(run.variant for run in stored.runs)
    runs = {name: VariantRuns(name, tuple(run for run in stored.runs if run.variant == name)) for name in names}
    reference = next((each for each in runs.values() if each.runs[0].spec.techniques == base), None)
    if reference is None:
        return {}
    workload = reference.runs[0].spec.workload
    others = (each for each in runs.values() if each is not reference and each.runs[0].spec.workload == workload)
    logs = {each.name: compute_log_ratios(reference, each) for each in others}
    return {name: _make_interval(ratios) for name, ratios in logs.items() if ratios}


def _make_interval(logs: Sequence[float]) -> GainInterval:
    interval = compute_log_interval(logs, until_narrow=True)
    low, high = (None, None) if interval is None else (math.exp(interval[0]), math.exp(interval[1]))
    return GainInterval(math.exp(fmean(logs)), low, high)


def compute_gain(ours: Variant, base: Variant) -> GainInterval | None:
    """The step time of a variant over that of the variant it extends, both measured against the baseline.

    The two ratios are measured in different rounds: the half-widths of their logs add in quadrature. None where it was
    not compared.
    """
    if ours.difference is None:
        return None
    if base.is_baseline:
        return GainInterval(ours.difference.ratio, ours.difference.low, ours.difference.high)
    if base.difference is None:
        return None
    mine, theirs = ours.difference, base.difference
    center = math.log(mine.ratio / theirs.ratio)
    if mine.low is None or mine.high is None or theirs.low is None or theirs.high is None:
        return GainInterval(math.exp(center), None, None)
    below = math.hypot(math.log(mine.ratio / mine.low), math.log(theirs.high / theirs.ratio))
    above = math.hypot(math.log(mine.high / mine.ratio), math.log(theirs.ratio / theirs.low))
    return GainInterval(math.exp(center), math.exp(center - below), math.exp(center + above))
