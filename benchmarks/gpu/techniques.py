"""Third: every technique trained, whether it acted, trained the same, and where its memory went.

    python -m benchmarks.gpu.techniques --device cuda [--keep-fixtures]

Each row is one `perfkit bench` of a variant and its baseline. `gpt.*` is GPT-2 124M with the batch of the published
figures, `resnet.*` the ResNet-50. A row is wrong where the variant failed, a claim does not hold, the losses differ, or
what is left of NVML's figure for the process is more than 3 % of it. `--keep-fixtures` leaves a small trace and a small
history of the allocator in `OUT/DEVICE/fixtures/`; look what paths and names they hold before you publish them.
"""

import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.rows import Found, Row, Setting, Skipped, main, perfkit

if TYPE_CHECKING:
    from perfkit.analysis.model.suite import Variant

WORKLOADS = {
    ("gpt", "cuda"): ("-w", "gpt:size=small", "--batch-size", "16"),
    ("gpt", "cpu"): ("-w", "gpt:size=nano", "--batch-size", "1", "--seq-len", "32"),
    ("resnet", "cuda"): ("-w", "resnet:depth=50:image_size=224:classes=1000", "--batch-size", "64"),
    ("resnet", "cpu"): ("-w", "resnet:image_size=32", "--batch-size", "2"),
}
SCHEDULES = {
    "cuda": ("--rounds", "0"),
    "cpu": ("--rounds", "0", "--steps", "3", "--warmup", "1", "--threads", "1", "--no-calibrate"),
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
FIXTURE_BYTES = 10**6


@dataclass(frozen=True)
class Published:
    """What others measured: the time of a step of GPT-2 124M with batch 16 x 1024 on an A100, or an MFU."""

    what: str
    source: str
    step_s: float | None = None
    mfu: float | None = None


_LECTURE = "A. Karpathy, Let's reproduce GPT-2 (124M), chapters of the video; A100"
_FOUNDRY = Published(
    "MPT 1B, 8 H100, T 2048, bf16, FSDP", "mosaicml/llm-foundry, scripts/train/benchmarking", mfu=0.4182
)
_TITAN = Published("Llama 3.1 8B, 8 H100, FSDP", "pytorch/torchtitan, docs/performance.md", mfu=0.33)
_TITAN_COMPILED = Published("Llama 3.1 8B, 8 H100, FSDP and compile", _TITAN.source, mfu=0.39)
PUBLISHED = {
    "gpt.baseline": (Published("fp32", _LECTURE, step_s=1.0),),
    "gpt.amp": (Published("bf16", _LECTURE, step_s=0.3),),
    "gpt.amp+compile": (Published("bf16, compile", _LECTURE, step_s=0.13),),
    "gpt.amp+flash": (_TITAN, _FOUNDRY),
    "gpt.amp+flash+compile": (Published("bf16, compile, flash", _LECTURE, step_s=0.096), _TITAN_COMPILED),
}
_PUBLISHED_TOKENS = 16 * 1024
_PUBLISHED_DEVICE = "a100-sxm-80gb"


def trained(workload: str, variant: str, setting: Setting) -> Found:
    setting.needs_perfkit()
    result = _variant(_bench(workload, variant, setting), variant)
    figures, wrong = _figures(result)
    if setting.device == "cuda":
        wrong += _of_gpu(figures)
    published = PUBLISHED.get(f"{workload}.{variant}", ()) if setting.device == "cuda" else ()
    figures["published"] = [_published(publication, variant) for publication in published]
    step, peak, mfu = _shown(figures["step_s"], "s"), _shown(figures["peak_bytes"], "bytes"), _shown(figures["mfu"])
    process, unexplained = _shown(figures["process_bytes"], "bytes"), _shown(figures["unexplained_share"])
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


def fixtures(setting: Setting) -> Found:
    """A trace and a history small enough to be kept among the tests."""
    setting.needs_gpu()
    setting.needs_perfkit()
    from perfkit.store.layout import HISTORY_FILE, TRACE_FILE

    command = ("-w", "gpt:size=nano", "--batch-size", "1", "--seq-len", "64", "-t", "amp", "--no-calibrate")
    folder = setting.folder / "suite"
    _run(perfkit("bench", "--device", "cuda", *command, *SCHEDULES["cuda"], "--out", str(folder)))
    kept = setting.home / "fixtures"
    kept.mkdir(exist_ok=True)
    sizes = {}
    for name in (TRACE_FILE, HISTORY_FILE):
        shutil.copy(folder / "amp" / "0" / "rank0" / name, kept / name)
        sizes[name] = (kept / name).stat().st_size
    wrong = [f"{name} has {size} bytes" for name, size in sizes.items() if size > FIXTURE_BYTES]
    return Found({"bytes": sizes}, [f"{kept / name}: {size} bytes" for name, size in sizes.items()], wrong)


def _bench(workload: str, variant: str, setting: Setting) -> Path:
    folder = setting.folder / "suite"
    _run(
        perfkit(
            "bench", "--device", setting.device, *WORKLOADS[workload, setting.device], *SCHEDULES[setting.device],
            "--technique", variant, "--out", str(folder),
        )
    )  # fmt: skip
    return folder


def _run(command: list[str]) -> None:
    """A bench; that a variant failed (exit code 1) is told by its report."""
    code = subprocess.run(command).returncode
    if code not in (0, 1):
        raise RuntimeError(f"perfkit bench ended with exit code {code}")


def _variant(folder: Path, name: str) -> "Variant":
    from perfkit.analysis.model.suite import Analysis
    from perfkit.files import read_json
    from perfkit.record import Status

    variants = {one.name: one for one in read_json(folder / "report.json", Analysis).variants}
    variant = variants[name]
    if variant.status == Status.SKIPPED:
        raise Skipped(variant.reason)
    return variant


def _figures(variant: "Variant") -> tuple[dict[str, Any], list[str]]:
    """What the report says of the variant, and what of it should not be so."""
    from perfkit.analysis.memory.beyond import RESIDUAL
    from perfkit.analysis.model.estimate import Estimate
    from perfkit.record import Status, value_of

    memory = variant.memory
    unexplained = None
    if memory is not None and memory.process_bytes is not None:
        residual = next(share.bytes for share in memory.beyond if share.category == RESIDUAL)
        unexplained = abs(residual) / memory.process_bytes
    step = variant.traced_step
    figures = {
        "status": variant.status,
        "step_s": variant.step_time.value if isinstance(variant.step_time, Estimate) else None,
        "ratio": variant.difference and variant.difference.ratio,
        "peak_bytes": value_of(variant.peak_allocated),
        "mfu": value_of(variant.mfu),
        "hfu": value_of(variant.hfu),
        "engaged": variant.engaged,
        "claims": {claim.statement: claim.holds for claim in variant.claims},
        "parity": variant.parity.verdict,
        "parity_relative": variant.parity.max_relative,
        "kernels_per_step": step and step.kernels_per_step,
        "modelled_share": step and step.modelled_share,
        "process_bytes": None if memory is None else memory.process_bytes,
        "beyond": {} if memory is None else {share.category: share.bytes for share in memory.beyond},
        "unexplained_share": unexplained,
        "warnings": list(variant.warnings),
    }
    wrong = [f"not so: {claim.statement} ({claim.evidence})" for claim in variant.claims if claim.holds is False]
    if variant.status != Status.OK:
        wrong.append(f"{variant.status}: {variant.reason}")
    return figures, wrong


def _of_gpu(figures: dict[str, Any]) -> list[str]:
    """What should not be so with the sizes of a GPU.

    Those of a CPU are too small to judge: a batch norm over two values makes much of every rounding, and pages of the
    libraries outweigh the model.
    """
    wrong = []
    if figures["parity"] == "differs":
        wrong.append(f"losses differ by {figures['parity_relative']}")
    unexplained = figures["unexplained_share"]
    if unexplained is not None and unexplained > MOST_UNEXPLAINED:
        wrong.append(f"{unexplained:.1%} of what NVML counts for the process is not explained")
    return wrong


def _published(publication: Published, variant: str) -> dict[str, Any]:
    """Its MFU: as published, or from its step time as perfkit counts FLOPs and that device's peak."""
    mfu = publication.mfu
    if publication.step_s is not None:
        from perfkit.devices.catalogue import ceilings, named
        from perfkit.workloads.gpt import SIZES, flops_per_token

        wanted = ("matrix", "bf16") if "amp" in variant else ("vector", "fp32")
        sheet = ceilings(named(_PUBLISHED_DEVICE))
        (peak,) = (ceiling.value for ceiling in sheet if (ceiling.level, ceiling.dtype) == wanted)
        mfu = flops_per_token(SIZES["small"], 1024) * _PUBLISHED_TOKENS / publication.step_s / peak
    return {"what": publication.what, "source": publication.source, "step_s": publication.step_s, "mfu": mfu}


def _shown(value: float | None, unit: str = "") -> str:
    if value is None:
        return "unknown"
    if not unit:
        return f"{value:.1%}"
    return f"{value * 1e3:.1f} ms" if unit == "s" else f"{value / 2**20:,.0f} MiB"


def _at_most_s(variant: str) -> float:
    return 420 if "max-autotune" in variant else 300 if "compile" in variant else 180


ROWS = tuple(
    Row(f"{workload}.{variant}", partial(trained, workload, variant), _at_most_s(variant))
    for workload, variants in (("gpt", GPT), ("resnet", RESNET))
    for variant in variants
)

if __name__ == "__main__":
    main("techniques", __doc__, ROWS, {"keep-fixtures": (Row("fixtures", fixtures, 120),)})
