"""Reasons for which a GPU runs below its highest clock."""

from enum import StrEnum


class ClockLimit(StrEnum):
    """A reason in words."""

    IDLE = "idle"
    FIXED_CLOCKS = "clocks set by a user"
    POWER_CAP = "power cap"
    HARDWARE_SLOWDOWN = "hardware slowdown"
    SYNC_BOOST = "another GPU of a boost group"
    TEMPERATURE = "temperature"
    HARDWARE_TEMPERATURE = "temperature, by hardware"
    POWER_BRAKE = "power brake of the system"
    DISPLAY = "display"
    BOARD = "board limit"
    RELIABILITY = "voltage limit"


# `nvmlClocksEventReasons` of nvml.h, CUDA 13; the last two are only in its older name, `nvmlClocksThrottleReasons`.
_BITS = {
    0x001: ClockLimit.IDLE,
    0x002: ClockLimit.FIXED_CLOCKS,
    0x004: ClockLimit.POWER_CAP,
    0x008: ClockLimit.HARDWARE_SLOWDOWN,
    0x010: ClockLimit.SYNC_BOOST,
    0x020: ClockLimit.TEMPERATURE,
    0x040: ClockLimit.HARDWARE_TEMPERATURE,
    0x080: ClockLimit.POWER_BRAKE,
    0x100: ClockLimit.DISPLAY,
    0x200: ClockLimit.BOARD,
    0x400: ClockLimit.RELIABILITY,
}


def decode_clock_limits(bits: int) -> tuple[str, ...]:
    """The reasons in NVML's bit mask, in the order of its bits; one that is not known here by its bit (`bit 0x800`)."""
    bit_values = (1 << place for place in range(bits.bit_length()) if bits >> place & 1)
    return tuple(_BITS.get(value) or f"bit {value:#x}" for value in bit_values)
