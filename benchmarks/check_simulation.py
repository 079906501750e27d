"""How often `perfkit check` is wrong about times, simulated, and how its division of the level compares with others.

    python -m benchmarks.check_simulation [--sequences 20000] [--out benchmarks/results]

The first table takes log ratios through the looks of 36 pairs with perfkit's own functions: CPU time and wall time with
the spreads between pairs of FIELD_SPREADS, thresholds of 3 % and 5 %. The second compares ways to divide the level.
"""

import argparse
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import norm

from perfkit.check.judge.looks import ALPHA, list_looks, plan_looks
from perfkit.check.judge.result import Verdict
from perfkit.check.judge.sequential_tests import run_sequence

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]

PAIRS = 36
MARGINS = {"cpu_time": math.log1p(0.03), "step_time": math.log1p(0.05)}
# Standard deviations of a pair's log ratio: those with which 20 pairs, tested once at 1 %, find +3 % with 97 % and with
# 49 %, as was measured on a shared machine with two cores.
FIELD_SPREADS = {"cpu_time": 0.029, "step_time": 0.054}

TITLE = """# `perfkit check`: simulated error rates

    python -m benchmarks.check_simulation

"""


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.standard_normal(shape)


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Student's t with three degrees of freedom, scaled to unit variance."""
    return rng.standard_t(3, shape) / math.sqrt(3)


