"""Finds the changes of one series: every change of exact counts, and significant changes of noisy quantities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.compare.environments import compare_environments
from perfkit.check.history.change_points import FALSE, FEWEST, FittedLevels, find_levels
from perfkit.check.history.result import ChangePoint, Commit, CommitRange, QuantitySeries, SeriesLevel
from perfkit.core import units
from perfkit.core.git import run_git
from perfkit.core.note import make_note
from perfkit.core.record.environment import Environment
from perfkit.core.student_t import compute_t_quantile

_SHOWN = 200


def read_commit_range(repository: Path | None, before: str, after: str) -> CommitRange:
    """The commits after `before` up to `after`. Revisions are as recorded; "" where a run recorded none."""
    between = CommitRange(before=before, after=after)
    if not before or not after:
        return _make_unknown_range(between, "a run next to the change recorded no revision")
    if before == after:
        return CommitRange(
            before=before,
            after=after,
            count=0,
            reason="both sides have the same revision: the machine or uncommitted changes caused it",
        )
    if repository is None:
        return _make_unknown_range(between, "no git repository available")
    for revision in (before, after):
        if not run_git(repository, "cat-file", "-e", f"{revision}^{{commit}}").ok:
            return _make_unknown_range(between, f"{revision} is not in the repository {repository}")
    if not run_git(repository, "merge-base", "--is-ancestor", before, after).ok:
        return _make_unknown_range(
            between, f"{before} is not an ancestor of {after}: the runs are from different branches or out of order"
        )
    listed = run_git(repository, "log", "--format=%h%x00%s", "--abbrev=12", f"{before}..{after}")
    if not listed.ok:
        return _make_unknown_range(between, listed.message)
    lines = [line.partition("\0") for line in listed.text.splitlines()]
    commits = tuple(Commit(revision=revision, title=title) for revision, _, title in lines[:_SHOWN])
    return CommitRange(before=before, after=after, commits=commits, count=len(lines))


def _make_unknown_range(between: CommitRange, reason: str) -> CommitRange:
    return CommitRange(before=between.before, after=between.after, reason=reason)


# Keys that identify a machine. Software changes are listed at a change rather than splitting the series, since they
# may be its cause.
MACHINE = (
    "device", "device_name", "device_count", "compute_capability", "cpu_model", "cpu_cores", "container_cpu_limit",
    "threads",
)  # fmt: skip

_NEXT = 5  # runs for which `detectable` is told
_POWER = 0.8
_FAR = 4.0  # times the deviation of a run


@dataclass(frozen=True)
class SeriesRuns:
    """A series without changes, and the environment of each run."""

    series: QuantitySeries
    environments: tuple[Environment | None, ...]
    repository: Path | None

    @property
    def values(self) -> list[float]:
        return [point.value for point in self.series.points]


def find_exact_changes(runs: SeriesRuns) -> QuantitySeries:
    """Find exact changes: every run that differs from its predecessor begins a level."""
    values = runs.values
    starts = [0, *(place for place in range(1, len(values)) if values[place] != values[place - 1])]
    levels = tuple(
        SeriesLevel(first=first, last=end - 1, value=values[first]) for first, end in pairwise([*starts, len(values)])
    )
    changes = tuple(
        _build_change(runs, before, after, earliest=after.first, latest=after.first)
        for before, after in pairwise(levels)
    )
    notes = runs.series.notes
    if 2 * len(changes) >= len(values) > 3:
        text = f"{len(changes)} changes in {len(values)} runs: the quantity is not repeatable"
        notes += (make_note("history.not_repeatable", text, changes=len(changes)),)
    return replace(runs.series, levels=levels, changes=changes, notes=notes)


def find_noisy_changes(runs: SeriesRuns) -> QuantitySeries:
    """Find levels on a log scale, or on a linear one if a figure may be 0."""
    values = runs.values
    logarithmic = all(value > 0 for value in values)
    scaled = [math.log(value) for value in values] if logarithmic else values
    fit = find_levels(scaled)
    starts = [0, *(step.at for step in fit.steps), len(values)]
    back = math.exp if logarithmic else float
    levels = tuple(
        SeriesLevel(
            first=first,
            last=end - 1,
            value=back(mean),
            low=None if half is None else back(mean - half),
            high=None if half is None else back(mean + half),
        )
        for (first, end), mean, half in zip(pairwise(starts), fit.means, fit.half, strict=True)
    )
    counts = [level.last - level.first + 1 for level in levels]
    changes = []
    for place, step in enumerate(fit.steps):
        bounds = _compute_bounds(fit, place, counts, logarithmic)
        changes.append(
            _build_change(
                runs, levels[place], levels[place + 1], earliest=step.earliest, latest=step.latest, bounds=bounds,
                p_value=step.p_value,
            )
        )  # fmt: skip
    outliers = _mark_outliers(scaled, fit, starts)
    notes = runs.series.notes
    enough = len(values) >= 2 * FEWEST
    if not enough:
        text = f"needs {2 * FEWEST} runs, {FEWEST} per level; found {len(values)}"
        notes += (make_note("history.few_runs", text, runs=len(values), needed=2 * FEWEST),)
    return replace(
        runs.series,
        points=tuple(
            replace(point, is_outlier=side != 0) for point, side in zip(runs.series.points, outliers, strict=True)
        ),
        levels=levels,
        changes=tuple(changes),
        noise=_convert_to_relative(fit.deviation, levels[-1].value, logarithmic) if enough else None,
        variance_factor=fit.inflation,
        detectable=_convert_to_relative(
            _compute_detectable(fit, counts[-1], len(values)), levels[-1].value, logarithmic
        )
        if enough
        else None,
        pending=_describe_pending(values, levels[-1].value, outliers),
        notes=notes,
    )


def _compute_bounds(
    fit: FittedLevels, place: int, counts: Sequence[int], logarithmic: bool
) -> tuple[float | None, float | None]:
    """The 95 % interval of the relative change."""
    before, after = fit.means[place : place + 2]
    half = fit.compute_half_width(place, counts)
    low, high = after - before - half, after - before + half
    if logarithmic:
        return math.expm1(low), math.expm1(high)
    return (low / before, high / before) if before > 0 else (None, None)


def _build_change(
    runs: SeriesRuns,
    before: SeriesLevel,
    after: SeriesLevel,
    *,
    earliest: int,
    latest: int,
    bounds: tuple[float | None, float | None] = (None, None),
    p_value: float | None = None,
) -> ChangePoint:
    more = after.value > before.value
    at = after.first
    fields = runs.environments[at - 1], runs.environments[at]
    return ChangePoint(
        first_run=at,
        before=before,
        after=after,
        worse=more == runs.series.more_is_worse,
        change=after.value / before.value - 1 if before.value else None,
        low=bounds[0],
        high=bounds[1],
        p_value=p_value,
        earliest=earliest,
        latest=latest,
        commits=_find_commits(runs, at - 1, at),
        candidate_commits=_find_commits(runs, earliest - 1, latest) if (earliest, latest) != (at, at) else None,
        environment_differences=_list_differences(*fields),
    )


def _find_commits(runs: SeriesRuns, last: int, first: int) -> CommitRange:
    """Commits between two runs, or between the nearest runs around them with a revision."""
    revisions = [point.revision for point in runs.series.points]
    before = next((revision for revision in reversed(revisions[: last + 1]) if revision), "")
    after = next((revision for revision in revisions[first:] if revision), "")
    commits = read_commit_range(runs.repository, before, after)
    if before and after and not (revisions[last] and revisions[first]) and not commits.reason:
        return replace(commits, reason="the runs next to the change have no revision")
    return commits


def _list_differences(before: Environment | None, after: Environment | None) -> tuple[str, ...]:
    if before is None or after is None:
        return ()
    return tuple(str(difference) for difference in compare_environments(before, after) if difference.key not in MACHINE)


def _mark_outliers(scaled: Sequence[float], fit: FittedLevels, starts: Sequence[int]) -> list[int]:
    """1 or -1 for runs far above or below their level, else 0."""
    if not fit.deviation:
        return [0] * len(scaled)
    limit = _FAR * fit.deviation
    distances = [
        value - mean
        for mean, (first, end) in zip(fit.means, pairwise(starts), strict=True)
        for value in scaled[first:end]
    ]
    return [0 if abs(distance) <= limit else 1 if distance > 0 else -1 for distance in distances]


def _describe_pending(values: Sequence[float], level: float, far: Sequence[int]) -> str:
    """The newest outliers on one side, if fewer than a level needs."""
    side = far[-1]
    count = next((place for place, other in enumerate(reversed(far)) if other != side), len(far))
    if side == 0 or count >= FEWEST or level == 0:
        return ""
    distance = units.format_percent(abs(values[-1] / level - 1))
    subject = "run is" if count == 1 else f"{count} runs are outliers, the last"
    needed = FEWEST - count
    return (
        f"the newest {subject} {distance} {'above' if side > 0 else 'below'} the level; "
        f"{needed} more {'run' if needed == 1 else 'runs'} would tell a change from noise"
    )


def _compute_detectable(fit: FittedLevels, runs: int, of: int) -> float | None:
    """The smallest step that five runs of a new level detect with a probability of 80 %.

    (t(1 - p / 2) + t(0.8)) s sqrt(1 / n + 1 / 5), with p the p-value limit over the number of positions.
    """
    if fit.deviation is None:
        return None
    places = of + _NEXT - 2 * FEWEST + 1
    freedom = fit.freedom + _NEXT - 1
    reach = compute_t_quantile(1 - FALSE / (2 * max(1, places)), freedom) + compute_t_quantile(_POWER, freedom)
    return reach * fit.deviation * math.sqrt(fit.inflation * (1 / runs + 1 / _NEXT))


def _convert_to_relative(amount: float | None, level: float, logarithmic: bool) -> float | None:
    if amount is None:
        return None
    if logarithmic:
        return math.expm1(amount)
    return amount / level if level > 0 else None
