"""Matches a plan in the folder of an attached loop with what the loop trains.

Such a program has no workload to compare with the plan's, so the model that it trains identifies it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from perfkit.analysis.model.plan import Plan, PlannedVariant
from perfkit.core.record.rank_record import RankRecord

_PARAMETERS = "parameter_bytes:"


class PlanMatch(NamedTuple):
    """The planned variant of a loop with the matching keys in words; `planned` None: the mismatch."""

    planned: PlannedVariant | None
    told: str


class _ComparedKey(NamedTuple):
    """A key that plan and loop must share, in words; "" on a side that lacks it."""

    name: str
    planned: str
    ran: str

    @property
    def is_known(self) -> bool:
        return bool(self.planned and self.ran)


def match_plan(plan: Plan, name: str, record: RankRecord, device: str) -> PlanMatch:
    """The variant of a plan that the loop `name` is, by the record of one of its ranks.

    The match is the variant of the same name, else the only one, else the baseline, on the same number of ranks.
    Parameter bytes must be known on both sides; no other known key may differ. `device` is the loop's, as named in
    plans.
    """
    planned = _find_variant(plan, name, record.world_size)
    if planned is None:
        return PlanMatch(None, f"it has no variant on {record.world_size} ranks, as the loop does")
    if planned.reason:
        return PlanMatch(None, f"{planned.name} was not planned: {planned.reason}")
    keys = list(_list_keys(plan, planned, record, device))
    different = [key for key in keys if key.is_known and key.planned != key.ran]
    if different:
        differences = "; ".join(f"{key.name}: {key.planned} planned, {key.ran} in the loop" for key in different)
        return PlanMatch(None, f"it differs from the loop: {differences}")
    if not next(key for key in keys if key.name == _BYTES).is_known:
        return PlanMatch(None, f"{_BYTES} of one are unknown")
    same = ", ".join(f"{key.name} {key.ran}" for key in keys if key.is_known)
    unknown = ", ".join(key.name for key in keys if not key.is_known)
    without = f"; not compared: {unknown}" if unknown else ""
    others = (
        f"; {_explain_name_mismatch(plan, name)}"
        if len(plan.variants) > 1 and not _find_by_name(plan.variants, name)
        else ""
    )
    return PlanMatch(planned, f"{planned.name} of {plan.workload.label}, with the same {same}{without}{others}")


_BYTES = "parameter bytes"


def _find_variant(plan: Plan, name: str, world_size: int) -> PlannedVariant | None:
    variants = [variant for variant in plan.variants if variant.world_size == world_size]
    baselines = [variant for variant in variants if variant.is_baseline]
    chosen = _find_by_name(variants, name) or (variants if len(variants) == 1 else baselines)
    return chosen[0] if chosen else None


def _find_by_name(variants: Iterable[PlannedVariant], name: str) -> list[PlannedVariant]:
    return [variant for variant in variants if name in (variant.name, variant.name.partition("@")[0])]


def _explain_name_mismatch(plan: Plan, name: str) -> str:
    names = ", ".join(variant.name for variant in plan.variants)
    return f"no variant is named like the run, {name}: {names}"


def _list_keys(plan: Plan, planned: PlannedVariant, record: RankRecord, device: str) -> Iterator[_ComparedKey]:
    optimizers = () if record.attached_loop is None else record.attached_loop.optimizers
    classes = {optimizer.partition(",")[0] for optimizer in optimizers}  # `AdamW, 148 parameters`
    batch, facts = planned.facts.get("batch_size"), record.workload
    counted = facts is not None and facts.unit == "samples"
    yield _ComparedKey("device", plan.device_name or plan.device, device)
    yield _ComparedKey(_BYTES, _format_parameter_bytes(planned.facts), _format_parameter_bytes(record.facts))
    yield _ComparedKey("GEMM dtype", planned.compute_dtype, record.compute_dtype)
    yield _ComparedKey("optimizer", ", ".join(planned.optimizers), ", ".join(sorted(classes)))
    yield _ComparedKey(
        "samples per step",
        "" if batch is None else f"{plan.accumulation * batch:,.0f}",
        f"{facts.units_per_batch:,}" if facts is not None and counted and facts.units_per_batch else "",
    )
    length = planned.facts.get("sequence_length")
    if length is not None:
        yield _ComparedKey("sequence length", f"{length:,.0f}", "")  # unknown for loops


def _format_parameter_bytes(facts: Mapping[str, float]) -> str:
    """`1,024 in bf16 and 2,048 in fp32`; "" where none were recorded."""
    sizes = {name.removeprefix(_PARAMETERS): size for name, size in facts.items() if name.startswith(_PARAMETERS)}
    return " and ".join(f"{size:,.0f} in {dtype}" for dtype, size in sorted(sizes.items()))
