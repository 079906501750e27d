"""NVML's bit mask of reasons for a lower clock."""

import pynvml
import pytest

from perfkit.devices.machine.clock_limits import ClockLimit, decode_clock_limits


@pytest.mark.parametrize(
    ("bits", "limits"),
    [
        (pynvml.nvmlClocksEventReasonNone, ()),
        (pynvml.nvmlClocksEventReasonGpuIdle, (ClockLimit.IDLE,)),
        (pynvml.nvmlClocksEventReasonApplicationsClocksSetting, (ClockLimit.FIXED_CLOCKS,)),
        (pynvml.nvmlClocksEventReasonSwPowerCap, (ClockLimit.POWER_CAP,)),
        (
            pynvml.nvmlClocksEventReasonHwSlowdown | pynvml.nvmlClocksEventReasonHwThermalSlowdown,
            (ClockLimit.HARDWARE_SLOWDOWN, ClockLimit.HARDWARE_TEMPERATURE),
        ),
        (pynvml.nvmlClocksEventReasonSyncBoost, (ClockLimit.SYNC_BOOST,)),
        (pynvml.nvmlClocksEventReasonSwThermalSlowdown, (ClockLimit.TEMPERATURE,)),
        (pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown, (ClockLimit.POWER_BRAKE,)),
        (pynvml.nvmlClocksEventReasonDisplayClockSetting, (ClockLimit.DISPLAY,)),
        (0x800 | pynvml.nvmlClocksEventReasonSwPowerCap, (ClockLimit.POWER_CAP, "bit 0x800")),
    ],
)
def test_each_bit_has_its_word(bits: int, limits: tuple[str, ...]) -> None:
    assert decode_clock_limits(bits) == limits
