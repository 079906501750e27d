"""Plans the steps that `benchmarks.gpu.steps` measures, so that no time of a GPU is spent on planning.

    python -m benchmarks.plan_steps

Writes `benchmarks/gpu/planned_steps.json`: for each device and workload the FLOPs of the unmodified model, and for each
variant the predicted step time with its bounds and the peak of the allocator. About two minutes; no GPU is needed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu.steps import CASES, PLANS
from perfkit.workloads.workload_table import load_workload

GPUS = ("h100-sxm", "h200-sxm")


def plan_case(gpu: str, case: str) -> dict[str, Any]:
    """The plan of a workload's variants on a GPU: seconds and bytes."""
    planned = CASES[case, "cuda"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "plan"
        command = [sys.executable, "-m", "perfkit_cli", "plan", "-q", "--gpu", gpu, "--out", str(out)]
        subprocess.run([*command, "-w", planned.argument, "--technique", ",".join(planned.variants)], check=True)
        rows = json.loads((out / "plan.json").read_text())["variants"]
    workload = load_workload(planned.workload, device="cpu")
    assert workload.model_flops_per_unit is not None, "gpt and resnet have closed forms"
    return {
        "model_flops": workload.model_flops_per_unit * workload.units_per_batch,
        "variants": {row["name"]: _describe(row) for row in rows},
    }


def _describe(row: dict[str, Any]) -> dict[str, Any]:
    step, peak = row["step_s"], row["peak_allocated_bytes"]
    return {
        "step_s": step and step["total"],
        "source": step and step["source"],
        "planned_eagerly": bool(step and step["planned_eagerly"]),
        "peak_bytes": peak and peak["value"],
        "reason": row["step_reason"] or row["reason"],
    }


def main() -> None:
    cases = dict.fromkeys(name for name, device in CASES if device == "cuda")
    plans = {gpu: {case: plan_case(gpu, case) for case in cases} for gpu in GPUS}
    PLANS.write_text(json.dumps(plans, indent=1) + "\n")
    print(f"written: {PLANS}")


if __name__ == "__main__":
    main()
