"""Every technique trained: whether it acts, trains the same, and how its memory balances.

    python -m benchmarks.gpu.techniques --device cuda [--keep-fixtures]

Each row is one `perfkit bench` of a variant and its baseline. `gpt.*` is GPT-2 124M with the batch of the published
figures, `resnet.*` the ResNet-50. A row is wrong where the variant failed, a claim does not hold, the losses differ, or
more than 3 % of NVML's figure for the process is unexplained. `--keep-fixtures` adds the row of
`benchmarks.gpu.fixtures`.
"""

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.bench_results import bench_command, describe_variant, read_variant, run_bench
from benchmarks.gpu.fixtures import ROWS as FIXTURE_ROWS
from benchmarks.gpu.published import list_published
from benchmarks.gpu.rows import Found, Row, Setting, main

WORKLOADS = {
    ("gpt", "cuda"): ("-w", "gpt:size=small", "--batch-size", "16"),
    ("gpt", "cpu"): ("-w", "gpt:size=nano", "--batch-size", "1", "--seq-len", "32"),
    ("resnet", "cuda"): ("-w", "resnet:depth=50:image_size=224:classes=1000", "--batch-size", "64"),
    ("resnet", "cpu"): ("-w", "resnet:image_size=32", "--batch-size", "2"),
}
# The cheap ones first; what compiles for minutes last.
GPT = (
    "baseline", "amp", "ckpt", "flash:backend=efficient", "amp+flash", "offload:what=activations",
    "offload:what=optimizer", "offload:what=parameters", "amp:dtype=fp16", "ckpt:mode=selective", "amp+flash+ckpt",
    "amp+flash:backend=cudnn", "compile", "amp+compile", "amp+flash+compile", "compile:mode=reduce-overhead",
    "amp+flash+compile:mode=reduce-overhead", "compile:mode=max-autotune-no-cudagraphs", "compile:mode=max-autotune",
)  # fmt: skip
RESNET = ("baseline", "amp", "ckpt", "compile", "amp+compile", "amp+compile:mode=reduce-overhead")

MOST_UNEXPLAINED = 0.03  # of what NVML counts for the process


def train_variant(workload: str, variant: str, setting: Setting) -> Found:
    setting.needs_perfkit()
    result = read_variant(_bench(workload, variant, setting), variant)
    figures, wrong = describe_variant(result)
    if setting.device == "cuda":
        wrong += check_gpu_figures(figures)
    figures["published"] = list_published(f"{workload}.{variant}", variant) if setting.device == "cuda" else []
    step, peak, mfu = _show(figures["step_s"], "s"), _show(figures["peak_bytes"], "bytes"), _show(figures["mfu"])
    process, unexplained = _show(figures["process_bytes"], "bytes"), _show(figures["unexplained_share"])
    lines = [
        f"step {step}, peak {peak}, MFU {mfu}, engaged {figures['engaged']}, losses {figures['parity']}",
        f"of the process's {process} unexplained: {unexplained}",
        *(
            f"published: MFU {publication['mfu']:.1%}, {publication['what']} ({publication['source']})"
            for publication in figures["published"]
        ),
        *(f"warning: {warning}" for warning in result.warnings),
    ]
    return Found(figures, lines, wrong)


def _bench(workload: str, variant: str, setting: Setting) -> Path:
    folder = setting.folder / "suite"
    arguments = (*WORKLOADS[workload, setting.device], "--technique", variant)
    run_bench(bench_command(setting.device, *arguments, out=folder))
    return folder


def check_gpu_figures(figures: dict[str, Any]) -> list[str]:
    """Contradictions in the figures of a GPU: losses that differ, and memory that nothing explains.

    The sizes of a CPU are too small for both: a batch norm over two values amplifies every rounding, and pages of the
    libraries outweigh the model.
    """
    wrong = []
    if figures["parity"] == "differs":
        wrong.append(f"losses differ by {figures['parity_relative']}")
    unexplained = figures["unexplained_share"]
    if unexplained is not None and unexplained > MOST_UNEXPLAINED:
        wrong.append(f"{unexplained:.1%} of what NVML counts for the process is not explained")
    return wrong


def _show(value: float | None, unit: str = "") -> str:
    if value is None:
        return "unknown"
    if not unit:
        return f"{value:.1%}"
    return f"{value * 1e3:.1f} ms" if unit == "s" else f"{value / 2**20:,.0f} MiB"


def _limit_s(variant: str) -> float:
    return 420 if "max-autotune" in variant else 300 if "compile" in variant else 180


ROWS = tuple(
    Row(f"{workload}.{variant}", partial(train_variant, workload, variant), _limit_s(variant))
    for workload, variants in (("gpt", GPT), ("resnet", RESNET))
    for variant in variants
)

if __name__ == "__main__":
    main("techniques", __doc__, ROWS, {"keep-fixtures": FIXTURE_ROWS})
