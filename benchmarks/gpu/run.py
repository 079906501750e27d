"""Everything worth checking on a real GPU, in one command and within ten minutes.

    python benchmarks/gpu/run.py --out results/

Runs, each in a process of its own and with a share of the time: the tests marked `gpu`, the calibration of this
device, what recording memory costs and whether its books balance (`memory.py`), the whole list of techniques on
`gpt`, the techniques that fit on `resnet`, and, where Nsight Compute is installed, a counter export of one `gpt` step.
Leaves logs, `summary.json` and the reports (JSON and HTML) in one folder. Exits 1 if any part failed; the parts after
it still run.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

GPT = "amp,amp:dtype=fp16,ckpt,ckpt:mode=selective,compile,flash,flash:backend=cudnn,flash:backend=efficient"
GPT_COMBINED = "amp+flash,amp+flash+compile,amp+flash+ckpt,amp+flash+compile+ckpt:mode=budget"
GPT_OFFLOAD = "offload:what=activations,offload:what=optimizer,offload:what=parameters,offload:what=activations:to=disk"
SHARDED = "zero1,zero2,zero3"
MEMORY = Path(__file__).with_name("memory.py")
GRACE_S = 20.0
KEEP = ("report.html", "report.json", "report.md", "suite.json", "ceilings.json")


@dataclass
class Part:
    """A part's end: `exit_code` None means that it ran out of time."""

    name: str
    exit_code: int | None
    seconds: float


def perfkit(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "perfkit_cli", *arguments]


def bench(out: Path, name: str, workload: str, techniques: str, *, repeats: int) -> list[str]:
    return perfkit(
        "bench", "--device", "cuda", "--workload", workload, "--technique", techniques,
        "--repeat", str(repeats), "--out", str(out / "suites" / name),
    )  # fmt: skip


def parts(out: Path) -> dict[str, tuple[list[str], float]]:
    """Name -> (command, seconds it may take)."""
    table = {
        "tests": ([sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-rs", "tests"], 150.0),
        "calibrate": (perfkit("calibrate", "--device", "cuda"), 100.0),
        "memory": ([sys.executable, str(MEMORY), "--out", str(out / "memory.json")], 60.0),
        "gpt": (bench(out, "gpt", "gpt", f"{GPT},{GPT_COMBINED},{GPT_OFFLOAD},{SHARDED}", repeats=2), 330.0),
        "resnet": (bench(out, "resnet", "resnet", "amp,compile,amp+compile", repeats=1), 90.0),
    }
    if shutil.which("ncu"):
        counted = [*bench(out, "counted", "gpt", "baseline", repeats=1), "--counters"]
        table["counters"] = (counted, 120.0)
    return table


def run(name: str, command: list[str], seconds: float, out: Path) -> Part:
    """Run one part with its output in a log."""
    print(f"{name}: at most {seconds:.0f} s", flush=True)
    start = time.perf_counter()
    code: int | None = None
    with (out / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # a suite that is interrupted still reports what it measured
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
    part = Part(name, code, time.perf_counter() - start)
    print(f"{name}: {'out of time' if code is None else f'exit {code}'} after {part.seconds:.0f} s", flush=True)
    return part


def keep_small(out: Path) -> None:
    """Leave of every suite what is small enough to keep: the reports and what they were made from, no traces."""
    for suite in (out / "suites").glob("*"):
        kept = out / suite.name
        kept.mkdir(exist_ok=True)
        for name in KEEP:
            if (suite / name).exists():
                shutil.copy(suite / name, kept / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--only", help="comma-separated parts to run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    table = parts(options.out)
    chosen = options.only.split(",") if options.only else list(table)
    ended = [run(name, *table[name], options.out) for name in chosen]
    keep_small(options.out)
    (options.out / "summary.json").write_text(json.dumps([asdict(part) for part in ended], indent=1) + "\n")
    sys.exit(any(part.exit_code != 0 for part in ended))


if __name__ == "__main__":
    main()
