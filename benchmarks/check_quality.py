"""How often `perfkit check` is wrong on real step times, beside what else people gate them with.

    python -m benchmarks.check_quality --record 100 --memory 5     # an hour on a quiet machine: the series
    python -m benchmarks.check_quality [--comparisons 1000] [--out benchmarks/results]

`gpt:size=nano` on the CPU: pairs of the same code, and pairs of which one side does about 3 % more work in each step.
A comparison draws as many pairs as three minutes allow, without replacement and in any order; those of the same code
with either side first. So comparisons share pairs: what they show is no better founded than the number of pairs.
"""

import argparse
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean, median, stdev

import numpy as np

from benchmarks.check_rivals import mean_regressed, real_pytest_benchmark, u_test
from benchmarks.check_series import Recorded, read_series, record, write_series
from perfkit.check.judge.check_thresholds import parse_threshold
from perfkit.check.judge.exact_counts import judge_exact
from perfkit.check.judge.looks import list_looks, plan_looks, plan_looks_for_budget
from perfkit.check.judge.process_pairs import compute_pair_ratio
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.check.judge.result import Verdict
from perfkit.check.judge.sequential_tests import run_sequence
from perfkit.core.files import write_json
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import Struct
from perfkit.core.units import format_percent, format_seconds
from perfkit.store.pairs import LOCK_STEP, Pair

SERIES = Path("tests/fixtures/check_series.parquet")
BUDGET_S = 180.0
WORSE = 0.03
REAL_RUNS = 6
CLOCKS = {"cpu_time": "cpu_s", "step_time": "wall_s"}
TITLES = {"cpu_time": "CPU time", "step_time": "wall time"}

# What is gated with which threshold; the last is what `perfkit check` gates where nothing is set.
DEFAULT = "perfkit, both as by default (3 %, 5 %)"
GATES: dict[str, dict[str, float]] = {
    "perfkit, CPU time 3 %": {"cpu_time": 0.03},
    "perfkit, wall time 3 %": {"step_time": 0.03},
    "perfkit, both 2 %, 3 %": {"cpu_time": 0.02, "step_time": 0.03},
    "perfkit, both 4 %, 5 %": {"cpu_time": 0.04, "step_time": 0.05},
    "perfkit, both 5 %, 8 %": {"cpu_time": 0.05, "step_time": 0.08},
    DEFAULT: {"cpu_time": 0.03, "step_time": 0.05},
}
NO_CHANGE, EXACT, WORK = "same code", "same code, one side's times x 1.03", "extra work in the step"

Draw = Callable[[np.random.Generator, int], list[Pair]]


class Row(Struct):
    """What one way of gating said of one kind of comparisons: shares of all; `pairs` is the mean that it took.

    `caught` are those in which some quantity fails or is worse, `fail` and what follows the verdicts on all together.
    """

    data: str
    gate: str
    caught: float
    fail: float
    worse: float | None = None
    passed: float | None = None
    inconclusive: float | None = None
    improved: float | None = None
    pairs: float | None = None


class Spread(Struct):
    """What pairs of a kind say in all: the mean relative change with its standard error, the spread between pairs."""

    data: str
    quantity: str
    change: float
    error: float
    spread: float


class Quality(Struct):
    """All results. `disjoint` is how many comparisons of the same code there are without sharing a pair,
    `disjoint_caught` in how many of them something failed or was worse."""

    machine: dict[str, str]
    pairs: int
    pair_s: float
    compared: int
    comparisons: int
    disjoint: int
    disjoint_caught: int
    spreads: tuple[Spread, ...]
    rows: tuple[Row, ...]
    memory: dict[str, tuple[int, int]]
    agreed: tuple[int, int]


def evaluate(recorded: Recorded, comparisons: int, seed: int = 0) -> Quality:
    """All comparisons of all ways of gating."""
    pair_s = median(pair.seconds for pair in (*recorded.same, *recorded.slower))
    compared = min(plan_looks_for_budget(BUDGET_S, pair_s).maximum, len(recorded.same), len(recorded.slower))
    draws: dict[str, Draw] = {
        NO_CHANGE: lambda rng, n: drawn(rng, recorded.same, n, swap=True),
        EXACT: lambda rng, n: [slower(pair, 1 + WORSE) for pair in drawn(rng, recorded.same, n, swap=True)],
        WORK: lambda rng, n: drawn(rng, recorded.slower, n, swap=False),
    }
    rows = [row for data, draw in draws.items() for row in _rows(data, draw, compared, comparisons, seed)]
    blocks = [recorded.same[start : start + compared] for start in range(0, len(recorded.same), compared)]
    whole = [block for block in blocks if len(block) == compared]
    return Quality(
        machine=recorded.machine,
        pairs=len(recorded.same),
        pair_s=pair_s,
        compared=compared,
        comparisons=comparisons,
        disjoint=len(whole),
        disjoint_caught=sum(caught(judged(block, GATES[DEFAULT])[1]) for block in whole),
        spreads=tuple(
            spread_of(data, pairs, quantity)
            for data, pairs in ((NO_CHANGE, recorded.same), (WORK, recorded.slower))
            for quantity in CLOCKS
        ),
        rows=tuple(rows),
        memory={
            NO_CHANGE: _memory(recorded.same_peaks),
            "1 % more bytes at the peak": _memory(recorded.more_peaks),
        },
        agreed=_agreed(recorded),
    )


