"""Options of a watch: the threshold of slow steps, and the interval."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LiveOptions:
    """The defaults suit steps that vary by 15 % and depend on their predecessor: docs/attach.md gives the rate of false
    alarms.

    Attributes:
        period_s: seconds between log lines, each written at the end of a step.
        warmup: the first steps, neither judged nor part of the reference.
        outlier_factor: an outlier takes more than this multiple of the median of the steps before it,
        outlier_mads: and more than this number of median absolute deviations above it,
        recent: over this number of steps,
        outlier_every_s: and is reported at most once in this number of seconds.
        window: steps whose median is one point of the trend.
        reference: points after the warm-up that later ones are compared with.
        drift: a drift is a rise by at least this share, and by
        noise: at least this number of standard deviations of the reference's points,
        sustained: for this number of points in a row.
        log_bytes: growth of the log after which the line interval doubles.
    """

    period_s: float = 1.0
    warmup: int = 10
    outlier_factor: float = 1.5
    outlier_mads: float = 10.0
    recent: int = 200
    outlier_every_s: float = 60.0
    window: int = 50
    reference: int = 10
    drift: float = 0.10
    noise: float = 2.0
    sustained: int = 4
    log_bytes: int = 4 * 2**20
