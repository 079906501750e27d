"""The rule about memory budgets of torch.compile's partitioner: a smaller one that needs more memory."""

from collections.abc import Iterator

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.core.record.quantity import get_value
from perfkit.core.spec import parse_technique
from perfkit.core.units import format_bytes, format_signed_percent

_FACT = "activation_memory_budget"
_NOTABLE = 1.02  # times the other's peak


def find_budget_needing_more(suite: SuiteView) -> Iterator[Finding]:
    """A budget bounds the saved tensors, not the peak: recomputation in backward adds to it."""
    for variant in suite.measured:
        budget, ours = _get_budget(suite, variant), get_value(variant.peak_allocated)
        if budget is None or ours is None:
            continue
        larger = [
            (peak, theirs, other)
            for other in suite.variants
            if _is_comparable(variant, other)
            and (peak := get_value(other.peak_allocated)) is not None
            and (theirs := 1.0 if _drop_ckpt(other) == other.techniques else _get_budget(suite, other)) is not None
            and theirs > budget
        ]
        if not larger:
            continue
        least, theirs, other = min(larger, key=lambda candidate: candidate[0])
        if ours < _NOTABLE * least:
            continue
        setting = "without one" if theirs == 1.0 else f"with {theirs:g}"
        yield Finding(
            id="checkpointing.budget_peak",
            severity="warning",
            title=f"{variant.name}: {format_signed_percent(ours / least - 1)} peak memory over {other.name}",
            variant=variant.name,
            evidence=f"peak {format_bytes(ours)} with budget {budget:g}{_show_saved(suite, variant)}, "
            f"{format_bytes(least)} {setting}{_show_saved(suite, other)}",
            details=(
                "a budget bounds the saved tensors; what backward recomputes at once adds to the peak (pytorch#197838)",
            ),
            action=f"Use {other.name}, or try budgets near it: the peak does not fall with the budget.",
            figures={"peak_bytes": ours, "other_peak_bytes": least, "budget": budget},
        )


def _get_budget(suite: SuiteView, variant: Variant) -> float | None:
    return _get_fact(suite, variant, _FACT)


def _is_comparable(variant: Variant, other: Variant) -> bool:
    return variant.world_size == other.world_size and _drop_ckpt(variant) == _drop_ckpt(other)


def _drop_ckpt(variant: Variant) -> tuple[str, ...]:
    """Its techniques but a budgeted `ckpt`."""
    specs = {label: parse_technique(label) for label in variant.techniques}
    return tuple(
        label for label, spec in specs.items() if not (spec.name == "ckpt" and spec.params.get("mode") == "budget")
    )


def _show_saved(suite: SuiteView, variant: Variant) -> str:
    saved = _get_fact(suite, variant, "saved_tensor_bytes")
    return "" if saved is None else f" ({format_bytes(saved)} saved)"


def _get_fact(suite: SuiteView, variant: Variant, name: str) -> float | None:
    passes = suite.passes.get(variant.name)
    fact = passes.facts[0].get(name) if passes is not None and passes.facts else None
    return fact if isinstance(fact, float) else None
