"""Fifth: modelled FLOPs and bytes against the GPU's own counters, per class of ops.

    python -m benchmarks.gpu.counters --device cuda

Each row is one `perfkit bench --counters` (Nsight Compute, `ncu`): the median of model / counter over the kernels of a
class, weighted by time, with the middle 80 %. Modelled bytes are what must be moved at least: below 1 is expected of
products that overflow L2, above 1 of chains that stay in it. Counted bytes are those of a cold cache
(`docs/counters.md`).
"""

import subprocess
from functools import partial

from benchmarks.gpu.rows import Found, Row, Setting, Skipped, main, perfkit

WORKLOADS = {
    "gpt": ("-w", "gpt:size=small", "--batch-size", "2"),
    "resnet": ("-w", "resnet:depth=50:image_size=224:classes=1000", "--batch-size", "16"),
}
VARIANTS = (("gpt", "baseline"), ("gpt", "amp"), ("gpt", "amp+flash"), ("resnet", "baseline"), ("resnet", "amp"))
# FLOPs of a matrix product are no matter of judgement.
EXACT = ("GEMM", "FLOPs")
NEAR = 0.05


def counted(workload: str, variant: str, setting: Setting) -> Found:
    setting.needs_perfkit()
    from perfkit.errors import UsageError
    from perfkit.instruments.ncu import find_ncu

    try:
        find_ncu()
    except UsageError as error:
        raise Skipped(str(error)) from None
    setting.needs_gpu()
    from perfkit.analysis.trace.analyse import analyse_traces
    from perfkit.files import read_json
    from perfkit.store.layout import COUNTERS_FILE, SUITE_FILE, TRACE_FILE, Suite, rank_folder, run_path

    folder = setting.folder / "suite"
    subprocess.run(
        perfkit(
            "bench", "--device", "cuda", *WORKLOADS[workload], "--technique", variant, "--rounds", "0", "--steps", "3",
            "--warmup", "3", "--no-calibrate", "--counters", "--out", str(folder),
        ),
        check=True,
    )  # fmt: skip
    rank = rank_folder(folder / run_path(variant, 0), 0)
    if not (rank / COUNTERS_FILE).exists():
        raise Skipped("; ".join(read_json(folder / SUITE_FILE, Suite).warnings))
    coverage = analyse_traces([str(rank / TRACE_FILE)], counters=rank / COUNTERS_FILE).traces[0].coverage
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
        wrong.append("no kernel of the trace was found among those that were counted")
    share = coverage.counted_s / coverage.kernel_s
    lines.append(f"{share:.1%} of the kernel time was counted")
    return Found({"counted_share": share, "classes": rows}, lines, wrong)


ROWS = tuple(Row(f"{workload}.{variant}", partial(counted, workload, variant), 300) for workload, variant in VARIANTS)

if __name__ == "__main__":
    main("counters", __doc__, ROWS)
