"""Reads each variant of one side's suites: figures, status and environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.pipeline.suite_analysis import analyze_suite, inspect_suite
from perfkit.check.judge.check_figures import RunFigures, pool_rounds, read_figures
from perfkit.check.why.side import SideAnalysis, observe_variant
from perfkit.core.record.environment import Environment
from perfkit.store.suite_reader import read_suite


@dataclass(frozen=True)
class ObservedVariant:
    """A variant's observations. `seen` is from the first round, which explains changes; None for stored figures."""

    figures: RunFigures
    environment: Environment | None
    result: Variant | None = None
    seen: SideAnalysis | None = None


@dataclass(frozen=True)
class ObservedCase:
    """All variants of one workload on one side, by name."""

    workload: str
    variants: Mapping[str, ObservedVariant] = field(default_factory=dict)


def observe_case(folders: Sequence[Path]) -> ObservedCase:
    """Read a side's suites, one per round: figures of all rounds, everything else from the first."""
    examined = inspect_suite(read_suite(folders[0]), by_step=True)
    first = examined.analysis
    analyses = [first, *(analyze_suite(folder) for folder in folders[1:])]
    return ObservedCase(
        workload=first.workload,
        variants={
            variant.name: ObservedVariant(
                figures=pool_rounds([read_figures(result) for result in _select_variant(analyses, variant.name)]),
                environment=first.environment,
                result=variant,
                seen=observe_variant(variant, *examined.of[variant.name]),
            )
            for variant in first.variants
        },
    )


def _select_variant(analyses: Sequence[Analysis], name: str) -> list[Variant]:
    return [variant for analysis in analyses for variant in analysis.variants if variant.name == name]
