"""A suite as rules read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfkit.analysis.memory.findings.remedies import is_technique_on
from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.scaling import SuiteScaling
from perfkit.analysis.model.suite import MeasuredSession, Variant
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.suite.passes import PassResults
from perfkit.core.record.environment import Environment
from perfkit.core.record.rank_record import RunStatus
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.store.layout import SuiteSampling


@dataclass(frozen=True)
class SuiteView:
    """The variants of a suite in report order, with their environment, ceilings, instrumented passes by name, timing,
    sessions and numbers of ranks."""

    variants: tuple[Variant, ...]
    environment: Environment | None
    ceilings: DeviceCeilings | None
    passes: Mapping[str, PassResults] = field(default_factory=dict)
    sampling: SuiteSampling | None = None
    sessions: tuple[MeasuredSession, ...] = ()
    scaling: SuiteScaling | None = None

    @property
    def loops(self) -> tuple[Variant, ...]:
        """Variants that are attached loops, however they ended."""
        return tuple(variant for variant in self.variants if variant.loop is not None)

    @property
    def measured(self) -> tuple[Variant, ...]:
        """Variants that ended well and are not a baseline."""
        return tuple(variant for variant in self.variants if variant.status == RunStatus.OK and not variant.is_baseline)

    @property
    def baselines(self) -> tuple[Variant, ...]:
        """Baselines that ended well."""
        return tuple(variant for variant in self.variants if variant.status == RunStatus.OK and variant.is_baseline)

    @property
    def advised(self) -> tuple[Variant, ...]:
        """The baseline with the fewest ranks, whose findings represent the others."""
        return tuple(sorted(self.baselines, key=lambda variant: variant.world_size)[:1])

    @property
    def looked_into(self) -> tuple[Variant, ...]:
        """Variants whose traces are judged. A later capture of a loop is reported by its difference."""
        return tuple(variant for variant in self.variants if variant.loop is None or self.get_baseline(variant) is None)

    def get_traces(self, variant: Variant) -> tuple[RankTrace, ...]:
        """All traces of a variant."""
        return self.passes.get(variant.name, PassResults()).traces

    def get_baseline(self, variant: Variant) -> Variant | None:
        """The baseline of a variant."""
        if variant.difference is None:
            return None
        return next((other for other in self.variants if other.name == variant.difference.baseline), None)

    def describe_outcome(self, technique: str, owner: str) -> str:
        """The outcome of a technique that `owner` could gain by, or a hint to try it; empty where `owner` has it on,
        or is an attached loop."""
        variant = next((candidate for candidate in self.variants if candidate.name == owner), None)
        if not technique or variant is None or variant.loop is not None or _has_technique(variant, technique):
            return ""
        tried = [
            candidate
            for candidate in self.variants
            if not candidate.is_baseline and _has_technique(candidate, technique)
        ]
        first = min(tried, key=lambda candidate: len(candidate.techniques), default=None)  # alone before in combination
        if first is None:
            return f"Try --technique {technique}."
        if first.difference is None or first.active is not True:
            why = first.reason or "see its row"
            return f"Tried as {first.name}: no creditable result ({why})."
        of = f"time per {first.comparison_unit}" if first.comparison_unit else "step time"
        return f"Tried as {first.name}: {first.difference.verdict}, {first.difference.ratio:.2f}x the {of}."


def get_step_s(variant: Variant) -> float | None:
    """The step time, where it is known."""
    return variant.step_time.value if isinstance(variant.step_time, MedianEstimate) else None


def _has_technique(variant: Variant, technique: str) -> bool:
    return is_technique_on(technique, variant.techniques)
