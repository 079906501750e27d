"""Results of a history: data for renderers and exit codes. Nothing here formats; all of it is `history.json`."""

from typing import ClassVar

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.check.judge.check_thresholds import Threshold, compute_margin, is_exceeded
from perfkit.core.note import Note
from perfkit.core.spec import Struct

HISTORY_VERSION = 2
HISTORY_FILE = "history.json"


class SeriesPoint(Struct):
    """One run of a series. `value` is in the quantity's unit: the median of several `processes`.

    `time` is ISO 8601 in UTC, "" if unknown. `revision` is as recorded, "" outside of git; `dirty` means uncommitted
    changes. `source` is the folder, relative to the history's, or the commit of a baseline. `far` marks outliers, which
    are clipped before levels are fitted.
    """

    time: str
    value: float
    processes: tuple[float, ...] = ()
    revision: str = ""
    dirty: bool = False
    source: str = ""
    is_outlier: bool = False


class SeriesLevel(Struct):
    """Runs number `first` to `last` around one value, with its 95 % interval if it varies and can be estimated."""

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
    """The commits between two runs: after `before`, up to and including `after`. Revisions are "" if unknown.

    `commits` are the newest ones, newest first; `count` is their total number, None with a `reason` if unknown.
    """

    before: str
    after: str
    commits: tuple[Commit, ...] = ()
    count: int | None = None
    reason: str = ""


class ChangePoint(Struct):
    """A new level begins with run number `at`. `change` is relative, positive for growth; None from zero.

    `low` and `high` are the 95 % interval of the change. `p_value` is the probability of such a change anywhere in an
    unchanged series of this length; None for exact counts. `commits` lie between the last run before and the first run
    after it. With 95 % confidence the new level begins with one of the runs `earliest` to `latest`; if these differ,
    `within` has the commits of that range. `differs` names environment changes, `key: before -> after`.
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
    """One quantity of one variant on one kind of machine, measured one way, over time.

    `threshold` is the threshold of its changes, None if only reported.
    `machine` is the fingerprint, `how` the way of measurement (`perfkit bench`, `perfkit run`, `lock-step`, `stored`).
    `noise` is the relative standard deviation of runs around their level, `resemblance` the variance inflation of a
    mean due to autocorrelation, `detectable` the smallest relative worsening that the next five runs would detect with
    a probability of 80 %. `pending` describes outliers among the newest runs that are too few for a level.
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
    """All series of a folder, by workload, variant and quantity.

    `runs` is the number of suites, checks and baselines, `machines` their fingerprints; `notes` list omissions and
    splits."""

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
    """True if a change is worse by more than the threshold; for noisy quantities, by more than half of it."""
    if series.threshold is None or not change.worse:
        return False
    before, after = change.before.value, change.after.value
    if series.exact:
        return is_exceeded(series.threshold, before, after, more_is_worse=series.more_is_worse)
    allowed = compute_margin(series.threshold, before, more_is_worse=series.more_is_worse)
    return allowed is not None and change.change is not None and abs(change.change) > allowed / 2


def find_latest_regressions(history: History) -> tuple[QuantitySeries, ...]:
    """Series whose newest level is a regression, for which `--history` fails."""
    return tuple(series for series in history.series if series.changes and is_regression(series, series.changes[-1]))
