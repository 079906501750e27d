"""Finds the finding that leads a stage: the largest gain in the trace of the best variant so far."""

from collections.abc import Iterable

from perfkit.analysis.findings.rule import GAIN
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.pipeline.trace_findings import collect_view_findings
from perfkit.plan.advise.traced_step import TracedStep
from perfkit.tune.model.tune_result import SearchStage


def find_leading_finding(step: TracedStep) -> Finding | None:
    """The finding of a recorded step with the largest gain; None where nothing is to be gained."""
    return choose_leading_finding(finding for _, finding in collect_view_findings([step.view]))


def choose_leading_finding(found: Iterable[Finding]) -> Finding | None:
    """The one of several findings with the largest gain of time."""
    gains = [each for each in found if each.severity == GAIN and (each.expected_s or 0.0) > 0.0]
    return max(gains, key=lambda each: each.expected_s or 0.0, default=None)


def describe_stage(number: int, base: str, leading: Finding | None) -> SearchStage:
    """A stage of a search, with the finding that leads it."""
    if leading is None:
        return SearchStage(number=number, base=base)
    return SearchStage(number=number, base=base, finding=leading.id, title=leading.title, techniques=leading.techniques)


def get_technique_name(variant: str) -> str:
    """The name in a technique with parameters, such as `optim:use=fused`."""
    return variant.partition(":")[0]