def moods(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Quiet and busy times: the spread of a pair is 0.4, 1 or 2.5 times the usual."""
    return rng.standard_normal(shape) * rng.choice((0.4, 1.0, 2.5), shape)


DRAWS: dict[str, Draw] = {"normal": normal, "t with 3 d.f.": heavy_tailed, "changing spread": moods}
CHANGES = {"none": 0.0, "half the threshold": 0.5, "the threshold": 1.0, "twice the threshold": 2.0}
FOUND = {Verdict.FAIL, Verdict.WORSE}


def ends(draw: Draw, share: float, sequences: int, seed: int) -> tuple[Counter[str], float]:
    """Verdicts by quantity over many sequences whose true change is `share` of the threshold, and the mean pairs."""
    rng = np.random.default_rng(seed)
    plan = plan_looks(list_looks(PAIRS))
    logs = {
        name: draw(rng, (sequences, PAIRS)) * FIELD_SPREADS[name] + share * margin for name, margin in MARGINS.items()
    }
    counts: Counter[str] = Counter()
    pairs = 0
    for n in range(sequences):
        look, verdicts = run_sequence({name: values[n].tolist() for name, values in logs.items()}, MARGINS, plan)
        pairs += look
        counts.update(f"{name} {verdict.value}" for name, verdict in verdicts.items())
        counts["any fail"] += Verdict.FAIL in verdicts.values()
        counts["any found"] += not FOUND.isdisjoint(verdicts.values())
    return counts, pairs / sequences


def error_rates(sequences: int) -> str:
    """A row for every distribution and true change: shares of the verdicts, in percent."""
    lines = [
        "| between pairs | true change | any fail or worse | any fail | CPU time: fail | worse | pass | open "
        "| wall time: fail | worse | pass | open | pairs |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for seed, (name, draw) in enumerate(DRAWS.items()):
        for change, share in CHANGES.items():
            counts, pairs = ends(draw, share, sequences, seed)
            cells = [f"{counts[of] / sequences * 100:.2f} %" for of in ("any found", "any fail")]
            for quantity in MARGINS:
                for verdict in (Verdict.FAIL, Verdict.WORSE, Verdict.PASS, Verdict.INCONCLUSIVE):
                    cells.append(f"{counts[f'{quantity} {verdict.value}'] / sequences * 100:.1f} %")
            lines.append(f"| {name} | {change} | {' | '.join(cells)} | {pairs:.1f} |")
    return "\n".join(lines)


def levels(rule: str, looks: tuple[int, ...], alpha: float) -> Floats:
    """The one-sided level of every look under a rule."""
    share = np.array(looks) / looks[-1]
    match rule:
        case "every look at the full level":
            return np.full(len(looks), alpha)
        case "equal parts":
            return np.full(len(looks), alpha / len(looks))
        case "3/4 for the last (perfkit)":
            return np.array(plan_looks(looks).shares) * alpha
        case "alpha t^2, Bonferroni":
            return alpha * np.diff(np.r_[0, share**2])
        case "alpha t^2, exact":
            return _exact(looks, alpha * share**2)
        case "O'Brien-Fleming type, Bonferroni":
            return np.diff(np.r_[0, _obrien_fleming(share, alpha)])
        case _:
            return _exact(looks, _obrien_fleming(share, alpha))


RULES = (
    "every look at the full level",
    "equal parts",
    "3/4 for the last (perfkit)",
    "alpha t^2, Bonferroni",
    "alpha t^2, exact",
    "O'Brien-Fleming type, Bonferroni",
    "O'Brien-Fleming type, exact",
)


def _obrien_fleming(share: Floats, alpha: float) -> Floats:
    """What Lan and DeMets (1983) let be spent up to a share of the information, in O'Brien and Fleming's manner."""
    spent: Floats = 2 * (1 - ndtr(ndtri(1 - alpha / 2) / np.sqrt(share)))
    return spent


def _exact(looks: tuple[int, ...], spent: Floats) -> Floats:
    """The levels that spend exactly so much by each look where ratios are normal and their spread is known.

    The density of the sum that has crossed no bound yet, from look to look (Armitage, McPherson and Rowe, 1969).
    """
    grid, density = np.zeros(1), np.ones(1)
    alphas, before = [], 0.0
    for pairs, increment in zip(looks, np.diff(np.r_[0, spent]), strict=True):
        scale = math.sqrt(pairs - before)
        width = np.full(len(grid), grid[1] - grid[0] if len(grid) > 1 else 1.0)
        weights = density * width

        def excess(bound: float, grid=grid, weights=weights, scale=scale, increment=increment) -> float:  # type: ignore[no-untyped-def]
            return float((weights * norm.sf(bound, loc=grid, scale=scale)).sum() - increment)

        bound = brentq(excess, 0.0, 12 * math.sqrt(pairs))
        finer = np.linspace(-8 * math.sqrt(pairs), bound, 2001)
        density = weights @ norm.pdf(finer[None, :], loc=grid[:, None], scale=scale)
        grid, before = finer, pairs
        alphas.append(1 - ndtr(bound / math.sqrt(pairs)))
    return np.array(alphas)


def one_quantity(rule: str, change: float, sequences: int, looks: tuple[int, ...]) -> tuple[float, float, float]:
    """Shares of fail or worse, and of pass, and mean pairs, for CPU time tested beside another (half the level)."""
    rng = np.random.default_rng(11)
    margin = MARGINS["cpu_time"]
    logs = rng.standard_normal((sequences, looks[-1])) * FIELD_SPREADS["cpu_time"] + change
    running, stopped = np.ones(sequences, bool), np.full(sequences, looks[-1])
    found, passed = 0, 0
    for pairs, level in zip(looks, levels(rule, looks, ALPHA / 2), strict=True):
        part = logs[:, :pairs]
        reach = stdtrit(pairs - 1, 1 - max(level, 1e-15)) * part.std(axis=1, ddof=1) / math.sqrt(pairs)
        mean = part.mean(axis=1)
        worse = mean > reach
        passes = ~worse & (mean + reach < margin)
        decided = passes | (worse & (abs(mean - margin) > reach))
        ends = running & (decided | (pairs == looks[-1]))
        stopped[ends] = pairs
        found, passed = found + int((ends & worse).sum()), passed + int((ends & passes).sum())
        running &= ~ends
    return found / sequences, passed / sequences, float(stopped.mean())


def spending(sequences: int, looks: tuple[int, ...]) -> str:
    """A row for every rule: the levels, false alarms, power at the threshold, and how long it takes."""
    lines = [
        "| division of 0.5 % | at the looks, in units of 0.001 % | false alarms | found at +3 % | pairs, no change "
        "| pairs, +3 % | pairs, +10 % |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for rule in RULES:
        shown = ", ".join(f"{level * 1e5:.0f}" for level in levels(rule, looks, ALPHA / 2))
        none = one_quantity(rule, 0.0, sequences, looks)
        worse = one_quantity(rule, MARGINS["cpu_time"], sequences, looks)
        far = one_quantity(rule, math.log(1.1), sequences, looks)
        lines.append(
            f"| {rule} | {shown} | {none[0] * 100:.2f} % | {worse[0] * 100:.1f} % "
            f"| {none[2]:.1f} | {worse[2]:.1f} | {far[2]:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=20_000, help="simulated checks for each row")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    parts = [
        f"{TITLE}{args.sequences:,} simulated checks a row. Spreads of a pair's log ratio: CPU time "
        f"{FIELD_SPREADS['cpu_time'] * 100:.1f} %, wall time {FIELD_SPREADS['step_time'] * 100:.1f} %. "
        f"Looks at {', '.join(map(str, list_looks(PAIRS)))} pairs.\n\n## Verdicts\n",
        error_rates(args.sequences),
    ]
    for most in (20, PAIRS):
        looks = list_looks(most)
        parts += [
            f"\n## Dividing the level over looks at {', '.join(map(str, looks))} pairs\n",
            spending(args.sequences, looks),
        ]
    text = "\n".join(parts) + "\n"
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "check_simulation.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
