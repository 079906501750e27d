"""The JSON of `perfkit plan --json`: a plan with the sums of its variants, and without their accounts and ops."""

from typing import Any, get_type_hints

import msgspec

from perfkit.analysis.model.plan import GpuOffer, Interval, Plan, PlannedVariant, PlanSearch

_LONG = ("memory", "ops")  # of a variant: each as long as a report


def summarize_variant(variant: PlannedVariant) -> dict[str, Any]:
    """A variant with the sums, without the account of the memory and the ops."""
    whole: dict[str, Any] = msgspec.to_builtins(variant)
    whole["outside_allocator_bytes"] = msgspec.to_builtins(variant.outside_allocator_bytes)
    whole["needed_bytes"] = msgspec.to_builtins(variant.needed_bytes)
    return {name: value for name, value in whole.items() if name not in _LONG}


def convert_plan(plan: Plan) -> dict[str, object]:
    """What is printed of a plan: `PlanOutput`."""
    return {
        "device": plan.device,
        "device_name": plan.device_name,
        "limit_bytes": plan.limit_bytes,
        "variants": [summarize_variant(variant) for variant in plan.variants],
        "recomputations": msgspec.to_builtins(plan.recomputations),
        "offers": [{**msgspec.to_builtins(offer), "units_per_s": offer.units_per_s} for offer in plan.offers],
        "largest": msgspec.to_builtins(plan.largest),
    }


def convert_search(search: PlanSearch) -> dict[str, object]:
    """What is printed of a search: `PlanSearchOutput`."""
    fitting = [summarize_variant(variant) for variant in search.fitting]
    return {**msgspec.to_builtins(msgspec.structs.replace(search, fitting=())), "fitting": fitting}


def _derive_struct(
    name: str, kind: type[msgspec.Struct], keep: tuple[str, ...] = (), **added: Any
) -> type[msgspec.Struct]:
    """A struct with the fields of another (only `keep`, if given) and more; all are always there."""
    hints = get_type_hints(kind)
    names = [field.name for field in msgspec.structs.fields(kind) if field.name not in (*_LONG, *added)]
    fields = [(field, hints[field]) for field in names if not keep or field in keep]
    docstring = {"__doc__": kind.__doc__}
    return msgspec.defstruct(
        name, [*fields, *added.items()], namespace=docstring, kw_only=True, forbid_unknown_fields=True, module=__name__
    )


PlanVariantOutput = _derive_struct(
    "PlanVariantOutput", PlannedVariant, outside_allocator_bytes=Interval, needed_bytes=Interval | None
)
GpuOfferOutput = _derive_struct("GpuOfferOutput", GpuOffer, units_per_s=float | None)
PlanOutput = _derive_struct(
    "PlanOutput",
    Plan,
    ("device", "device_name", "limit_bytes", "recomputations", "largest"),
    variants=tuple[PlanVariantOutput, ...],  # type: ignore[valid-type]
    offers=tuple[GpuOfferOutput, ...],  # type: ignore[valid-type]
)
PlanSearchOutput = _derive_struct("PlanSearchOutput", PlanSearch, fitting=tuple[PlanVariantOutput, ...])  # type: ignore[valid-type]
