"""In which dtype techniques compute, and which of them do not run in it: known before anything is started."""

from collections.abc import Sequence

from perfkit.techniques.base.technique import Technique, format_technique
from perfkit.techniques.precision.amp import Amp

_16_BITS = ("bf16", "fp16")


def find_step_dtype(techniques: Sequence[Technique], dtype: str) -> str:
    """Find the dtype of a step's matmul operands, given that of the parameters."""
    for technique in techniques:
        dtype = technique.computes_in(dtype)
    return dtype


def explain_dtype_refusal(techniques: Sequence[Technique], device: str, dtype: str) -> str:
    """Explain why techniques (in the order of `compose`) do not run in a dtype, with the options to use instead; empty
    if they do.

    Args:
        device: the kind of device, `cpu` or `cuda`.
        dtype: of the parameters.
    """
    dtype = find_step_dtype(techniques, dtype)
    for technique in techniques:
        if technique.needs_16_bits(device) and dtype not in _16_BITS:
            instead = "+".join([Amp.name, *map(format_technique, techniques)])
            return (
                f"{format_technique(technique)} runs in bf16 or fp16 on a GPU; use --technique {instead}, or "
                "bf16 parameters (--dtype bf16)"
            )
    return ""
