"""What the rules look at."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfkit.analysis.model.estimate import Estimate
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.suite.passes import Passes
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.record import Environment, Status


@dataclass(frozen=True)
class Context:
    """The variants of a suite, in the order of the report, where they ran, the ceilings, and by name what their
    instrumented passes showed."""

    variants: tuple[Variant, ...]
    environment: Environment | None
    ceilings: DeviceCeilings | None
    passes: Mapping[str, Passes] = field(default_factory=dict)

    @property
    def loops(self) -> tuple[Variant, ...]:
        """Variants that are loops of somebody else's, watched from within, however they ended."""
        return tuple(variant for variant in self.variants if variant.loop is not None)

    @property
    def measured(self) -> tuple[Variant, ...]:
        """Variants that ended well and are not a baseline."""
        return tuple(variant for variant in self.variants if variant.status == Status.OK and not variant.is_baseline)

    @property
    def baselines(self) -> tuple[Variant, ...]:
        """Baselines that ended well."""
        return tuple(variant for variant in self.variants if variant.status == Status.OK and variant.is_baseline)

    @property
    def advised(self) -> tuple[Variant, ...]:
        """The baseline of the fewest ranks: what it could win the others could too, and it is told once."""
        return tuple(sorted(self.baselines, key=lambda variant: variant.world_size)[:1])

    @property
    def promising(self) -> tuple[Variant, ...]:
        """Of those the ones whose step is judged by its ops alone: of a loop the whole trace is."""
        return tuple(variant for variant in self.advised if variant.loop is None)

    def baseline_of(self, variant: Variant) -> Variant | None:
        """What a variant was compared with."""
        if variant.difference is None:
            return None
        return next((each for each in self.variants if each.name == variant.difference.baseline), None)

    def tried(self, technique: str) -> Variant | None:
        """A variant in which a technique was tried, alone before in combination."""
        tried = [
            variant
            for variant in self.variants
            if not variant.is_baseline and any(name.partition(":")[0] == technique for name in variant.techniques)
        ]
        return min(tried, key=lambda variant: len(variant.techniques), default=None)


def step_s(variant: Variant) -> float | None:
    """The step time, where it is known."""
    return variant.step_time.value if isinstance(variant.step_time, Estimate) else None


def share(variant: Variant, category: str) -> TimeShare | None:
    """A category's part of the variant's traced step."""
    return next((part for part in variant.time_split if part.category == category), None)


def timed(variant: Variant, fraction: float) -> float | None:
    """A fraction of the traced step as seconds of the timed step, which no profiler slowed down."""
    seconds = step_s(variant)
    return None if seconds is None else seconds * fraction
