"""Launches two ranks of which one fails, and writes how perfkit says that the run ended.

python -m benchmarks.gpu.failing_ranks hung FOLDER --device cuda
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.packages import ROOT

FAULTS = ("hung", "killed", "shape")
OUTCOME_FILE = "outcome.json"
WORKLOAD = ROOT / "benchmarks" / "gpu" / "faulty_workload.py"
# Start of two ranks (10 s on a GPU, more with others beside them) and a step; NCCL's own timeout is ten minutes.
TIMEOUT_S = 30.0
# Words of the reason that name the culprit. Over Gloo ranks of different sizes end with Gloo's own sentence.
CULPRITS: Mapping[tuple[str, str], Sequence[str]] = {
    ("hung", "cuda"): ("rank 1 had not entered",),
    ("killed", "cuda"): ("rank 1 was killed",),
    ("shape", "cuda"): ("do not agree",),
    ("hung", "cpu"): ("rank 1 had not entered",),
    ("killed", "cpu"): ("rank 1 was killed",),
    ("shape", "cpu"): ("rank 0", "rank 1", "do not agree"),
}


def launch_fault(fault: str, folder: Path, device: str) -> dict[str, Any]:
    """Launch the ranks and describe how they ended: status, reason, what each rank waits in, and the dumps."""
    from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, TechniqueSpec, WorkloadSpec
    from perfkit.measure.launch.run_launch import launch_run

    spec = RunSpec(
        workload=WorkloadSpec(name=f"{WORKLOAD}:build", params={"fault": fault}),
        techniques=(TechniqueSpec(name="ddp"),),
        schedule=Schedule(warmup=1, max_warmup=1, timed=5),
        launch=LaunchSpec(device=device, world_size=2, threads=1, timeout_s=TIMEOUT_S),
        passes=(),
    )
    run = launch_run(spec, folder / "run", print)
    return {
        "status": run.status,
        "reason": run.reason,
        "waits": {wait.rank: f"{wait.op} of {wait.group}, {wait.tensors}" for wait in run.rank_waits},
        "dumps": list_dumps(folder / "run"),
        "output": run.output_tail,
    }


def list_dumps(run: Path) -> dict[str, int]:
    """Flight recorder files of a run, NCCL's and perfkit's, by their paths within it, with their bytes."""
    from perfkit.store.layout import FLIGHT_FILE, WATCHDOG_DUMP

    paths = [path for pattern in (f"{WATCHDOG_DUMP}*", FLIGHT_FILE) for path in run.rglob(pattern)]
    return {str(path.relative_to(run)): path.stat().st_size for path in sorted(paths)}


def check_outcome(fault: str, device: str, outcome: Mapping[str, Any]) -> list[str]:
    """Contradictions: a run that did not fail, a reason that names no culprit, and survivors without a dump."""
    words = CULPRITS[fault, device]
    wrong = []
    if outcome["status"] == "ok":
        wrong.append("the run ended well")
    if not any(word in outcome["reason"] for word in words):
        wrong.append(f"the reason names no culprit ({' or '.join(words)}): {outcome['reason']}")
    if not any("rank0" in name or name.endswith("_0") for name in outcome["dumps"]):
        wrong.append("rank 0 left no dump of its collectives")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    given = parser.parse_args()
    outcome = launch_fault(given.fault, given.folder, given.device)
    (given.folder / OUTCOME_FILE).write_text(json.dumps(outcome))


if __name__ == "__main__":
    main()
