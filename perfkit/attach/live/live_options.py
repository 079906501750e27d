"""Options of a watch: the threshold of slow steps, and the interval."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LiveOptions:
    """The defaults suit steps that vary by 15 % and depend on their predecessor: docs/attach.md gives the rate of false
    alarms.

    Attributes:
        period_s: statistics are made, and a line is written, once in so many seconds, at the end of a step.
        warmup: the first steps, which are neither judged nor part of the reference.
        outlier_factor: an outlier takes more than so many times the median of the steps before it,
        outlier_mads: and more than so many median absolute deviations above it,
        recent: over so many steps,
        outlier_every_s: and is told at most once in so many seconds.
        window: steps whose median is one point of the trend.
        reference: points after the warm-up that later ones are compared with.
        drift: a drift is a rise by at least this share, and by
        noise: at least so many standard deviations of the reference's points,
        sustained: of so many points in a row.
        log_bytes: each time the log has grown by so much, lines come half as often.
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
