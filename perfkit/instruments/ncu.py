"""Nsight Compute around a worker: where it is, how it is called, and why it refused.

Only the kernels between cudaProfilerStart and cudaProfilerStop are counted, which the worker calls around its step.
An NVTX filter would not do: push/pop ranges belong to a thread, and autograd launches the backward pass from another
one (Nsight Compute CLI, "NVTX Filtering": both kinds of ranges, and which thread's kernels they hold).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from perfkit.core.errors import UsageError

PROGRAMS = ("ncu", "nv-nsight-cu-cli")  # the second is its name before 2020

_INSTRUCTIONS = ("fadd", "fmul", "ffma", "hadd", "hmul", "hfma", "dadd", "dmul", "dfma")

# What `perfkit.trace.counters.metrics` makes FLOPs and bytes of, as far as every chip has it.
METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "l1tex__t_bytes.sum",
    *(f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum" for name in _INSTRUCTIONS),
)
# What some chips have besides. A name that a chip does not know is an error, and so is a pattern that matches nothing.
_OF_SOME_CHIPS = re.compile(r"^(?:sm__ops_path_tensor_src_\w+|sm__inst_executed_pipe_tensor)\b", re.MULTILINE)


def find_ncu(environment: Mapping[str, str] | None = None) -> Path:
    """Nsight Compute's command line: on PATH, in CUDA_HOME or CUDA_PATH, or where its packages install it.

    A `UsageError` says where to get it.
    """
    environment = os.environ if environment is None else environment
    for program in PROGRAMS:
        on_path = shutil.which(program, path=environment.get("PATH", ""))
        if on_path is not None:
            return Path(on_path)
    homes = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    installed = [Path(home) / "bin" / "ncu" for home in (*homes, "/usr/local/cuda")]
    installed += sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True)
    usable = next((path for path in installed if os.access(path, os.X_OK)), None)
    if usable is None:
        raise UsageError(
            "--counters needs Nsight Compute, and ncu is not on PATH, in CUDA_HOME or in "
            "/opt/nvidia/nsight-compute; install it with the CUDA toolkit or from "
            "https://developer.nvidia.com/nsight-compute, or omit --counters"
        )
    return usable


def list_chip_metrics(ncu: Path) -> tuple[str, ...]:
    """List the chip-specific metrics that the GPUs here have; empty if ncu does not report them."""
    answer = subprocess.run([ncu, "--query-metrics"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return tuple(f"{name}.sum" for name in dict.fromkeys(_OF_SOME_CHIPS.findall(answer.stdout)))


def build_ncu_command(ncu: Path, export: Path, more: Sequence[str] = ()) -> tuple[str, ...]:
    """The words that go before a program's own command line; counts of `METRICS` and `more` go to `export`, as CSV in
    base units.

    Each kernel is replayed until all metrics are collected, with caches flushed before each pass (ncu's default), so
    that counts repeat; clocks are left as they are in training.
    """
    return (
        str(ncu),
        "--target-processes", "all",
        "--profile-from-start", "off",
        "--replay-mode", "kernel",
        "--clock-control", "none",
        "--metrics", ",".join((*METRICS, *more)),
        "--csv",
        "--page", "raw",
        "--print-units", "base",
        "--print-kernel-base", "demangled",
        "--log-file", str(export),
    )  # fmt: skip


_REFUSALS = (
    (
        "ERR_NVGPUCTRPERM",
        "this user may not read the GPU's counters (ERR_NVGPUCTRPERM); run as root or with CAP_SYS_ADMIN (a "
        "container: --cap-add SYS_ADMIN), or have an administrator load the driver with "
        "NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/ERR_NVGPUCTRPERM)",
    ),
    (
        "driver resource was unavailable",
        ("another tool is reading the GPU's counters, most often DCGM; pause it (dcgmi profile --pause) and run again"),
    ),
    ("No kernels were profiled", "no kernel ran while counting was active"),
)


def explain_refusal(export: Path) -> str:
    """Explain why an export holds no counters, and what to do; empty if it holds some."""
    if not export.is_file():
        return "ncu ended before it wrote anything"
    text = export.read_text(errors="replace")
    if any(line.startswith('"ID"') for line in text.splitlines()):
        return ""
    known = next((reason for words, reason in _REFUSALS if words in text), None)
    if known is not None:
        return known
    errors = [line.removeprefix("==ERROR==").strip() for line in text.splitlines() if line.startswith("==ERROR==")]
    return f"ncu wrote no counters: {errors[0] if errors else 'no reason given'}"