def _rows(data: str, draw: Draw, compared: int, comparisons: int, seed: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    verdicts: dict[str, Counter[Verdict]] = {gate: Counter() for gate in GATES}
    found: Counter[str] = Counter()
    pairs_taken: Counter[str] = Counter()
    alarms: Counter[str] = Counter()
    for _ in range(comparisons):
        pairs = draw(rng, compared)
        for gate, margins in GATES.items():
            taken, of_each = judged(pairs, margins)
            pairs_taken[gate] += taken
            verdicts[gate][together(of_each)] += 1
            found[gate] += caught(of_each)
        for quantity, clock in CLOCKS.items():
            title = TITLES[quantity]
            # Two runs of different pairs: the stored one was not measured beside the current one.
            stored, current = getattr(pairs[0].before, clock), getattr(pairs[1].after, clock)
            alarms[f"pytest-benchmark mean:3%, {title}"] += mean_regressed(stored, current)
            alarms[f"U test of the steps of those two runs, {title}"] += u_test(stored, current)
            before, after = ([getattr(getattr(pair, side), clock) for pair in pairs] for side in ("before", "after"))
            alarms[f"U test of the steps of all pairs, {title}"] += u_test(chain(*before), chain(*after))
            alarms[f"U test of the medians of all processes, {title}"] += u_test(
                map(median, before), map(median, after)
            )
    ours = [
        Row(
            data=data,
            gate=gate,
            caught=found[gate] / comparisons,
            fail=verdicts[gate][Verdict.FAIL] / comparisons,
            worse=verdicts[gate][Verdict.WORSE] / comparisons,
            passed=verdicts[gate][Verdict.PASS] / comparisons,
            inconclusive=verdicts[gate][Verdict.INCONCLUSIVE] / comparisons,
            improved=verdicts[gate][Verdict.IMPROVED] / comparisons,
            pairs=pairs_taken[gate] / comparisons,
        )
        for gate in GATES
    ]
    rivals = ((gate, count / comparisons) for gate, count in alarms.items())
    return [*ours, *(Row(data=data, gate=gate, caught=share, fail=share) for gate, share in rivals)]


def judged(pairs: Sequence[Pair], margins: Mapping[str, float]) -> tuple[int, set[Verdict]]:
    """How many pairs it took, and the verdicts of the quantities."""
    logs = {name: [_ratio(pair, name) for pair in pairs] for name in margins}
    bounds = {name: math.log1p(margin) for name, margin in margins.items()}
    taken, verdicts = run_sequence(logs, bounds, plan_looks(list_looks(len(pairs))))
    return taken, set(verdicts.values())


def together(verdicts: Set[Verdict]) -> Verdict:
    """The verdict on all quantities."""
    order = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.WORSE, Verdict.IMPROVED, Verdict.PASS)
    return next(verdict for verdict in order if verdict in verdicts)


def caught(verdicts: Set[Verdict]) -> bool:
    """Whether some quantity got worse for certain."""
    return not verdicts.isdisjoint((Verdict.FAIL, Verdict.WORSE))


def _ratio(pair: Pair, quantity: str) -> float:
    ratio = compute_pair_ratio(pair, quantity, LOCK_STEP)
    assert ratio is not None, "recorded series have steps of both sides"
    return ratio


def drawn(rng: np.random.Generator, pairs: Sequence[Pair], count: int, *, swap: bool) -> list[Pair]:
    """So many of the pairs in any order; with `swap` each with either side first."""
    chosen = [pairs[index] for index in rng.permutation(len(pairs))[:count]]
    return [_swapped(pair) if swap and rng.random() < 0.5 else pair for pair in chosen]


def _swapped(pair: Pair) -> Pair:
    return Pair(before=pair.after, after=pair.before, seconds=pair.seconds)


