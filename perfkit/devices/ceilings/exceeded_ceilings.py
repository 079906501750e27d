"""Ceilings that work exceeded. Such a ceiling is invalid: nothing has a share of it."""

from collections.abc import Collection

from msgspec.structs import replace

from perfkit.core.units import format_bandwidth, format_flop_rate
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings

_OF_ARITHMETIC = (CeilingLevel.MATRIX, CeilingLevel.VECTOR)
_THEN = "; "  # between the observation and the advice


def explain_exceeded(ceiling: Ceiling, what: str = "this", *, ranks: int | None = None) -> str:
    """Explain why work faster than a ceiling has no share of it, and what to do.

    `ranks` are those of a ceiling of links.
    """
    is_rate = ceiling.unit == "FLOP/s"
    rate = format_flop_rate(ceiling.value) if is_rate else format_bandwidth(ceiling.value)
    if ceiling.kind == CeilingKind.DATASHEET:
        amount = "FLOPs" if is_rate else "bytes"
        return (
            f"{what} ran faster than the datasheet's {rate}, which is impossible: its {amount} are overcounted, or the "
            "clock or the device's name is wrong"
        )
    threads = "" if ceiling.threads is None else f" --device cpu --threads {ceiling.threads}"
    if ceiling.level == CeilingLevel.INTERCONNECT:
        return (
            f"{what} ran faster than the measured {rate} between ranks{_THEN}measure again with `perfkit calibrate "
            f"--world-size {ranks or 'N'} --force`"
        )
    again = f"measure it again with `perfkit calibrate{threads} --force`"
    # Modeled bytes are the minimum traffic; which memory serves it is unknown.
    cached = "" if is_rate else ", unless its operands were in a faster cache"
    return f"{what} ran faster than the measured ceiling of {rate}{_THEN}{again}{cached}"


def split_explanation(refuted: str) -> tuple[str, str]:
    """Split the text of `explain_exceeded` into the observation and the advice; the advice may be empty."""
    observation, _, advice = refuted.partition(_THEN)
    return observation, advice


def mark_refuted(known: DeviceCeilings, beaten: Collection[Ceiling]) -> DeviceCeilings:
    """Mark those ceilings of arithmetic in `known` as refuted that are no higher than one of `beaten` for the same
    dtype and number of threads: a CPU's vector ceilings are those of its matmuls."""

    def refuted(ceiling: Ceiling) -> bool:
        return ceiling.kind == CeilingKind.MEASURED and any(
            ceiling.level in _OF_ARITHMETIC
            and (ceiling.dtype, ceiling.threads) == (other.dtype, other.threads)
            and ceiling.value <= other.value
            for other in beaten
        )

    return replace(
        known,
        ceilings=tuple(
            replace(ceiling, exceeded_by=explain_exceeded(ceiling, "work")) if refuted(ceiling) else ceiling
            for ceiling in known.ceilings
        ),
    )
