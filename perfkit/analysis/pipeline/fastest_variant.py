"""The fastest variant of a suite. Only one that took effect and kept the loss can win."""

from collections.abc import Sequence

from perfkit.analysis.model.suite import Variant


def find_fastest(variants: Sequence[Variant]) -> Variant | None:
    """The variant with the largest proven speed-up, or None."""
    return min(filter(is_sound, list_faster(variants)), key=get_ratio, default=None)


def list_faster(variants: Sequence[Variant]) -> list[Variant]:
    """Variants with the verdict `faster`."""
    return [variant for variant in variants if variant.difference and variant.difference.verdict == "faster"]


def is_sound(variant: Variant) -> bool:
    """True unless its techniques had no effect, or its losses differ."""
    return variant.active is not False and variant.parity.verdict != "differs"


def get_ratio(variant: Variant) -> float:
    """The step time over the baseline's, of a variant that was compared."""
    assert variant.difference is not None
    return variant.difference.ratio
