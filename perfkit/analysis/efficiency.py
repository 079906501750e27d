"""Model and hardware FLOPs utilisation: the rate of a step over the device's peak.

MFU (PaLM, appendix B) counts the FLOPs that the model's forward and backward need, HFU those that were executed,
with recomputation. On a GPU the peak is, by convention, the vendor's dense matrix peak of the compute dtype; a
CPU has no such figure, so it is the measured matrix ceiling for the number of threads of a rank.
"""

from dataclasses import dataclass

from perfkit.analysis.roofs import Roofs, describe
from perfkit.cost.call import Unit
from perfkit.devices.peak import conventional_kind
from perfkit.record import How, Measurement, Quantity, Unknown


@dataclass(frozen=True)
class Peak:
    """The rate that utilisation refers to, in FLOP/s over all ranks, and what it is in words."""

    flops_per_s: float
    text: str


def peak(roofs: Roofs, dtype: str, world_size: int) -> Peak | Unknown:
    """The peak of `world_size` ranks, or the reason why there is none. Never another device's."""
    return peak_of(roofs, Unit.MATRIX, dtype, world_size)


def peak_of(roofs: Roofs, unit: Unit, dtype: str, world_size: int) -> Peak | Unknown:
    """As `peak`, for products that may run on the vector units (fp32 without TF32)."""
    conventional = conventional_kind(roofs.device)
    ceiling = roofs.compute(unit, dtype, conventional)
    if ceiling is None:
        return Unknown(reason=f"no {conventional} {dtype} {unit} peak: {roofs.reason}")
    ranks = f" x {world_size} ranks" if world_size > 1 else ""
    return Peak(ceiling.value * world_size, describe(ceiling) + ranks)


def utilisation(flops: Quantity, step_s: float | None, limit: Peak | Unknown) -> Quantity:
    """FLOPs of a step over all ranks / (step time x peak)."""
    if isinstance(flops, Unknown):
        return flops
    if step_s is None:
        return Unknown(reason="the step time is not known")
    if isinstance(limit, Unknown):
        return limit
    value = flops.value / (step_s * limit.flops_per_s)
    return Measurement(value=value, unit="1", how=How.MODELLED, source=f"{flops.source}; over {limit.text}")
