"""Peaks and contexts planned for an H200 beside those measured on one (`results/nvidia-h200/variants.json`).

    python -m benchmarks.plan_h200

About a minute; no GPU is needed.
"""

import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfkit.plan.gpu_memory.non_tensor_memory import CONTEXT

MEASURED = Path(__file__).parent / "results" / "nvidia-h200" / "variants.json"
GPU = "h200-sxm"


def measured() -> dict[str, dict[str, int]]:
    """Workload with its options -> variant -> bytes at the peak, of single ranks."""
    peaks: dict[str, dict[str, int]] = {}
    for row in json.loads(MEASURED.read_text()):
        if "peak_bytes" in row and "--world-size" not in row["workload"]:
            peaks.setdefault(row["workload"], {})[row["variant"]] = row["peak_bytes"]
    return peaks


def contexts() -> list[int]:
    """Bytes of the context with its kernels and libraries, of each process on one GPU."""
    parts = [row["beyond"] for row in json.loads(MEASURED.read_text()) if "beyond" in row]
    return [part["CUDA context"] + part["kernels and libraries"] for part in parts if "NCCL" not in part]


def planned(workload: str, variants: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """The variants of `perfkit plan`."""
    techniques = ",".join(name for name in variants if name != "baseline")
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "plan")
        command = [sys.executable, "-m", "perfkit_cli", "plan", "-q", "--gpu", GPU, "--out", out, "-w"]
        subprocess.run([*command, *shlex.split(workload), "--technique", techniques], check=True)
        yield from json.loads((Path(out) / "plan.json").read_text())["variants"]


def main() -> None:
    errors, context = [], {}
    for workload, variants in measured().items():
        print(workload)
        for row in planned(workload, variants):
            name, peak = row["name"], row["peak_allocated_bytes"]
            if peak is None:
                print(f"  {name:40} not planned: {row['reason']}")
                continue
            context = next(part["bytes"] for part in row["outside_allocator"] if part["name"] == CONTEXT)
            error = peak["value"] / variants[name] - 1
            errors.append(abs(error))
            both = f"{peak['value'] / 2**20:10,.1f} MiB, measured {variants[name] / 2**20:10,.1f}"
            print(f"  {name:40} {both}  {error:+.1%}")
    print(f"{len(errors)} variants: median {statistics.median(errors):.1%}, at most {max(errors):.1%}")
    taken = contexts()
    low, value, high = (context[end] / 2**20 for end in ("low", "value", "high"))
    print(f"{CONTEXT}: {value:,.0f} MiB ({low:,.0f} to {high:,.0f}), measured in {len(taken)} processes:", end=" ")
    print(f"{min(taken) / 2**20:,.0f} to {max(taken) / 2**20:,.0f}")


if __name__ == "__main__":
    main()
