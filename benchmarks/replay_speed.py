"""What a replay of a large trace costs beyond reading it: time and memory, part by part.

    python benchmarks/grow_trace.py TRACE --mb 1000 --out grown.json.gz
    python benchmarks/replay_speed.py grown.json.gz

Prints for each part its seconds of processor time, and by how many MB the process grew at its peak beyond what it held
when the trace had been read.
"""

import argparse
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from perfkit.analysis.replay.critical_path_segments import build_path_rows
from perfkit.analysis.replay.path_spans import build_path_spans
from perfkit.analysis.replay.replay import replay_trace, simulate_what_if
from perfkit.analysis.trace.idle.host_calls import find_host_calls
from perfkit.analysis.trace.idle.idle_gaps import build_gap_rows
from perfkit.analysis.trace.idle.idle_time import find_idle_time
from perfkit.analysis.trace.time.launch_queue import build_launch_queue
from perfkit.analysis.trace.time.step_windows import find_step_windows
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace

T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--change", default="kernels=0.5")
    given = parser.parse_args()
    ops = read_ops(read_trace(given.trace))
    gc.collect()
    held = _memory("VmRSS")
    print(f"{len(ops.trace):,} events, {len(ops.kernels):,} kernels: {held:,.0f} MB")
    print("| part | s | MB |\n|---|--:|--:|")

    def told(part: str, do: Callable[[], T]) -> T:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        started = time.process_time()
        made = do()
        print(f"| {part} | {time.process_time() - started:.2f} | {_memory('VmHWM') - held:,.0f} |", flush=True)
        return made

    spans = find_step_windows(ops)
    idle = told(
        "causes of idle time", lambda: find_idle_time(ops, spans, build_launch_queue(ops), find_host_calls(ops, spans))
    )
    told("rows of idle time", lambda: build_gap_rows(ops, spans, idle))
    replayed = told("graph and replay", lambda: replay_trace(ops))
    assert replayed is not None
    told(f"what-if {given.change}", lambda: simulate_what_if(replayed, given.change))
    told("stretches of the path", lambda: build_path_rows(replayed, build_path_spans(replayed), idle.host))


def _memory(of: str) -> float:
    """In MB, of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(of))
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    main()
