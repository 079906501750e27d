"""Several ranks on one GPU: distributed techniques over NCCL, and the dumps of ranks that fail.

    python -m benchmarks.gpu.ranks --device cuda [--apart]

`together` runs all benches and failures at the same time: ranks share the GPU in turn (`PERFKIT_SHARED_GPU=1`), so that
claims, losses and dumps stand, and step times do not. `--apart` adds a row for each of them. A bench is wrong where a
variant failed, a claim does not hold or losses differ. A failure is wrong where perfkit's reason does not name the
culprit, or the waiting rank left no dump of its flight recorder. On a CPU the ranks talk over Gloo.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.gpu.bench_results import Command, Ended, bench_command, describe_variant, read_variants, run_together
from benchmarks.gpu.failing_ranks import FAULTS, OUTCOME_FILE, check_outcome
from benchmarks.gpu.rows import Found, Row, Setting, main

LIMIT_S = {"cuda": 100.0, "cpu": 540.0}
WORKLOAD = ("-w", "gpt:size=nano", "--batch-size", "4", "--seq-len", "64", "--no-calibrate", "--timeout", "80")
CPU_WORKLOAD = ("-w", "gpt:size=nano", "--batch-size", "4", "--seq-len", "16", "--no-calibrate")


@dataclass(frozen=True)
class RankBench:
    """A bench of so many ranks. Its baseline, to which losses are compared, is `ddp`."""

    world_size: int
    techniques: tuple[str, ...]


BENCHES = {
    "hooks-16-bits": RankBench(2, ("ddp:hook=fp16", "ddp:hook=bf16")),
    "hooks-kept": RankBench(2, ("ddp:hook=powersgd", "ddp:hook=topk")),
    "hooks-8-bits": RankBench(2, ("ddp:hook=quantized", "ddp:bucket_mb=1")),
    "late": RankBench(2, ("local_sgd", "ssp")),
    "hsdp": RankBench(4, ("hsdp",)),
}


def measure_parts(names: Sequence[str], setting: Setting) -> Found:
    """Run benches and failures at the same time and check each."""
    setting.needs_perfkit()
    ended = run_together({name: _command(name, setting) for name in names}, LIMIT_S[setting.device])
    figures: dict[str, Any] = {}
    lines: list[str] = []
    wrong: list[str] = []
    for name in names:
        found = _check_fault(name, ended[name], setting) if name in FAULTS else _check_bench(name, ended[name], setting)
        figures[name] = found.figures
        lines += [f"{name}: {line}" for line in found.lines]
        wrong += [f"{name}: {reason}" for reason in found.wrong]
    return Found(figures, lines, wrong)


def _command(name: str, setting: Setting) -> Command:
    from perfkit.devices.machine.shared_gpu import SHARED_GPU

    folder = setting.folder / name
    folder.mkdir()
    variables = {SHARED_GPU: "1"} if setting.device == "cuda" else {}
    if name in FAULTS:
        program = [sys.executable, "-m", "benchmarks.gpu.failing_ranks", name, str(folder), "--device", setting.device]
        return Command(program, folder / "output.log", variables)
    bench = BENCHES[name]
    arguments = (
        *(WORKLOAD if setting.device == "cuda" else CPU_WORKLOAD),
        "--world-size", str(bench.world_size), "--technique", ",".join(bench.techniques),
    )  # fmt: skip
    command = bench_command(setting.device, *arguments, out=folder / "suite")
    return Command(command, folder / "output.log", variables)


def _check_bench(name: str, ended: Ended, setting: Setting) -> Found:
    report = setting.folder / name / "suite" / "report.json"
    if not report.exists():
        return Found({"output": ended.tail}, wrong=[f"no report: {describe_exit(ended)}"])
    figures: dict[str, Any] = {"seconds": round(ended.seconds, 1), "variants": {}}
    lines, wrong = [], []
    for variant in read_variants(report.parent).values():
        figures["variants"][variant.name], reasons = describe_variant(variant)
        if variant.parity.verdict == "differs":
            reasons.append(f"losses differ by {variant.parity.max_relative}")
        claims = [claim.holds for claim in variant.claims]
        lines.append(
            f"{variant.name}: {variant.status}, {claims.count(True)} of {len(claims)} claims, "
            f"losses {variant.parity.verdict}"
        )
        wrong += [f"{variant.name}: {reason}" for reason in reasons]
    return Found(figures, lines, wrong)


def _check_fault(name: str, ended: Ended, setting: Setting) -> Found:
    path = setting.folder / name / OUTCOME_FILE
    if not path.exists():
        return Found({"output": ended.tail}, wrong=[f"no outcome: {describe_exit(ended)}"])
    outcome = json.loads(path.read_text())
    lines = [f"{outcome['status']}: {outcome['reason']}", f"dumps: {', '.join(outcome['dumps']) or 'none'}"]
    return Found(outcome, lines, check_outcome(name, setting.device, outcome))


def describe_exit(ended: Ended) -> str:
    """How a command ended, in words."""
    if ended.code is None:
        return f"ended at its limit after {ended.seconds:.0f} s"
    return f"exit code {ended.code}: {ended.tail.splitlines()[-1] if ended.tail else 'no output'}"


NAMES = (*BENCHES, *FAULTS)
APART = tuple(Row(name, partial(measure_parts, (name,)), 300) for name in NAMES)  # a shared CPU takes minutes
ROWS = (
    Row(
        "together", partial(measure_parts, NAMES), LIMIT_S["cuda"] + 30, planned_s=48,
        basis="three runs of 13 s in the longest bench, 18 processes on 16 cores",
    ),
)  # fmt: skip

if __name__ == "__main__":
    main("ranks", __doc__, ROWS, {"apart": APART})
