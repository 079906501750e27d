"""Model and hardware FLOPs utilization: the rate of a step over the device's peak.

MFU (PaLM, appendix B) counts the FLOPs that the model's forward and backward need, HFU those of the step as run, with
recomputation. Both count attention over all pairs of positions, also where kernels skip masked ones. On a GPU the peak
is, by convention, the vendor's dense matrix peak of the compute dtype; a CPU has no such figure, so it is the measured
matrix ceiling for the number of threads of a rank.

Where most of a step's FLOPs have fp32 operands, its peak is that of the mix (`perfkit.devices.ceilings.mixed_peak`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.trace.roofline.device_roofs import DeviceRoofs
from perfkit.analysis.trace.roofline.roofs import Roofs, describe_ceiling
from perfkit.core.record.quantity import Measurement, Quantity, QuantityOrigin, Unknown
from perfkit.core.record.rank_record import Flops
from perfkit.core.units import format_percent
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.cost.formulas.attention_mask import UNMASKED
from perfkit.cost.kernels.fp32_products import MATMUL, resolve_compute_dtype
from perfkit.devices.catalog.unit_names import get_unit_name
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind
from perfkit.devices.ceilings.exceeded_ceilings import explain_exceeded
from perfkit.devices.ceilings.mixed_peak import compute_mixed_peak, format_peak
from perfkit.devices.ceilings.peak import get_utilization_kind

Computed = tuple[ComputeUnit, str]  # the unit and the dtype that products are computed in


@dataclass(frozen=True)
class PeakRate:
    """The reference rate of utilization in FLOP/s over all ranks, its description, its ceilings, that of most FLOPs
    first, and its short form (`format_peak`)."""

    flops_per_s: float
    text: str
    ceilings: tuple[Ceiling, ...] = ()
    short: str = ""


def find_peak(roofs: Roofs, dtype: str, world_size: int) -> PeakRate | Unknown:
    """The peak of `world_size` ranks for GEMMs of `dtype`, or the reason that it is unknown. Never another device's."""
    return find_peak_of_mix(
        roofs, {(ComputeUnit.MATRIX, resolve_compute_dtype(MATMUL, dtype, roofs.fp32)): 1.0}, world_size
    )


def sum_device_peaks(roofs: DeviceRoofs, flops: Mapping[Computed, float], devices: Sequence[int]) -> PeakRate | Unknown:
    """The peak of several devices together for one mix of FLOPs, unknown where that of any is."""
    counts = Counter(roofs.get_roofs(device) for device in devices)
    peaks = [find_peak_of_mix(own, flops, count, "devices") for own, count in counts.items()]
    unknown = next((peak for peak in peaks if isinstance(peak, Unknown)), None)
    known = [peak for peak in peaks if isinstance(peak, PeakRate)]
    if unknown is not None or len(known) == 1:
        return unknown or known[0]
    return PeakRate(
        sum(peak.flops_per_s for peak in known),
        " + ".join(peak.text for peak in known),
        tuple(ceiling for peak in known for ceiling in peak.ceilings),
    )


def find_peak_of_mix(
    roofs: Roofs, flops: Mapping[Computed, float], world_size: int, of: str = "ranks"
) -> PeakRate | Unknown:
    """Like `find_peak`, for a step on several units or in several dtypes (`compute_mixed_peak`)."""
    conventional = get_utilization_kind(roofs.device)
    name = roofs.device_name or (roofs.ceilings.device_name if roofs.ceilings is not None else "")
    mixed = compute_mixed_peak(flops, lambda computed: roofs.compute(*computed, conventional))
    if mixed.value is None:
        assert mixed.missing is not None
        unit, dtype = mixed.missing
        return Unknown(
            reason=f"no {conventional} {dtype} {get_unit_name(unit, name)} peak: {roofs.explain_missing(dtype)}"
        )
    ranks = f" x {world_size} {of}" if world_size > 1 else ""
    parts = tuple(ceiling for _, ceiling in mixed.parts)
    short = format_peak(mixed, world_size)
    return PeakRate(mixed.value * world_size, _describe_mix(mixed.parts, name) + ranks, parts, short)


def _describe_mix(parts: Sequence[tuple[float, Ceiling]], device_name: str) -> str:
    """Describe the ceilings, with the share of FLOPs of each where there are several."""
    flops: dict[str, float] = {}
    for amount, ceiling in parts:
        text = describe_ceiling(ceiling, device_name)
        flops[text] = flops.get(text, 0.0) + amount
    if len(flops) == 1:
        return next(iter(flops))
    total = sum(flops.values())
    return "the mix of " + ", ".join(
        f"{format_percent(amount / total)} at the {text}" for text, amount in flops.items()
    )


class Utilization(NamedTuple):
    """`refuted` are the measured ceilings that the step was faster than: all that its peak is made of."""

    mfu: Quantity
    hfu: Quantity
    refuted: tuple[Ceiling, ...] = ()


def compute_utilization(flops: Flops, step_s: float | None, limit: PeakRate | Unknown) -> Utilization:
    """FLOPs of a step over all ranks / (step time x peak), of those that the model needs and of those that ran.

    What ran is counted exactly, so that a step which runs faster than its peak says that the peak is wrong, and neither
    is known. No tolerance: a peak that is exceeded by ever so little is no peak.
    """
    model, executed = _compute_share(flops.model, step_s, limit), _compute_share(flops.hardware, step_s, limit)
    hardware = _compute_share(_add_masked(flops), step_s, limit)
    ran = model if isinstance(executed, Unknown) else executed
    if _is_beyond_peak(ran):
        assert isinstance(limit, PeakRate)
        why = Unknown(reason=_explain_excess(limit))
        return Utilization(
            why if isinstance(model, Measurement) else model,
            why if isinstance(hardware, Measurement) else hardware,
            tuple(ceiling for ceiling in limit.ceilings if ceiling.kind == CeilingKind.MEASURED),
        )
    return Utilization(_refuse_beyond_peak(model), _refuse_beyond_peak(hardware))


_NOT_ALL_RAN = (
    "above the peak: MFU and HFU count FLOPs by convention and fewer ran (masked attention pairs or unused gradients "
    "were skipped)"
)


def _add_masked(flops: Flops) -> Quantity:
    """The executed FLOPs with those of skipped masked pairs."""
    if isinstance(flops.hardware, Unknown) or not flops.masked:
        return flops.hardware
    return replace(
        flops.hardware, value=flops.hardware.value + flops.masked, source=f"{flops.hardware.source}; {UNMASKED}"
    )


def _refuse_beyond_peak(share: Quantity) -> Quantity:
    return Unknown(reason=_NOT_ALL_RAN) if _is_beyond_peak(share) else share


def _is_beyond_peak(share: Quantity) -> bool:
    return isinstance(share, Measurement) and share.value > 1


def _explain_excess(limit: PeakRate) -> str:
    first = limit.ceilings[0]
    return explain_exceeded(replace(first, value=limit.flops_per_s))


def _compute_share(flops: Quantity, step_s: float | None, limit: PeakRate | Unknown) -> Quantity:
    if isinstance(flops, Unknown):
        return flops
    if step_s is None:
        return Unknown(reason="step time unknown")
    if isinstance(limit, Unknown):
        return limit
    value = flops.value / (step_s * limit.flops_per_s)
    source = f"{flops.source}; over {limit.text}"
    return Measurement(
        value=value, unit="1", how=QuantityOrigin.MODELED, source=source, bound=flops.bound, of=limit.short
    )
