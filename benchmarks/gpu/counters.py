"""Modeled FLOPs and bytes beside those that the GPU counted.

    python -m benchmarks.gpu.counters --device cuda [--benches]

A row counts one op (`benchmarks.gpu.op_classes`) under Nsight Compute (`ncu`), with the metrics of
`perfkit bench --counters`, and compares the sums over its kernels with perfkit's formulas. `--benches` adds one
`perfkit bench --counters` per row: the median of model / counter over the kernels of a class, weighted by time, with
the middle 80 %.

Modeled bytes are compulsory traffic, and counted ones those of a cold cache (`docs/counters.md`): of ops that stream
their operands both are alike; below 1 is expected of products that overflow L2, above 1 of chains that stay in it.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.bench_results import Command, Ended, run_together
from benchmarks.gpu.op_classes import BUILDERS
from benchmarks.gpu.packages import ROOT
from benchmarks.gpu.rows import Found, Row, Setting, Skipped, main, perfkit

NCU_S = 45.0  # of an op's program under ncu; it is ended then
CHIP_METRICS = "chip_metrics.json"  # of `ncu --query-metrics`, which takes 2 s: asked once
# (Op class, quantity) -> bounds of model / counter. A product has a known number of FLOPs. A streamed operand is read
# once and a result written once; what L2 still holds when the kernel ends is not counted, of 2 GiB at most 50 MiB.
BOUNDS = {
    ("GEMM", "flops"): (0.95, 1.05),
    ("norm", "bytes"): (0.9, 1.1),
    ("elementwise", "bytes"): (0.9, 1.1),
    ("optimizer", "bytes"): (0.85, 1.15),
}
WORKLOADS = {
    "gpt": ("-w", "gpt:size=small", "--batch-size", "2"),
    "resnet": ("-w", "resnet:depth=50:image_size=224:classes=1000", "--batch-size", "16"),
}
VARIANTS = (("gpt", "baseline"), ("gpt", "amp"), ("gpt", "amp+flash"), ("resnet", "baseline"), ("resnet", "amp"))
EXACT = ("GEMM", "FLOPs")
NEAR = 0.05


def count_bench(workload: str, variant: str, setting: Setting) -> Found:
    """Compare model and counters of the kernels of a training step."""
    _find_ncu(setting)
    from perfkit.analysis.pipeline.trace_analysis import analyze_traces
    from perfkit.core.files import read_json
    from perfkit.store.layout import COUNTERS_FILE, SUITE_FILE, TRACE_FILE, Suite, get_rank_folder, get_run_path

    folder = setting.folder / "suite"
    subprocess.run(
        perfkit(
            "bench", "--device", "cuda", *WORKLOADS[workload], "--technique", variant, "--rounds", "0", "--steps", "3",
            "--warmup", "3", "--no-calibrate", "--counters", "--out", str(folder),
        ),
        check=True,
    )  # fmt: skip
    rank = get_rank_folder(folder / get_run_path(variant, 0), 0)
    if not (rank / COUNTERS_FILE).exists():
        raise Skipped("; ".join(note.text for note in read_json(folder / SUITE_FILE, Suite).warnings))
    coverage = analyze_traces([str(rank / TRACE_FILE)], counters=rank / COUNTERS_FILE).traces[0].coverage
    rows = [
        {"op_class": row.op_class, "quantity": row.quantity, "kernels": row.kernels, "seconds": row.seconds,
         "ratio": row.ratio, "low": row.low, "high": row.high}
        for row in coverage.model_error
    ]  # fmt: skip
    lines = [
        f"{row.op_class:16} {row.quantity:6} model / counter {row.ratio:.3f} "
        f"({row.low:.3f} to {row.high:.3f}), {row.kernels} kernels"
        for row in coverage.model_error
    ]
    wrong = [
        f"FLOPs of matrix products: model / counter is {row.ratio:.3f}"
        for row in coverage.model_error
        if (row.op_class, row.quantity) == EXACT and abs(row.ratio - 1) > NEAR
    ]
    if not rows:
        wrong.append("no kernel of the trace matches a counted one")
    share = coverage.counted_s / coverage.kernel_s
    lines.append(f"{share:.1%} of the kernel time was counted")
    return Found({"counted_share": share, "classes": rows}, lines, wrong)


def count_op(op_class: str, setting: Setting) -> Found:
    """Count an op's kernels and compare their sums with the model; on a CPU it is only modeled."""
    setting.needs_perfkit()
    costs, export = setting.folder / "costs.json", setting.folder / "counters.csv"
    program = [sys.executable, "-m", "benchmarks.gpu.op_classes", op_class, str(costs), "--device", setting.device]
    if setting.device == "cpu":
        subprocess.run(program, check=True, cwd=ROOT)
        return Found({"modeled": json.loads(costs.read_text()), "counted": None}, ["counters need a GPU"])
    from perfkit.instruments.ncu import build_ncu_command

    ncu = _find_ncu(setting)
    command = build_ncu_command(ncu, export, _chip_metrics(ncu, setting.home / CHIP_METRICS))
    ended = run_together({op_class: Command([*command, *program], setting.folder / "ncu.log")}, NCU_S)[op_class]
    return compare_op(op_class, costs, export, ended)


