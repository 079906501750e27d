"""Bisections with simulated checks for `benchmarks.bisect_truth`: real verdicts, step times drawn from a recording."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.check_quality import drawn
from perfkit.check.bisect.find_change import Compare, find_change, start_bisection
from perfkit.check.bisect.result import BisectCandidate, Bisection
from perfkit.check.config import CheckCase, CheckConfig
from perfkit.check.full_check import build_check, make_result_side
from perfkit.check.judge.check_figures import RunFigures
from perfkit.check.judge.judge import count_family, list_gates
from perfkit.check.judge.result import Check
from perfkit.check.sampling import MOST_PAIRS, PairSampling
from perfkit.check.side_observations import ObservedVariant
from perfkit.check.variant_check import check_variant
from perfkit.core.record.step_samples import StepSamples
from perfkit.store.pairs import LOCK_STEP, Pair, Pairs

WORKLOAD = "gpt:size=nano"
VARIANT = "baseline"
CONFIG = CheckConfig(root=".", cases=(CheckCase(workload=WORKLOAD),))
KINDS = ("time", "memory", "kernels")
# Of the good end, and of harmless changes: every candidate has one, and keeps those before it.
PEAK_BYTES, KERNELS = 80_000_000, 1_200
_DRIFT = 0.002


class Plant(NamedTuple):
    """What a simulated bisection searches. `first_bad` of `count` candidates made `kind` worse by the share `size`.

    `noise` multiplies what a recorded pair's sides differ by; `drift` has each candidate's change of all before it.
    """

    count: int
    first_bad: int
    kind: str
    size: float
    noise: float
    drift: tuple[float, ...]


def draw_plant(rng: np.random.Generator) -> Plant:
    """A plant at random: 2 to 100 candidates, any of them bad, 10 to 60 % more time, memory or kernels."""
    count = int(np.exp(rng.uniform(np.log(2), np.log(100))).round())
    kind = KINDS[rng.integers(len(KINDS))]
    steps = rng.normal(0, _DRIFT, count) * (rng.random(count) < 0.2)
    return Plant(
        count=count,
        first_bad=int(rng.integers(1, count)),
        kind=kind,
        size=float(rng.uniform(0.1, 0.6)),
        noise=float(rng.uniform(1, 3)),
        drift=tuple(np.cumsum(steps).tolist()),
    )


def search_plant(plant: Plant, recorded: Sequence[Pair], rng: np.random.Generator) -> Bisection:
    """The bisection of a plant, with pairs drawn from those recorded."""
    candidates = [BisectCandidate(name=f"c{index}") for index in range(plant.count)]
    return find_change(start_bisection("commits", candidates, ""), CONFIG, make_compare(plant, recorded, rng))


def make_compare(plant: Plant, recorded: Sequence[Pair], rng: np.random.Generator) -> Compare:
    """Checks as `perfkit check` makes them, with simulated sides."""

    def compare(before: int, after: int, config: CheckConfig, *, timed: bool, folder: str) -> Check:  # noqa: ARG001
        old, new = (ObservedVariant(figures=_make_figures(plant, each), environment=None) for each in (before, after))
        thresholds = config.cases[0].resolve_thresholds()
        pairs, plan = None, None
        if timed:
            gates = list_gates(old.figures, new.figures, thresholds)
            family = count_family(old.figures, new.figures, thresholds, paired=True)
            sampling = PairSampling(gates, config.budget_s, family)
            factor = _get_level(plant, "time", after) / _get_level(plant, "time", before)
            pairs = _draw_pairs(sampling, plant.noise, factor, recorded, rng)
            plan = sampling.plan_at(pairs)
        variant = check_variant(
            WORKLOAD, VARIANT, old, new, thresholds, pairs=pairs, plan=plan, interleaved=True, timed=timed
        )
        sides = (make_result_side(f"c{each}", None) for each in (before, after))
        return build_check([variant], command="", before=next(sides), after=next(sides), fail_on=config.fail_on)

    return compare


def _draw_pairs(
    sampling: PairSampling, noise: float, factor: float, recorded: Sequence[Pair], rng: np.random.Generator
) -> Pairs:
    """Pairs until enough are there or the budget is used up."""
    pairs = Pairs(variant=VARIANT, pairing=LOCK_STEP)
    left: list[Pair] = []
    while True:
        left = left or drawn(rng, recorded, len(recorded), swap=True)
        pairs = Pairs(variant=VARIANT, pairing=LOCK_STEP, pairs=(*pairs.pairs, disturb_pair(left.pop(), noise, factor)))
        next_s = sum(pair.seconds for pair in pairs.pairs) / len(pairs.pairs) * (len(pairs.pairs) + 1)
        if sampling.find_stop_reason(pairs) or len(pairs.pairs) >= MOST_PAIRS or next_s > sampling.budget_s:
            return pairs


def disturb_pair(pair: Pair, noise: float, factor: float) -> Pair:
    """The pair with its sides' difference multiplied by `noise`, and its second side's steps by `factor`."""
    sides = []
    for clock in ("wall_s", "cpu_s"):
        before, after = np.array(getattr(pair.before, clock)), np.array(getattr(pair.after, clock))
        count = min(len(before), len(after))
        sides.append(after[:count] * (after[:count] / before[:count]) ** (noise - 1) * factor)
    wall, cpu = (tuple(side.tolist()) for side in sides)
    return Pair(before=pair.before, after=StepSamples(wall_s=wall, cpu_s=cpu), seconds=pair.seconds)


def _make_figures(plant: Plant, index: int) -> RunFigures:
    return RunFigures(
        exact={
            "peak_allocated": float(round(PEAK_BYTES * _get_level(plant, "memory", index))),
            "kernel_count": float(round(KERNELS * _get_level(plant, "kernels", index))),
        },
        missing={},
    )


def _get_level(plant: Plant, kind: str, index: int) -> float:
    """What a candidate has of a quantity, relative to the good end."""
    if kind != plant.kind:
        return 1.0
    return (1 + plant.drift[index] - plant.drift[0]) * (1 + plant.size * (index >= plant.first_bad))
