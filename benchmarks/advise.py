"""Whether what `perfkit advise` ranks first is what turns out best.

    python -m benchmarks.advise runs/all-gpt runs/all-resnet ...

Of each suite of `perfkit bench` the baseline alone is given to `perfkit advise`, with the variants that the suite
measured as the shelf. Prints for each goal the variants predicted first, the measured best, and what the best of those
predicted comes to. Variants that failed, did not act or are only emulated are no candidates, and neither are other
batches, sequences and numbers of ranks.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import parse_variants
from perfkit.plan.advise.advice import AdviceOption, Goal
from perfkit.plan.advise.advise import advise
from perfkit.plan.advise.subject import make_run_subject

FIRST = 3
Share = Callable[[Variant, Variant], float | None]


class Outcome(NamedTuple):
    """Of one suite and goal: whether the measured best is among those predicted `first`, and shares of the baseline."""

    hit: bool
    first: tuple[str, ...]
    best: str
    best_share: float
    best_of_first: float | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("suites", nargs="+", type=Path, metavar="SUITE")
    given = parser.parse_args()
    hits: dict[Goal, int] = {"time": 0, "memory": 0}
    print("| suite | goal | predicted first | measured best | best of those predicted | |\n|---|---|---|---|---|---|")
    for suite in given.suites:
        analysis = analyze_suite(suite)
        for goal, share in (("time", time_share), ("memory", memory_share)):
            found = outcome(suite, analysis, goal, share)
            hits[goal] += found.hit
            reached = "not measured" if found.best_of_first is None else f"{found.best_of_first:.2f}"
            print(
                f"| {analysis.workload} | {goal} | {', '.join(f'`{name}`' for name in found.first)} "
                f"| `{found.best}` {found.best_share:.2f} | {reached} | {'yes' if found.hit else '**no**'} |",
                flush=True,
            )
    for goal, number in hits.items():
        print(f"{goal}: the measured best is among the first {FIRST} in {number} of {len(given.suites)}")


def outcome(suite: Path, analysis: Analysis, goal: Goal, share: Share) -> Outcome:
    """What was predicted of a suite, and what was measured."""
    measured = shares(analysis, share)
    variants = parse_variants(",".join(name for name in measured if "@" not in name))
    advice = advise(make_run_subject(suite), variants, goal)
    return judged(advice.options, measured)


def judged(options: tuple[AdviceOption, ...], measured: Mapping[str, float]) -> Outcome:
    """The options in the order of the advice against the measured shares; only options are candidates."""
    ranked = [option.name for option in options if option.name in measured]
    first = tuple(ranked[:FIRST])
    best = min(ranked, key=measured.__getitem__)
    return Outcome(best in first, first, best, measured[best], min((measured[name] for name in first), default=None))


def shares(analysis: Analysis, share: Share) -> dict[str, float]:
    """By variant its measured share of the baseline of as many ranks."""
    found: dict[str, float] = {}
    for variant in analysis.variants:
        baseline = next((each for each in analysis.variants if each.is_baseline and each.world_size == 1), None)
        fair = variant.status == RunStatus.OK and variant.active is not False and not variant.emulation_reason
        if baseline is None or variant.is_baseline or variant.world_size > 1 or not fair:
            continue
        value = share(variant, baseline)
        if value is not None:
            found[variant.name] = value
    return found


def time_share(variant: Variant, baseline: Variant) -> float | None:
    """From paired processes; of a suite without rounds from its first runs."""
    if variant.difference is not None:
        return variant.difference.ratio
    ours, theirs = variant.step_time, baseline.step_time
    return (
        ours.value / theirs.value if isinstance(ours, MedianEstimate) and isinstance(theirs, MedianEstimate) else None
    )


def memory_share(variant: Variant, baseline: Variant) -> float | None:
    """Of the allocator's peak."""
    if variant.memory is None or baseline.memory is None:
        return None
    return variant.memory.peak_bytes / baseline.memory.peak_bytes


if __name__ == "__main__":
    main()
