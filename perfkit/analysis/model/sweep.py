"""A size of the workload, swept over several values."""

from perfkit.spec import Struct


class SweepPoint(Struct):
    """One value: its variant, its step time, and its peak memory, per step and per unit.

    `growth` is the exponent p of step time ~ value^p from the value before: 1 where a step takes as many times as long
    as the value is larger, less where a larger one is cheaper; None of the first.
    """

    variant: str
    value: float
    step_s: float
    unit_s: float
    peak_bytes: float | None
    unit_bytes: float | None
    growth: float | None


class Sweep(Struct):
    """Variants that differ in one size alone (`parameter` of `technique`), in the order of its values.

    `unit` is a token or sample. `saturates_at` is the value from which on the step time grows in proportion to the size
    or faster: larger ones fill the device no better. None where it does not within these values.
    """

    technique: str
    parameter: str
    variant: str  # the rest of its name, with an ellipsis for the value
    unit: str
    points: tuple[SweepPoint, ...]
    saturates_at: float | None
