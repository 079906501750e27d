"""Memory budgets of torch.compile's partitioner: where a smaller one needs more memory."""

from collections.abc import Iterator

from perfkit.analysis.findings.suite.view import SuiteView
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import Variant
from perfkit.record import value_of
from perfkit.spec import parse_technique
from perfkit.units import nbytes, signed_percent

_FACT = "activation_memory_budget"
_NOTABLE = 1.02  # times the other's peak


def needs_more_with_less(suite: SuiteView) -> Iterator[Finding]:
    """A budget bounds what is saved for backward, and not the peak: what backward recomputes at once comes on top."""
    for variant in suite.measured:
        budget, ours = _budget(suite, variant), value_of(variant.peak_allocated)
        if budget is None or ours is None:
            continue
        larger = [
            (peak, theirs, other)
            for other in suite.variants
            if _comparable(variant, other)
            and (peak := value_of(other.peak_allocated)) is not None
            and (theirs := 1.0 if _without(other) == other.techniques else _budget(suite, other)) is not None
            and theirs > budget
        ]
        if not larger:
            continue
        least, theirs, other = min(larger, key=lambda found: found[0])
        if ours < _NOTABLE * least:
            continue
        asked = "without one" if theirs == 1.0 else f"with one of {theirs:g}"
        yield Finding(
            severity="warning",
            title=f"{variant.name} needs more memory than {other.name}: {signed_percent(ours / least - 1)} at its peak",
            variant=variant.name,
            evidence=f"peak memory {nbytes(ours)} with a budget of {budget:g}{_saved(suite, variant)}, {nbytes(least)} "
            f"{asked}{_saved(suite, other)}: a budget bounds what is saved, and what backward recomputes at once comes "
            "on top (pytorch#197838)",
            action=f"Use {other.name}, or try budgets near it: the peak does not fall with the budget.",
        )


def _budget(suite: SuiteView, variant: Variant) -> float | None:
    return _fact(suite, variant, _FACT)


def _comparable(variant: Variant, other: Variant) -> bool:
    return variant.world_size == other.world_size and _without(variant) == _without(other)


def _without(variant: Variant) -> tuple[str, ...]:
    """Its techniques but a budgeted `ckpt`."""
    specs = {label: parse_technique(label) for label in variant.techniques}
    return tuple(
        label for label, spec in specs.items() if not (spec.name == "ckpt" and spec.params.get("mode") == "budget")
    )


def _saved(suite: SuiteView, variant: Variant) -> str:
    saved = _fact(suite, variant, "saved_tensor_bytes")
    return "" if saved is None else f" ({nbytes(saved)} saved)"


def _fact(suite: SuiteView, variant: Variant, name: str) -> float | None:
    passes = suite.passes.get(variant.name)
    found = passes.facts[0].get(name) if passes is not None and passes.facts else None
    return found if isinstance(found, float) else None