def compare_op(op_class: str, costs: Path, export: Path, ended: Ended) -> Found:
    """Compare the modeled costs with the export; wrong are ratios beyond `BOUNDS`, and an export without counts."""
    from perfkit.instruments.ncu import explain_refusal

    figures: dict[str, Any] = {"exit_code": ended.code, "ncu_s": round(ended.seconds, 1), "output": ended.tail}
    reason = f"ncu was ended after {NCU_S:.0f} s" if ended.code is None else explain_refusal(export)
    if reason:
        return Found(figures, ended.tail.splitlines(), [reason])
    modeled, counted = json.loads(costs.read_text()), sum_counters(export)
    ratios = {name: compute_ratio(modeled[name], counted[name]) for name in ("flops", "bytes")}
    figures |= {"modeled": modeled, "counted": counted, "ratios": ratios}
    lines = [
        f"{name}: model / counter {'unknown' if ratio is None else f'{ratio:.3f}'} "
        f"({modeled[name]} / {counted[name]}), {len(counted['kernels'])} kernels"
        for name, ratio in ratios.items()
    ]
    wrong = [
        f"{name} of {op_class}: model / counter is {ratio}, expected {low} to {high}"
        for (bounded, name), (low, high) in BOUNDS.items()
        if bounded == op_class and not ((ratio := ratios[name]) is not None and low <= ratio <= high)
    ]
    return Found(figures, [*lines, *counted["notes"]], wrong)


def sum_counters(export: Path) -> dict[str, Any]:
    """FLOPs, bytes of device memory and seconds of all launches of an export; None where a launch has no count."""
    from perfkit.trace.counters.match_counters import read_counters

    counters = read_counters(export)
    sums = {"flops": counters.flops, "bytes": counters.dram_bytes, "seconds": counters.seconds}
    return {
        **{name: None if (total := float(column.sum())) != total else total for name, column in sums.items()},
        "kernels": list(counters.kernels),
        "notes": [note.text for note in counters.notes],
    }


def compute_ratio(modeled: float | None, counted: float | None) -> float | None:
    """Model / counter; None where one is unknown or nothing was counted."""
    return modeled / counted if modeled is not None and counted else None


def _find_ncu(setting: Setting) -> Path:
    setting.needs_perfkit()
    setting.needs_gpu()
    from perfkit.core.errors import UsageError
    from perfkit.instruments.ncu import find_ncu

    try:
        return find_ncu()
    except UsageError as error:
        raise Skipped(str(error)) from None


def _chip_metrics(ncu: Path, kept: Path) -> tuple[str, ...]:
    from perfkit.instruments.ncu import list_chip_metrics

    if not kept.exists():
        kept.write_text(json.dumps(list_chip_metrics(ncu)))
    metrics: list[str] = json.loads(kept.read_text())
    return tuple(metrics)


BENCHES = tuple(
    Row(f"{workload}.{variant}", partial(count_bench, workload, variant), 300) for workload, variant in VARIANTS
)
# Of an op: 8 s to import and to create a context, 5 s of ncu's own, replays of two to four kernels.
ROWS = tuple(
    Row(op_class, partial(count_op, op_class), NCU_S + 15, planned_s=17, basis="8 s start, 5 s of ncu, replays")
    for op_class in BUILDERS
)

if __name__ == "__main__":
    main("counters", __doc__, ROWS, {"benches": BENCHES})
