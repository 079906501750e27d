"""How well traces are replayed: the span of each, replayed unmodified, against the recorded one.

    python benchmarks/replay_error.py TRACE...

Prints a table: of each trace the share of time its device is busy, the replay error, how long the
graph takes to build and one simulation to run, and the gains of two changes, simulated and summed.
"""

import argparse
import time
from pathlib import Path

from perfkit.analysis.replay.replay import ReplayResult, replay_trace, simulate_what_if
from perfkit.core.errors import UsageError
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace

CHANGES = ("kernels=0.5", "comm=0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("traces", nargs="+", type=Path)
    columns = ["trace", "nodes", "busy", "replay error", "build s", "what-if s", *CHANGES]
    print("|", " | ".join(columns), "|\n|---" + "|--:" * (len(columns) - 1) + "|")
    for path in parser.parse_args().traces:
        ops = read_ops(read_trace(path))
        started = time.perf_counter()
        replayed = replay_trace(ops)
        built = time.perf_counter() - started
        if replayed is None:
            continue
        told = replayed.result
        started = time.perf_counter()
        gains = [_gain(replayed, change) for change in CHANGES]
        each = (time.perf_counter() - started) / len(CHANGES)
        name = path.name.removesuffix(".json.gz")
        print(
            f"| {name} | {told.nodes} | {told.busy_share:.0%} | {told.error:+.2%} | {built:.2f} | {each:.3f} |", end=""
        )
        print("", " | ".join(gains), "|")


def _gain(replayed: ReplayResult, change: str) -> str:
    try:
        simulated = simulate_what_if(replayed, change)
    except UsageError:
        return "-"
    summed = "-" if simulated.summed_s is None else f"{simulated.summed_s / replayed.result.recorded_s:.1%}"
    return f"{'refused' if simulated.share is None else f'{simulated.share:.1%}'} / {summed}"


if __name__ == "__main__":
    main()
