"""The peak of work that is computed in several dtypes.

Utilization refers to the peak of the dtype with most of the FLOPs. For fp32 there is no single peak on a GPU: torch
computes convolutions in TF32, matmuls in fp32 by default, and memory-efficient attention as three TF32 matmuls. There
it is the peak of the mix: all FLOPs over the minimum time of all, `F / sum(F_i / P_i)`. A mean of the peaks weighted by
FLOPs would be too high: the slower part takes more of the time than of the FLOPs.
"""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from perfkit.core.units import format_flop_rate, format_percent
from perfkit.devices.ceilings.ceiling import Ceiling
from perfkit.devices.ceilings.peak import TF32, THREE_TF32

_OF_FP32 = ("fp32", TF32, THREE_TF32)

# The peak of so small a part of a mix need not be known: it is assumed to run like the rest.
_SLIGHT = 0.01

Computed = TypeVar("Computed", bound=tuple[str, str])  # the unit and the dtype that products are computed in


class MixedPeak(NamedTuple, Generic[Computed]):
    """FLOP/s, None where a ceiling is `missing`; `parts` are the FLOPs and ceilings that it comes from.

    `others` are the shares of the FLOPs by dtype that it leaves out: a peak of bf16 counts FLOPs in fp8 alike.
    """

    value: float | None
    parts: tuple[tuple[float, Ceiling], ...] = ()
    missing: Computed | None = None
    others: Mapping[str, float] = {}


def compute_mixed_peak(
    flops: Mapping[Computed, float], find: Callable[[Computed], Ceiling | None]
) -> MixedPeak[Computed]:
    """The peak of a step whose FLOPs (more than none) are computed as the keys say; `find` knows each one's ceiling."""
    main, total = max(flops, key=flops.__getitem__), sum(flops.values())
    parts = []
    mixed = sorted(flops, key=lambda key: -flops[key]) if main[1] in _OF_FP32 else [main]
    for computed in mixed:
        ceiling = find(computed)
        if ceiling is not None:
            parts.append((flops[computed], ceiling))
        elif flops[computed] >= _SLIGHT * total:
            return MixedPeak(None, missing=computed)
    least_s = sum(amount / ceiling.value for amount, ceiling in parts)
    known = sum(amount for amount, _ in parts)
    others = {key[1]: amount / total for key, amount in flops.items() if key not in mixed and amount >= _SLIGHT * total}
    return MixedPeak(known / least_s, tuple(parts), others=others)


def format_peak(peak: MixedPeak[Computed], ranks: int = 1) -> str:
    """The whole that a utilization refers to: `989 TFLOP/s (bf16)`, `8 x 989 TFLOP/s (bf16, 33 % of FLOPs in fp8)`,
    `61.2 TFLOP/s (70 % tf32, 30 % fp32)`. Empty where the peak is not known."""
    if peak.value is None:
        return ""
    amounts: dict[str, float] = {}
    for amount, ceiling in peak.parts:
        amounts[ceiling.dtype or ""] = amounts.get(ceiling.dtype or "", 0.0) + amount
    total = sum(amounts.values())
    dtypes = [
        dtype if len(amounts) == 1 else f"{format_percent(amount / total, 0)} {dtype}"
        for dtype, amount in amounts.items()
    ]
    others = [f"{format_percent(share, 0)} of FLOPs in {dtype}" for dtype, share in peak.others.items()]
    each = f"{ranks} x " if ranks > 1 else ""
    return f"{each}{format_flop_rate(peak.value)} ({', '.join([*dtypes, *others])})"
