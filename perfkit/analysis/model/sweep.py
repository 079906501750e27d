"""A size of the workload, swept over several values."""

from perfkit.core.spec import Struct


class SweepPoint(Struct):
    """One value: its variant, its step time, and its peak memory, per step and per unit.

    `growth` is the exponent p of step time ~ value^p from the previous value: 1 for proportional growth, less where
    larger values are cheaper; None for the first.
    """

    variant: str
    value: float
    step_s: float
    unit_s: float
    peak_bytes: float | None
    unit_bytes: float | None
    growth: float | None


class Sweep(Struct):
    """Variants that differ only in one size (`parameter` of `technique`), in the order of its values.

    `unit` is a token or sample. `saturates_at` is the value from which step time grows in proportion to the size or
    faster, so that larger ones do not fill the device better. None where it does not within these values.
    """

    technique: str
    parameter: str
    variant: str  # the rest of its name, with an ellipsis for the value
    unit: str
    points: tuple[SweepPoint, ...]
    saturates_at: float | None
