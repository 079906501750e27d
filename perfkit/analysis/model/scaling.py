"""Step time of variants over the number of ranks, and over a size that was swept."""

from perfkit.analysis.model.estimate import MissingEstimate
from perfkit.analysis.model.plan import Interval
from perfkit.core.note import Note
from perfkit.core.spec import Scaling, Struct


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


class Efficiency(Struct, tag="efficiency"):
    """The share of the ranks' time in use, against `reference` on fewer ranks: 1 where added ranks lose nothing.

    `value` is from geometric means over processes. `low` and `high` are its 95 % interval, None with a single process
    on either side. `processes` are the numbers of processes of the reference and of this variant.
    """

    reference: str
    value: float
    low: float | None
    high: float | None
    processes: tuple[int, int]


class ScalingPoint(Struct):
    """A variant on a number of ranks with `threads` CPU threads each.

    `efficiency` is against the same techniques on their fewest ranks, None for that variant. `baseline_efficiency` is
    against the baseline on its fewest ranks, None for that variant. `communication_share` is the share of exposed
    communication in the traced step, None without one.
    """

    variant: str
    world_size: int
    threads: int | None
    efficiency: Efficiency | MissingEstimate | None
    baseline_efficiency: Efficiency | MissingEstimate | None
    communication_share: float | None


class PlannedPoint(Struct):
    """The planned step on a number of ranks; `efficiency` as in `ScalingPoint`, None at the reference itself.

    Its bounds are with both steps at the same end of theirs: what an op is off by, it is off on any number of ranks.
    """

    world_size: int
    step_s: Interval
    efficiency: Interval | None


class ScalingCurve(Struct):
    """The same techniques, `name`, by number of ranks: measured, and planned there and beyond."""

    name: str
    is_baseline: bool
    points: tuple[ScalingPoint, ...]
    planned: tuple[PlannedPoint, ...] = ()


class SuiteScaling(Struct):
    """All measurements on several numbers of ranks.

    `mode` is the fixed quantity as ranks are added: each rank's batch (weak) or the global batch (strong). `notes` are
    limits of the figures. `basis` is the origin of a plan's efficiencies, "" without a plan. `plan_notes` say why the
    plan is incomplete.
    """

    mode: Scaling
    curves: tuple[ScalingCurve, ...]
    notes: tuple[Note, ...] = ()
    basis: str = ""
    plan_notes: tuple[Note, ...] = ()
