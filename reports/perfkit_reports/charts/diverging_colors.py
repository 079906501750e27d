"""Colors of maps that show deviation from a middle."""

from perfkit_reports.palette import BLUE, VERMILLION

_EVEN = "#7d848f40"


def interpolate_color(away: float) -> str:
    """Interpolate from blue at -1 over a transparent gray to orange at 1."""
    end = bytes.fromhex((VERMILLION if away > 0 else BLUE)[1:] + "ff")
    mixed = (round(even + (full - even) * abs(away)) for even, full in zip(bytes.fromhex(_EVEN[1:]), end, strict=True))
    return f"#{bytes(mixed).hex()}"
