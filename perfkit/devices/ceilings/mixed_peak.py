"""The peak of work that is computed in several dtypes.

Utilization refers to the peak of the dtype with most of the FLOPs. For fp32 there is no single peak on a GPU: torch
computes convolutions in TF32, matmuls in fp32 by default, and memory-efficient attention as three TF32 matmuls. There
it is the peak of the mix: all FLOPs over the minimum time of all, `F / sum(F_i / P_i)`. A mean of the peaks weighted by
FLOPs would be too high: the slower part takes more of the time than of the FLOPs.
"""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from perfkit.devices.ceilings.ceiling import Ceiling
from perfkit.devices.ceilings.peak import TF32, THREE_TF32

_OF_FP32 = ("fp32", TF32, THREE_TF32)

# The peak of so small a part of a mix need not be known: it is assumed to run like the rest.
_SLIGHT = 0.01

Computed = TypeVar("Computed", bound=tuple[str, str])  # the unit and the dtype that products are computed in


class MixedPeak(NamedTuple, Generic[Computed]):
    """FLOP/s, None where a ceiling is `missing`; `parts` are the FLOPs and ceilings that it comes from."""

    value: float | None
    parts: tuple[tuple[float, Ceiling], ...] = ()
    missing: Computed | None = None


def compute_mixed_peak(
    flops: Mapping[Computed, float], find: Callable[[Computed], Ceiling | None]
) -> MixedPeak[Computed]:
    """The peak of a step whose FLOPs (more than none) are computed as the keys say; `find` knows each one's ceiling."""
    main, total = max(flops, key=flops.__getitem__), sum(flops.values())
    parts = []
    for computed in sorted(flops, key=lambda key: -flops[key]) if main[1] in _OF_FP32 else [main]:
        ceiling = find(computed)
        if ceiling is not None:
            parts.append((flops[computed], ceiling))
        elif flops[computed] >= _SLIGHT * total:
            return MixedPeak(None, missing=computed)
    least_s = sum(amount / ceiling.value for amount, ceiling in parts)
    return MixedPeak(sum(amount for amount, _ in parts) / least_s, tuple(parts))
