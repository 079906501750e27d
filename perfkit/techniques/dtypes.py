"""In which dtype techniques compute, and which of them do not run in it: known before anything is started."""

from collections.abc import Sequence

from perfkit.techniques.compatibility import shown
from perfkit.techniques.technique import Technique

_16_BITS = ("bf16", "fp16")


def refusal(techniques: Sequence[Technique], device: str, dtype: str) -> str:
    """Why techniques (in the order of `compose`) do not run in a dtype, with what to type instead; empty if they do.

    Args:
        device: the kind of device, `cpu` or `cuda`.
        dtype: of the parameters.
    """
    for technique in techniques:
        dtype = technique.computes_in(dtype)
        if technique.needs_16_bits(device) and dtype not in _16_BITS:
            instead = "+".join(["amp", *map(shown, techniques)])
            return (
                f"{shown(technique)} runs in bf16 or fp16 on a GPU: type --technique {instead}, or hold the model "
                "in bf16 (--dtype bf16)"
            )
    return ""