def slower(pair: Pair, factor: float) -> Pair:
    after = StepSamples(
        wall_s=tuple(step * factor for step in pair.after.wall_s),
        cpu_s=tuple(step * factor for step in pair.after.cpu_s),
    )
    return Pair(before=pair.before, after=after, seconds=pair.seconds)


def spread_of(data: str, pairs: Sequence[Pair], quantity: str) -> Spread:
    """What these pairs say of a quantity in all."""
    logs = [_ratio(pair, quantity) for pair in pairs]
    spread = stdev(logs)
    return Spread(
        data=data,
        quantity=TITLES[quantity],
        change=math.expm1(fmean(logs)),
        error=spread / math.sqrt(len(logs)),
        spread=spread,
    )


def _memory(peaks: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """How many of the comparisons failed, and of how many."""
    quantity = next(gated for gated in QUANTITIES if gated.name == "peak_allocated")
    assert quantity.default is not None, "peak allocated is gated by default"
    threshold = parse_threshold(quantity.default, quantity.unit, more_is_worse=True)
    verdicts = [judge_exact(quantity, before, after, threshold).verdict for before, after in peaks]
    return verdicts.count(Verdict.FAIL), len(verdicts)


def _agreed(recorded: Recorded) -> tuple[int, int]:
    """On how many of a few runs pytest-benchmark itself says what its rule says here."""
    runs = []
    for pairs in (recorded.same, recorded.slower):
        for one, other in pairwise(pairs[: REAL_RUNS // 2 + 1]):
            runs.append((one.before.wall_s, other.after.wall_s))
    with tempfile.TemporaryDirectory(prefix="perfkit-rivals-") as folder:
        same = [
            mean_regressed(stored, current) == real_pytest_benchmark(stored, current, Path(folder) / str(index))
            for index, (stored, current) in enumerate(runs)
        ]
    return sum(same), len(same)


def as_markdown(quality: Quality) -> str:
    """The results as a page."""
    lines = [
        "# `perfkit check`: quality on real step times",
        "",
        "    python -m benchmarks.check_quality --record 100 --memory 5",
        "    python -m benchmarks.check_quality",
        "",
        f"`gpt:size=nano`, {quality.pairs} pairs of each kind, {format_seconds(quality.pair_s)} a pair, "
        f"{quality.compared} pairs a comparison; {', '.join(f'{k} {v}' for k, v in quality.machine.items())}. "
        f"{quality.comparisons} comparisons of each kind are drawn from the pairs without replacement, those of the "
        "same code with either side first: they share pairs. Without sharing any there are "
        f"{quality.disjoint} of the same code, in {quality.disjoint_caught} of which something failed or was worse.",
        "",
        "| pairs | quantity | mean change | standard error | spread between pairs |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {s.data} | {s.quantity} | {format_percent(s.change, 2)} | {format_percent(s.error, 2)} "
        f"| {format_percent(s.spread)} |"
        for s in quality.spreads
    ]
    lines += [
        "",
        "Caught: some quantity fails or is worse. The others are the verdicts on all quantities together.",
        "",
        "| comparisons | gate | caught | fail | worse | pass | inconclusive | improved | pairs |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in quality.rows:
        shares = (row.caught, row.fail, row.worse, row.passed, row.inconclusive, row.improved)
        cells = " | ".join("" if share is None else format_percent(share) for share in shares)
        taken = "" if row.pairs is None else f"{row.pairs:.1f}"
        lines.append(f"| {row.data} | {row.gate} | {cells} | {taken} |")
    lines += ["", "| peak allocated | failed | of |", "|---|---:|---:|"]
    lines += [f"| {name} | {failed} | {of} |" for name, (failed, of) in quality.memory.items()]
    lines += [
        "",
        f"pytest-benchmark itself, run on the same steps, said what its rule says here in {quality.agreed[0]} of "
        f"{quality.agreed[1]} runs.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=Path, default=SERIES, help="the file of recorded pairs")
    parser.add_argument("--record", type=int, metavar="N", help="record N pairs of each kind into it and end")
    parser.add_argument("--memory", type=int, default=3, metavar="N", help="memory comparisons to record")
    parser.add_argument("--threads", type=int, help="threads of each process, by default one a core")
    parser.add_argument("--comparisons", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    if args.record:
        write_series(args.series, record(args.record, args.memory, args.threads))
        return
    quality = evaluate(read_series(args.series), args.comparisons)
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / "check_quality.json", quality)
    text = as_markdown(quality)
    (args.out / "check_quality.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
