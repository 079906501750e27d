"""Parses `--technique` and `--combine` into the variants of a suite."""

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

from perfkit.core.errors import UsageError
from perfkit.core.spec import TechniqueSpec, format_variant_label, parse_variants
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.expand_all import expand_variants

Techniques = tuple[TechniqueSpec, ...]


class ClashingCombination(NamedTuple):
    """A combination that is left out, with the clash."""

    variant: str
    reason: str


def parse_named_variants(text: str) -> tuple[Techniques, ...]:
    """Parse the variants of `amp,ckpt,amp+ckpt`; unknown names, bad parameters and clashes are a `UsageError`.

    The word `all` stands for every technique's examples.
    """
    named = tuple(parse_variants(expand_variants(text)))
    for variant in named:
        compose_techniques(variant)
    return named


def combine_variants(
    named: tuple[Techniques, ...], refusal: Callable[[Technique], str] = lambda _: ""
) -> tuple[tuple[Techniques, ...], tuple[ClashingCombination, ...]]:
    """The named variants and every union of two or more of them, and the unions left out because they clash.

    `refusal` says why a technique cannot act here in any combination, empty if it can; such a technique is in no union
    and reported once. A union with one technique twice, with different parameters, is not a variant.
    """
    variants = {format_variant_label(variant): variant for variant in named}
    left_out = []
    for variant in tuple(named):
        reason = next(filter(None, map(refusal, compose_techniques(variant))), "")
        if reason:
            left_out.append(ClashingCombination(f"combinations with {format_variant_label(variant)}", reason))
            named = tuple(other for other in named if other != variant)
    for size in range(2, len(named) + 1):
        for group in combinations([variant for variant in named if variant], size):
            union = _merge_techniques(group)
            label = format_variant_label(union)
            if label in variants or len({technique.name for technique in union}) < len(union):
                continue
            try:
                compose_techniques(union)
            except UsageError as clash:
                left_out.append(ClashingCombination(label, str(clash)))
            else:
                variants[label] = union
    return tuple(variants.values()), tuple(left_out)


def _merge_techniques(group: tuple[Techniques, ...]) -> Techniques:
    return tuple({technique.label: technique for variant in group for technique in variant}.values())
