"""How often a history without a change shows one, and how often a change is found and where, against plain ruptures.

    python -m benchmarks.check_history [--histories 1000] [--out benchmarks/results]

Everything is simulated with fixed seeds: the logarithms of step times with normal noise, noise with heavy tails
(Student's t with 3 degrees of freedom), noise in which 5 % of the runs are far too slow, and runs that resemble the one
before (first-order autoregression).
"""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import ruptures
from numpy.typing import NDArray

from perfkit.check.history.change_points import FEWEST, estimate_noise, find_levels
from perfkit.core.files import write_json
from perfkit.core.spec import Struct

Floats = NDArray[np.float64]

NOISES = (0.01, 0.015, 0.02)
STEP = 1.03
CASES = ((40, 20), (40, 30), (40, 35), (12, 6), (100, 50))  # runs, the first of the new level
LENGTHS = (8, 20, 40, 100, 300)
SLOW = 20  # histories for every hundred of the others: a kernel of ruptures takes long


class Rates(Struct):
    """Shares of the histories: with a false change; found at all, in the right place, within one run of it."""

    method: str
    noise: str
    runs: int
    at: int | None = None
    spread: float = 0.02
    false: float | None = None
    found: float | None = None
    exact: float | None = None
    within_one: float | None = None
    covered: float | None = None
    histories: int


class Result(Struct):
    rates: tuple[Rates, ...]


def normal(random: np.random.Generator, runs: int) -> Floats:
    return random.standard_normal(runs)


def heavy(random: np.random.Generator, runs: int) -> Floats:
    return random.standard_t(3, runs) / math.sqrt(3)


def slow_runs(random: np.random.Generator, runs: int) -> Floats:
    values = random.standard_normal(runs)
    slow = random.random(runs) < 0.05
    values[slow] += random.exponential(8, slow.sum())
    return values


def resembling(correlation: float) -> Callable[[np.random.Generator, int], Floats]:
    def series(random: np.random.Generator, runs: int) -> Floats:
        shocks = random.standard_normal(runs + 50) * math.sqrt(1 - correlation**2)
        values = np.zeros(runs + 50)
        for place in range(1, len(values)):
            values[place] = correlation * values[place - 1] + shocks[place]
        return values[50:]

    return series


KINDS = {
    "normal": normal,
    "heavy tails": heavy,
    "5 % slow runs": slow_runs,
    "resembling 0.3": resembling(0.3),
    "resembling 0.47": resembling(0.47),
}


def ours(values: Floats) -> list[tuple[int, int, int]]:
    """(at, earliest, latest) of each change."""
    return [(step.at, step.earliest, step.latest) for step in find_levels(values).steps]


def plain(search: str, model: str, penalty: float) -> Callable[[Floats], list[tuple[int, int, int]]]:
    """ruptures alone, over values divided by their noise; `penalty` times log n."""

    def find(values: Floats) -> list[tuple[int, int, int]]:
        made = getattr(ruptures, search)(model=model, min_size=FEWEST, jump=1).fit(values / estimate_noise(values))
        ends = made.predict(pen=penalty * math.log(len(values)))[:-1]
        return [(int(end), int(end), int(end)) for end in ends]

    return find


METHODS = {
    "perfkit": ours,
    "Pelt l2, 2 log n": plain("Pelt", "l2", 2),
    "Pelt l2, 3 log n": plain("Pelt", "l2", 3),
    "Binseg l2, 3 log n": plain("Binseg", "l2", 3),
    "Pelt normal, 3 log n": plain("Pelt", "normal", 3),
    "Pelt rbf, 1 log n": plain("Pelt", "rbf", 1),
}


def false_rates(histories: int) -> list[Rates]:
    rows = []
    for name, method in METHODS.items():
        own = name == "perfkit"
        count = histories if own else max(1, histories * SLOW // 100)
        for runs in LENGTHS if own else (40,):
            for kind, noise in KINDS.items():
                random = np.random.default_rng(1)
                false = sum(bool(method(0.02 * noise(random, runs))) for _ in range(count))
                rows.append(Rates(method=name, noise=kind, runs=runs, false=false / count, histories=count))
                print(_line(rows[-1]), flush=True)
    return rows


def detection(histories: int) -> list[Rates]:
    rows = []
    for name, method in METHODS.items():
        own = name == "perfkit"
        count = histories if own else max(1, histories * SLOW // 100)
        for runs, at in CASES if own else CASES[:1]:
            for kind in tuple(KINDS)[:4] if own else ("normal",):
                for spread in NOISES:
                    random = np.random.default_rng(2)
                    rates = _found(method, KINDS[kind], random, runs, at, spread, count)
                    rows.append(
                        Rates(method=name, noise=kind, runs=runs, at=at, spread=spread, histories=count, **rates)
                    )
                    print(_line(rows[-1]), flush=True)
    return rows


def _found(
    method: Callable[[Floats], list[tuple[int, int, int]]],
    noise: Callable[[np.random.Generator, int], Floats],
    random: np.random.Generator,
    runs: int,
    at: int,
    spread: float,
    count: int,
) -> dict[str, float]:
    nearest = []
    for _ in range(count):
        values = spread * noise(random, runs)
        values[at:] += math.log(STEP)
        steps = method(values)
        if steps:
            nearest.append(min(steps, key=lambda step: abs(step[0] - at)))
    return {
        "found": len(nearest) / count,
        "exact": sum(step[0] == at for step in nearest) / count,
        "within_one": sum(abs(step[0] - at) <= 1 for step in nearest) / count,
        "covered": sum(step[1] <= at <= step[2] for step in nearest) / max(1, len(nearest)),
    }


def _line(rates: Rates) -> str:
    where = "" if rates.at is None else f" from run {rates.at}"
    shown = {"false": rates.false, "found": rates.found, "exact": rates.exact, "within one": rates.within_one}
    words = ", ".join(f"{name} {value:.1%}" for name, value in shown.items() if value is not None)
    return f"{rates.method}: {rates.noise}, {rates.spread:.1%} noise, {rates.runs} runs{where}: {words}"


def markdown(rates: Sequence[Rates], histories: int) -> str:
    lines = [
        "# Changes in histories: simulated",
        "",
        f"    python -m benchmarks.check_history --histories {histories} --out benchmarks/results",
        "",
    ]
    lines += ["| method | noise | runs | share with a false change | histories |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.method} | {row.noise}, {row.spread:.1%} | {row.runs} | {row.false:.1%} | {row.histories} |"
        for row in rates
        if row.false is not None
    ]
    lines += ["", f"A step of {STEP - 1:.0%}:", ""]
    lines += ["| method | noise | runs | first of the new level | found | in its place | within one run | covered |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    lines += [
        f"| {row.method} | {row.noise}, {row.spread:.1%} | {row.runs} | {row.at} | {row.found:.1%} "
        f"| {row.exact:.1%} | {row.within_one:.1%} | {row.covered:.1%} |"
        for row in rates
        if row.found is not None
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rates = [*false_rates(options.histories), *detection(options.histories)]
    text = markdown(rates, options.histories)
    print(text)
    if options.out is not None:
        write_json(options.out / "check_history.json", Result(rates=tuple(rates)))
        (options.out / "check_history.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
