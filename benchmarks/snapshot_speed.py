"""How fast a snapshot of torch's caching allocator is read and analysed, and how much memory that takes.

    python benchmarks/snapshot_speed.py --events 1000000

A synthetic snapshot stands in for a training run's: each step allocates, keeps and frees the same blocks in the same
places, entries share a few thousand stacks, as pickles of torch do. Reading, and reading with the analysis, each run in
a fresh process, whose processor time and peak of resident memory are taken. Results go to results/snapshot_speed.json.
"""

import argparse
import json
import os
import pickle
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "snapshot_speed.json"
STACKS, DEPTH, STEP_BLOCKS = 4000, 40, 4000
SITE = "/usr/lib/python3/site-packages"
TARGET = "1 million events: read in 3 s, analysed in 5 s, under 1 GB"


def stack(index: int) -> list[dict[str, Any]]:
    """Forward through a model's layers, the innermost first; every fifth the optimizer's."""
    if index % 5 == 0:
        inner = [{"filename": f"{SITE}/torch/optim/adamw.py", "line": index, "name": "_init_group"},
                 {"filename": f"{SITE}/torch/optim/adamw.py", "line": 200, "name": "step"}]  # fmt: skip
    else:
        inner = [{"filename": f"{SITE}/torch/nn/modules/linear.py", "line": 125, "name": "forward"},
                 {"filename": f"{SITE}/torch/nn/modules/module.py", "line": 1750, "name": "_call_impl"}]  # fmt: skip
    layers = [{"filename": f"/home/user/model/layer{index % 97}.py", "line": 10 + at, "name": "forward"}
              for at in range(DEPTH - len(inner))]  # fmt: skip
    return inner + layers


def snapshot(events: int) -> dict[str, Any]:
    """Steps of blocks that are allocated one after the other and freed in the reverse order."""
    stacks = [stack(index) for index in range(STACKS)]
    trace: list[dict[str, Any]] = []
    sizes = [
        (1 + index % 7) * (1 << 12) + index % 512 if index % 2 else (2 << 20) + 512 * (index % 100)
        for index in range(STEP_BLOCKS)
    ]
    places, at, pool = [], 0x7F0000000000, [0, 0]
    for size in sizes:
        places.append(at)
        at += -(-size // 512) * 512 + (0 if size < 1 << 20 else 1 << 12)
    end = -(-at // (1 << 21)) * (1 << 21)
    time_us = 1_700_000_000_000_000

    def record(action: str, index: int) -> None:
        nonlocal time_us
        time_us += 3
        # torch makes texts and pools anew for each entry, so that pickles do not share them
        trace.append(
            {
                "addr": places[index],
                "action": action,
                "size": sizes[index],
                "stream": 0,
                "time_us": time_us,
                "frames": stacks[index % STACKS],
                "compile_context": bytes((78, 47, 65)).decode(),
                "user_metadata": "",
                "pool_id": tuple(pool),
            }
        )

    while len(trace) < events:
        for index in range(STEP_BLOCKS):
            record("alloc", index)
        for index in reversed(range(STEP_BLOCKS)):
            record("free_requested", index)
            record("free_completed", index)
    del trace[events:]
    free = {"size": end - places[0], "requested_size": 0, "address": places[0], "state": "inactive", "frames": []}
    segment = {"device": 0, "address": places[0], "total_size": end - places[0], "allocated_size": 0, "active_size": 0,
               "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
               "frames": [], "blocks": [free]}  # fmt: skip
    return {"segments": [segment], "device_traces": [trace], "external_annotations": [], "allocator_settings": {}}


def measured(what: str, path: Path) -> dict[str, float]:
    """Processor time and peak memory of `what` in a fresh process, imports apart."""
    command = [sys.executable, __file__, "--only", what, str(path)]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    shown = subprocess.run(command, check=True, capture_output=True, text=True, env=alone)
    return json.loads(shown.stdout)


def measure(what: str, path: str) -> None:
    from perfkit.trace.memory.snapshot import read_snapshot

    if what == "analyse":
        from perfkit.analysis.memory.account import build_memory_account
    before = time.process_time()
    file = read_snapshot(path)
    if what == "analyse":
        for allocations in file.allocations:
            build_memory_account(allocations)
    seconds = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu_s": round(seconds, 3), "peak_rss_bytes": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--only", nargs=2, metavar=("WHAT", "FILE"), help="in this process: read or analyse")
    parser.add_argument("--parts", nargs="+", default=["read", "analyse"])
    parser.add_argument("--no-write", action="store_true", help="print the table only")
    options = parser.parse_args()
    if options.only:
        measure(*options.only)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        path.write_bytes(pickle.dumps(snapshot(options.events)))
        rows = {part: measured(part, path) for part in options.parts}
        file_bytes = path.stat().st_size
    print(f"{options.events} events, {file_bytes / 1e6:.0f} MB of pickle; target: {TARGET}")
    for part, row in rows.items():
        print(f"{part:8} {row['cpu_s']:6.2f} s of processor time   {row['peak_rss_bytes'] / 1e6:6.0f} MB peak")
    if not options.no_write:
        result = {"events": options.events, "file_bytes": file_bytes, "python": platform.python_version(), **rows}
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
