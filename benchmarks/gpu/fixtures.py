"""Small recordings of a GPU, for tests on machines without one.

    python -m benchmarks.gpu.fixtures --device cuda

`fixtures` copies into `OUT/DEVICE/fixtures/` what other rows left behind: a trace, an allocator history, counters of
Nsight Compute, and dumps of NCCL's flight recorder. Where no row left a trace or a history, it runs a small bench for
them. The files hold paths and names of the machine: read them before you publish them.
"""

import shutil
from pathlib import Path

from benchmarks.gpu.bench_results import bench_command, run_bench
from benchmarks.gpu.rows import Found, Row, Setting, main

MOST_BYTES = 10**6
BENCH = ("-w", "gpt:size=nano", "--batch-size", "1", "--seq-len", "64", "-t", "amp", "--no-calibrate")
DUMPS = "nccl_trace_rank_*"


def keep_fixtures(setting: Setting) -> Found:
    """Copy one recording of each kind, and the dumps of each failure of ranks; wrong are those that are too large."""
    setting.needs_gpu()
    setting.needs_perfkit()
    from perfkit.store.layout import COUNTERS_FILE, FLIGHT_FILE, HISTORY_FILE, TRACE_FILE

    kept, runs = setting.home / "fixtures", setting.home / "runs"
    kept.mkdir(exist_ok=True)
    if any(find_smallest(runs, name) is None for name in (TRACE_FILE, HISTORY_FILE)):
        run_bench(bench_command("cuda", *BENCH, out=setting.folder / "suite"))
    found = {name: path for name in (TRACE_FILE, HISTORY_FILE, COUNTERS_FILE) if (path := find_smallest(runs, name))}
    found |= list_dumps(runs, DUMPS) | list_dumps(runs, FLIGHT_FILE)
    sizes = {}
    for name, path in found.items():
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, kept / name)
        sizes[name] = path.stat().st_size
    wrong = [f"{name} has {size} bytes" for name, size in sizes.items() if size > MOST_BYTES]
    wrong += [f"no row left a {name}" for name in (TRACE_FILE, HISTORY_FILE) if name not in sizes]
    return Found({"bytes": sizes}, [f"{kept / name}: {size} bytes" for name, size in sizes.items()], wrong)


def find_smallest(folder: Path, name: str) -> Path | None:
    """The smallest file of this name below a folder that is not empty."""
    paths = (path for path in folder.rglob(name) if path.stat().st_size)
    return min(paths, key=lambda path: path.stat().st_size, default=None)


def list_dumps(folder: Path, pattern: str) -> dict[str, Path]:
    """Files of failed ranks below `ranks`, by `FAULT/RANK-FOLDER/NAME` or `FAULT/NAME`."""
    found = {}
    for path in sorted((folder / "ranks").rglob(pattern)):
        fault = path.relative_to(folder / "ranks").parts[1]
        parent = path.parent.name if path.parent.name.startswith("rank") else ""
        found[str(Path(fault, parent, path.name))] = path
    return found


ROWS = (Row("fixtures", keep_fixtures, 120, planned_s=3, basis="copies files that other rows left"),)

if __name__ == "__main__":
    main("fixtures", __doc__, ROWS)
