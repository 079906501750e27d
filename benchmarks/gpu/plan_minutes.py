"""Plan the seconds of each row of a run on a GPU, on a machine without one.

    python -m benchmarks.gpu.plan_minutes [--gpu h200-sxm]

Writes `planned.json`, which `run.sh` reads, and prints the table; exits 1 if the parts take more than nine minutes. A
row is planned by the first of:

- the step times of `perfkit plan` times its steps, plus the set-up of its processes, if it is a bench;
- the seconds of its last complete run in `benchmarks/results/nvidia-h200/`;
- its author's estimate.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.packages import ROOT
from benchmarks.gpu.parts import PLANNED, Estimate, estimate_row, plan_rows
from benchmarks.gpu.rows import Bench, Row
from benchmarks.gpu.runner import ARCHIVE_S, END_S, LIMIT_S
from benchmarks.gpu.steps import CASES
from benchmarks.gpu.tables import format_plan

GPU = "h200-sxm"
RECORDED = ROOT / "benchmarks" / "results" / "nvidia-h200"
# The row whose seconds are the set-up of a process of a bench: it starts Python, imports torch and takes a context.
SETUP = ("stands", "nvml")
# Inductor's time for a variant of gpt small or ResNet-50, without a cache: the estimate in `steps.py`, not measured.
COMPILE_S = 35.0
# Before the first row: the machine is described (recorded: 6 s for `stands versions`), wheels are installed (estimate).
START_S = 12.0

Recorded = Mapping[tuple[str, str], float]
# (Arguments of the workload, variants) -> seconds of a step of each variant; None for one that cannot be planned.
PlanSteps = Callable[[Sequence[str], Sequence[str]], Mapping[str, float | None]]


def plan_steps(gpu: str, workload: Sequence[str], variants: Sequence[str]) -> dict[str, float | None]:
    """Seconds of a step of each variant on a GPU, by `perfkit plan`."""
    techniques = ",".join(variants)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "plan"
        command = [sys.executable, "-m", "perfkit_cli", "plan", "-q", "--gpu", gpu, "--out", str(out)]
        subprocess.run([*command, *workload, "--technique", techniques], check=True, stdout=subprocess.DEVNULL)
        rows = json.loads((out / "plan.json").read_text())["variants"]
    return {row["name"]: row["step_s"] and row["step_s"]["total"]["value"] for row in rows}


def estimate_bench(
    bench: Bench, steps: Mapping[str, float | None], setup_s: float, setup_basis: str
) -> Estimate | None:
    """Seconds of a bench: planned steps and the set-up of its processes; None if a step cannot be planned.

    With a set-up of its own (`Bench.setup_s`) a bench states that of all of its processes, with their compilation.
    """
    seconds = [steps.get(variant) for variant in bench.variants]
    planned = [step for step in seconds if step is not None]
    if len(planned) < len(seconds):
        return None
    stepping = bench.steps * bench.processes * sum(planned)
    compiled = sum("compile" in variant for variant in bench.variants)
    if bench.setup_s is not None:
        setup, basis = bench.setup_s, f"{bench.setup_s:.0f} s to start and to compile"
    else:
        processes = bench.processes * len(bench.variants)
        setup = processes * setup_s + bench.processes * compiled * COMPILE_S
        basis = f"{processes} processes x {setup_s:.0f} s ({setup_basis})"
        if compiled:
            basis += f", {bench.processes * compiled} compilations x {COMPILE_S:.0f} s (estimate)"
    return Estimate(round(setup + stepping, 1), f"perfkit plan: {stepping:.0f} s of steps; {basis}")


def find_bench(script: str, row: Row, setup_s: float) -> Bench | None:
    """The bench of a row; of `steps` that of its case, whose processes start at once and compile one after another."""
    if script != "steps":
        return row.bench
    case = CASES[row.name, "cuda"]
    compiled = sum("compile" in variant for variant in case.variants)
    steps = 2 * case.warmup + case.alone + case.turns * case.turn_steps
    return Bench(("-w", case.argument), case.variants, steps, setup_s=setup_s + compiled * COMPILE_S)


def estimate_rows(
    rows: Sequence[tuple[str, Row]], recorded: Recorded, plan: PlanSteps
) -> dict[tuple[str, str], Estimate]:
    """(Script, row) -> estimate."""
    setup_s = recorded[SETUP]
    estimates = {}
    for script, row in rows:
        estimate = None
        bench = find_bench(script, row, setup_s)
        if bench is not None:
            steps = plan(bench.workload, bench.variants)
            estimate = estimate_bench(bench, steps, setup_s, f"recorded: {' '.join(SETUP)}")
        if estimate is None and (script, row.name) in recorded:
            estimate = Estimate(recorded[script, row.name], f"recorded on {RECORDED.name}")
        estimates[script, row.name] = estimate or estimate_row(row)
    return estimates


def read_recorded(folder: Path = RECORDED) -> dict[tuple[str, str], float]:
    """(Script, row) -> seconds, of the rows that were measured to their end."""
    recorded = {}
    for path in sorted(folder.glob("*.json")):
        stored = json.loads(path.read_text())
        if not isinstance(stored, dict) or "rows" not in stored:
            continue  # a table that no script of this folder wrote
        for name, entry in stored["rows"].items():
            if entry["status"] in ("ok", "wrong"):
                recorded[path.stem, name] = float(entry["seconds"])
    return recorded


def write_estimates(estimates: Mapping[tuple[str, str], Estimate], gpu: str, path: Path = PLANNED) -> None:
    scripts: dict[str, dict[str, Any]] = {}
    for (script, name), estimate in estimates.items():
        scripts.setdefault(script, {})[name] = {"seconds": estimate.seconds, "basis": estimate.basis}
    path.write_text(json.dumps({"gpu": gpu, "rows": scripts}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default=GPU, help="an id of `perfkit devices` (h200-sxm)")
    given = parser.parse_args()
    rows = [(planned.part.script, planned.row) for planned in plan_rows(estimates={})]

    def plan(workload: Sequence[str], variants: Sequence[str]) -> dict[str, float | None]:
        return plan_steps(given.gpu, workload, variants)

    estimates = estimate_rows(rows, read_recorded(), plan)
    write_estimates(estimates, given.gpu)
    print(format_plan(plan_rows(estimates=estimates)))
    total = sum(estimate.seconds for estimate in estimates.values())
    room = LIMIT_S - END_S - ARCHIVE_S - START_S
    if total > room:
        sys.exit(f"the parts take {total:.0f} s, and a run has {room:.0f}: shorten rows or leave some out")


if __name__ == "__main__":
    main()
