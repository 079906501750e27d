"""Results of a history: data for renderers and exit codes. Nothing here formats; all of it is `history.json`."""

from typing import ClassVar

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.check.judge.thresholds import Threshold, compute_margin, is_exceeded
from perfkit.note import Note
from perfkit.spec import Struct

HISTORY_VERSION = 2
HISTORY_FILE = "history.json"


class SeriesPoint(Struct):
    """One run of a series. `value` is in the quantity's unit: the median of `processes` where there are several.

    `time` is ISO 8601 in UTC, "" where not known. `revision` is as recorded, without the mark of uncommitted changes,
    which `dirty` tells; "" outside of git. `source` is the folder that it was read from, relative to that of the
    history, or the commit of a baseline. `is_outlier` says that it is far off its level: before levels are looked for,
    such runs are drawn in.
    """

    time: str
    value: float
    processes: tuple[float, ...] = ()
    revision: str = ""
    dirty: bool = False
    source: str = ""
    is_outlier: bool = False


class SeriesLevel(Struct):
    """Runs number `first` to `last` around one value, with its 95 % interval where it varies and can be estimated."""

    first: int
    last: int
    value: float
    low: float | None = None
    high: float | None = None


class Commit(Struct):
    """One line of `git log`."""

    revision: str
    title: str


class CommitRange(Struct):
    """What lies between two runs: after `before`, up to and with `after`. Revisions are "" where not known.

    `commits` are the newest first, at most as many as are shown, `count` is how many there are; None where the
    repository does not tell, and then `reason` says why.
    """

    before: str
    after: str
    commits: tuple[Commit, ...] = ()
    count: int | None = None
    reason: str = ""


class ChangePoint(Struct):
    """A new level begins with run number `first_run`. `change` is relative, positive where there is more; None from
    zero.

    `low` and `high` are the 95 % interval of the change. `p_value` is the probability that a series of this length
    without a change shows as much at any of its places; None for what is counted exactly, where nothing is by chance.
    `commits` are those between the last run before it and the first after it. With 95 % confidence the new level begins
    with one of the runs `earliest` to `latest`; where that is not one place, `candidate_commits` are the commits of all
    of them. `environment_differences` names what else changed in where it ran, `key: before -> after`.
    """

    first_run: int
    before: SeriesLevel
    after: SeriesLevel
    worse: bool
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    earliest: int
    latest: int
    commits: CommitRange
    candidate_commits: CommitRange | None = None
    environment_differences: tuple[str, ...] = ()


class QuantitySeries(Struct):
    """One quantity of one variant on one kind of machine, measured in one way, in the order of time.

    `threshold` is what its changes are held against, None where it is reported only.
    `machine` is the fingerprint, `how` the way of measuring (`perfkit bench`, `perfkit run`, `lock-step`, `stored`).
    `noise` is the standard deviation of a run around its level as a share of it, `variance_factor` the factor by which
    the variance of a mean is larger than of independent runs, `detectable` the smallest relative worsening that the
    next five runs would show with a probability of 80 %. `pending` says in words that the newest runs are far off,
    where they are too few to make a level.
    """

    workload: str
    variant: str
    quantity: str
    title: str
    unit: str
    more_is_worse: bool
    exact: bool
    threshold: Threshold | None
    machine: str
    how: str
    points: tuple[SeriesPoint, ...]
    levels: tuple[SeriesLevel, ...] = ()
    changes: tuple[ChangePoint, ...] = ()
    noise: float | None = None
    variance_factor: float = 1.0
    detectable: float | None = None
    pending: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.title} of {self.workload} {self.variant}"


class History(DisplayMixin, Struct):
    """All series of a folder, by workload, variant and quantity. `runs` is how many suites, checks and baselines were
    read, `machines` what their fingerprints are; `notes` say what was left out or split, and why."""

    subject: ClassVar[str] = "history"
    schema_version: int = HISTORY_VERSION
    created_at: str
    perfkit: str
    folder: str
    repository: str = ""
    runs: int
    machines: tuple[str, ...] = ()
    series: tuple[QuantitySeries, ...] = ()
    notes: tuple[Note, ...] = ()


def is_regression(series: QuantitySeries, change: ChangePoint) -> bool:
    """Whether a change is worse by more than the threshold allows; of what varies, by half of it, as in a check."""
    if series.threshold is None or not change.worse:
        return False
    before, after = change.before.value, change.after.value
    if series.exact:
        return is_exceeded(series.threshold, before, after, more_is_worse=series.more_is_worse)
    allowed = compute_margin(series.threshold, before, more_is_worse=series.more_is_worse)
    return allowed is not None and change.change is not None and abs(change.change) > allowed / 2


def find_latest_regressions(history: History) -> tuple[QuantitySeries, ...]:
    """The series whose newest level is a regression from the one before: what `--history` fails for."""
    return tuple(series for series in history.series if series.changes and is_regression(series, series.changes[-1]))
