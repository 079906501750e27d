"""The figures that go to experiment trackers: their names there, in one table."""

from typing import NamedTuple

from perfkit.store.live import LiveWindow


class Scalar(NamedTuple):
    """The names of a figure for trackers and Prometheus, its unit, and its description."""

    name: str
    prometheus: str
    unit: str
    help: str


# By the field of `LiveWindow`. Prometheus' names end in the base unit.
SCALARS: dict[str, Scalar] = {
    "step_s": Scalar("perfkit/step_s", "perfkit_step_seconds", "s", "Step time, median of the window"),
    "step_max_s": Scalar("perfkit/step_max_s", "perfkit_step_max_seconds", "s", "Longest step of the window"),
    "data_wait_s": Scalar(
        "perfkit/data_wait_s", "perfkit_data_wait_seconds", "s", "Data wait per step, mean of the window"
    ),
    "units_per_s": Scalar(
        "perfkit/units_per_s", "perfkit_units_per_second", "1/s", "Tokens or samples trained on per second"
    ),
    "mfu": Scalar("perfkit/mfu", "perfkit_mfu_ratio", "1", "Model FLOP/s over the device's peak, 0 to 1"),
    "allocated_bytes": Scalar(
        "perfkit/peak_allocated_bytes",
        "perfkit_peak_allocated_bytes",
        "bytes",
        "Peak memory allocated by torch",
    ),
    "reserved_bytes": Scalar(
        "perfkit/peak_reserved_bytes",
        "perfkit_peak_reserved_bytes",
        "bytes",
        "Peak memory reserved by torch",
    ),
    "rss_bytes": Scalar(
        "perfkit/rss_bytes", "perfkit_resident_memory_bytes", "bytes", "Resident memory of the training process"
    ),
    "utilization": Scalar(
        "perfkit/utilization",
        "perfkit_device_utilization_ratio",
        "1",
        "Share of time with a kernel running on the device, 0 to 1",
    ),
    "power_w": Scalar(
        "perfkit/power_w",
        "perfkit_device_power_watts",
        "W",
        "Power of the device: by driver, a mean over the last second or the current value",
    ),
    "temperature_c": Scalar(
        "perfkit/temperature_c", "perfkit_device_temperature_celsius", "°C", "Temperature of the device"
    ),
}


def build_scalars(window: LiveWindow) -> dict[str, float]:
    """Build the figures of a window by tracker name, without unknown ones."""
    figures = {scalar.name: getattr(window, field) for field, scalar in SCALARS.items()}
    return {name: float(value) for name, value in figures.items() if value is not None}
