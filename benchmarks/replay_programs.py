"""Simulated what-ifs against the true times of 500 random programs on a synthetic machine with known physics.

    python benchmarks/replay_programs.py [--programs 500] [--first 30000]

Prints for each change the median, the 90th percentile and the largest error, and how many are beyond 5 %. Ranks of a
program are replayed together.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.synthetic_machine.random_programs import program
from tests.unit.analysis.replay.test_synthetic_machine import CASES, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--first", type=int, default=30_000)
    options = parser.parse_args()
    found: dict[str, list[float]] = defaultdict(list)
    several = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.programs):
            several += len(program(seed).ranks) > 1
            for text, error in errors(seed, Path(folder), CASES).items():
                found[text or "unmodified"].append(error)
    print(f"{options.programs} programs, {several} of several ranks")
    print("| change | programs | median | 90th percentile | largest | beyond 5 % |\n|---|--:|--:|--:|--:|--:|")
    for text, values in {**found, "all": [one for its in found.values() for one in its]}.items():
        each = np.asarray(values)
        low, high = np.quantile(each, (0.5, 0.9))
        print(f"| {text} | {len(each)} | {low:.2%} | {high:.2%} | {each.max():.1%} | {int((each > 0.05).sum())} |")


if __name__ == "__main__":
    main()
