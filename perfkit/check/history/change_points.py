"""Finds level changes of noisy series: proposed by an exact search, kept if they pass a test.

1. The noise from run to run is the median absolute difference of successive runs / 0.954 (sqrt(2) times 0.6745, of a
   normal distribution), which a few steps do not change.
2. Single runs that are far off are drawn in to three times the noise around the median of five runs (Hampel's filter):
   two slow runs are no new level, three are.
3. PELT (Killick, Fearnhead and Eckley 2012, JASA 107:1590) finds the levels with the least squared distance, each new
   one at the price of 2 log(n) times the noise's variance: Schwarz's criterion for a mean and a place.
4. That criterion alone finds a change in every tenth series that has none. So the weakest change is dropped until
   each that is left has a p-value below `FALSE`: Student's t between the two levels, with the variance within all
   levels, times the number of places at which it could have been found (Bonferroni). Runs that resemble the run before
   them count for fewer: the variance is multiplied by (1 + r) / (1 - r), with r the correlation of successive runs.
   Since a few far-off runs in a row make a step too, the rank test of Mann and Whitney must say the same wherever
   there are enough runs for it to say anything.
5. A change may as well have been at each place whose squared distance is larger by at most 7.35 times the variance:
   the 95 % likelihood-ratio set of a change point (Hansen 2000, Econometrica 68:575, Theorem 2 and Table I).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from perfkit.core.optional_deps import explain_import_error
from perfkit.core.sampling import LEVEL
from perfkit.core.student_t import compute_t_probability, compute_t_quantile

Floats = NDArray[np.float64]

FALSE = 0.01  # p-value limit of a change, per series
FEWEST = 3  # minimum runs of a level
_WINDOW = 2  # half window of Hampel's filter
_FAR = 3.0  # times the noise
_NORMAL = 0.6744897501960817  # quantile 0.75 of the normal distribution
_PLACE = 7.35
_MOST_CORRELATED = 0.9


@dataclass(frozen=True)
class LevelChange:
    """A change: the new level begins with run number `at`, with 95 % confidence between `earliest` and `latest`.

    `p_value` is the probability of such a change anywhere in an unchanged series.
    """

    at: int
    p_value: float
    earliest: int
    latest: int


@dataclass(frozen=True)
class FittedLevels:
    """A series as levels: `means` of levels that begin at 0 and at each step, `half` widths of their 95 % intervals.

    `deviation` is the standard deviation of runs around their level, None for too few runs; `inflation` the variance
    inflation of a mean due to autocorrelation.
    """

    steps: tuple[LevelChange, ...]
    means: tuple[float, ...]
    half: tuple[float | None, ...]
    deviation: float | None
    inflation: float
    freedom: int

    def compute_half_width(self, place: int, counts: Sequence[int]) -> float:
        """Half the width of the 95 % interval of the difference of the levels before and after a step."""
        assert self.deviation is not None
        spread = self.deviation * math.sqrt(self.inflation * (1 / counts[place] + 1 / counts[place + 1]))
        return compute_t_quantile((1 + LEVEL) / 2, self.freedom) * spread


def find_levels(values: Sequence[float]) -> FittedLevels:
    """The levels of a series. Values must be finite; use logarithms for multiplicative noise."""
    raw = np.asarray(values, float)
    noise = estimate_noise(raw)
    clean = _clip_outliers(raw, noise)
    starts, chances = _keep_significant(raw, clean, _find_candidate_starts(clean, noise))
    fit = _fit_levels(clean, starts)
    bounds = [*starts, len(clean)]
    sizes = [end - start for start, end in pairwise(bounds)]
    steps = tuple(
        _build_step(clean, fit, chance, ends)
        for chance, ends in zip(chances, zip(bounds, bounds[1:], bounds[2:], strict=False), strict=True)
    )
    fitted = fit.freedom > 0
    deviation = math.sqrt(fit.variance) if fitted else None
    half = tuple(
        None
        if deviation is None
        else compute_t_quantile((1 + LEVEL) / 2, fit.freedom) * deviation * math.sqrt(fit.inflation / size)
        for size in sizes
    )
    return FittedLevels(steps, tuple(fit.means), half, deviation, fit.inflation, fit.freedom)


def estimate_noise(values: Floats) -> float:
    """The standard deviation of runs around their level, from differences of successive runs."""
    if len(values) < 2:
        return 0.0
    differences = np.diff(values)
    typical = float(np.median(np.abs(differences))) / (_NORMAL * math.sqrt(2))
    # If most runs equal their predecessor, the differences say nothing about the others.
    return typical or float(np.sqrt(np.mean(differences**2) / 2))


def _clip_outliers(values: Floats, noise: float) -> Floats:
    centres = np.array(
        [np.median(values[max(0, place - _WINDOW) : place + _WINDOW + 1]) for place in range(len(values))]
    )
    return np.clip(values, centres - _FAR * noise, centres + _FAR * noise)


def _find_candidate_starts(values: Floats, noise: float) -> list[int]:
    """Candidate starts of levels, 0 first."""
    if len(values) < 2 * FEWEST or noise == 0:
        return [0]
    try:
        import ruptures  # a slow import
    except ModuleNotFoundError as error:
        raise explain_import_error("ruptures", "'perfkit[history]'", error) from None

    # PELT over squared distances: ruptures has it in C as a search over a linear kernel, which is the same cost.
    search = ruptures.KernelCPD(kernel="linear", min_size=FEWEST).fit(values / noise)
    return [0, *(int(end) for end in search.predict(pen=2 * math.log(len(values)))[:-1])]


@dataclass(frozen=True)
class _LevelFit:
    means: list[float]
    variance: float
    inflation: float
    freedom: int


def _fit_levels(values: Floats, starts: Sequence[int]) -> _LevelFit:
    bounds = [*starts, len(values)]
    levels = [values[start:end] for start, end in pairwise(bounds)]
    means = [float(level.mean()) for level in levels]
    residuals = [level - mean for level, mean in zip(levels, means, strict=True)]
    squares = sum(float(part @ part) for part in residuals)
    freedom = len(values) - len(levels)
    return _LevelFit(means, squares / freedom if freedom else 0.0, _estimate_inflation(residuals, squares), freedom)


def _estimate_inflation(residuals: Sequence[Floats], squares: float) -> float:
    """(1 + r) / (1 - r), with r the correlation of successive runs within a level, corrected for a bias of -1/n."""
    if squares == 0:
        return 1.0
    runs = sum(map(len, residuals))
    correlation = sum(float(part[1:] @ part[:-1]) for part in residuals) / squares + len(residuals) / runs
    correlation = min(max(correlation, 0.0), _MOST_CORRELATED)
    return (1 + correlation) / (1 - correlation)


def _keep_significant(raw: Floats, clean: Floats, starts: list[int]) -> tuple[list[int], list[float]]:
    """The significant starts, and the p-values of all but the first."""
    while len(starts) > 1:
        fit = _fit_levels(clean, starts)
        bounds = [*starts, len(clean)]
        chances = [_compute_p_value(raw, fit, place, bounds) for place in range(1, len(starts))]
        weakest = int(np.argmax(chances))
        if chances[weakest] < FALSE:
            return starts, chances
        starts = [start for place, start in enumerate(starts) if place != weakest + 1]
    return starts, []


def _compute_p_value(raw: Floats, fit: _LevelFit, place: int, bounds: Sequence[int]) -> float:
    """The p-value of the step at `bounds[place]`: the larger of the two tests'."""
    before, at, after = bounds[place - 1], bounds[place], bounds[place + 1]
    places = bounds[-1] - 2 * FEWEST + 1
    spread = math.sqrt(fit.variance * fit.inflation * (1 / (at - before) + 1 / (after - at)))
    difference = abs(fit.means[place] - fit.means[place - 1])
    chance = 2 * compute_t_probability(fit.freedom, -difference / spread) if spread else 0.0
    if places * chance < FALSE and places * 2 / math.comb(after - before, at - before) < FALSE:
        from scipy.stats import mannwhitneyu  # takes a second to import

        chance = max(chance, float(mannwhitneyu(raw[before:at], raw[at:after]).pvalue))
    return min(1.0, places * chance)


def _build_step(values: Floats, fit: _LevelFit, chance: float, ends: tuple[int, int, int]) -> LevelChange:
    before, at, after = ends
    part = values[before:after]
    count = np.arange(1, len(part))
    sums = np.cumsum(part)[:-1]
    total = part.sum()
    explained = sums**2 / count + (total - sums) ** 2 / (len(part) - count)  # the squared distance is a constant less
    allowed = explained[at - before - 1] - _PLACE * fit.variance * fit.inflation
    likely = before + 1 + np.flatnonzero(explained >= allowed)
    return LevelChange(at, chance, min(at, int(likely[0])), max(at, int(likely[-1])))
