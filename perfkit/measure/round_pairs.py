"""Reads the pairs of runs that a comparison is made of."""

import math
from statistics import median

from perfkit.core.record.step_samples import compute_log_ratio, select_common_clock
from perfkit.core.spec import RunSpec
from perfkit.measure.suite_writer import SuiteWriter


def list_shared_repeats(making: SuiteWriter, name: str, reference: str, *, alone: bool) -> list[int]:
    """The repeats in which both variants ran. Without `alone`, first runs do not count: where rounds step by turns,
    they had the machine to themselves, and fewer steps."""
    pair = {name, reference}
    firsts = set() if alone else {making.first_repeat(variant) for variant in pair}
    of = {variant: {run.repeat for run in making.suite.runs if run.variant == variant} for variant in pair}
    return sorted(of[name] & of[reference] - firsts)


def compute_pair_log(
    making: SuiteWriter, spec: RunSpec, reference: RunSpec, repeat: int, *, together: bool
) -> float | None:
    """The log ratio of a repeat's steps, of those stepped by turns if `together`; the log of its own step time for a
    variant that is its own reference. None without steps."""
    ours = making.samples(spec, repeat)
    if spec.variant == reference.variant:
        steps, _ = select_common_clock(ours, ours)
        return math.log(median(steps)) if steps else None
    return compute_log_ratio(making.samples(reference, repeat), ours, by_turns=together)


def compute_first_step_s(making: SuiteWriter, spec: RunSpec) -> float:
    """The median step of a variant's first run in seconds; 0 where it recorded no step."""
    samples = making.samples(spec, making.first_repeat(spec.variant) or 0)
    steps, _ = select_common_clock(samples, samples)
    return median(steps) if steps else 0.0
