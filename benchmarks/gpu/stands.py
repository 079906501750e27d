"""Versions of the machine, and whether its recordings are complete.

    python -m benchmarks.gpu.stands --device cuda

`versions` and `packages` list what is installed. `parent` checks that the parent of a bench holds no memory of a GPU.
`lost-*` counts launches without a kernel in ten profiling sessions, with seconds of idling in between. `tests` runs
`tests/gpu`.
"""

import ctypes
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.lost import Lost, count_lost_kernels
from benchmarks.gpu.packages import ROOT, read_versions
from benchmarks.gpu.rows import Found, Row, Setting, Skipped, main, perfkit

SESSIONS = 10
IDLE_S = (0, 1, 10)
STEPS = 3  # traced in a session
LAYERS = 50
MOST_LOST = 0.001  # of the launches: more distorts figures


def versions(setting: Setting) -> Found:
    import torch

    stated: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "cuda_runtime": torch.version.cuda,
        "hip": torch.version.hip,
        "cupti": _cupti(),
    }
    if setting.device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        stated["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        stated["compute_capability"] = f"{properties.major}.{properties.minor}"
        stated["memory_bytes"] = properties.total_memory
        stated["cudnn"] = torch.backends.cudnn.version()
        stated["nccl"] = (
            ".".join(map(str, torch.cuda.nccl.version())) if torch.distributed.is_nccl_available() else None
        )
        stated["nvml"] = _nvml()
    return Found(stated, [f"{name}: {value}" for name, value in stated.items()])


def packages(_setting: Setting) -> Found:
    by_name = read_versions()
    absent = [name for name, version in by_name.items() if version is None]
    lines = [f"{name} {version or 'is missing'}" for name, version in by_name.items()]
    return Found({"installed": by_name}, lines, [f"missing: {', '.join(absent)}"] if absent else [])


def nvml(setting: Setting) -> Found:
    """NVML's figures of a process with a context: whether it lists it, and by which id."""
    setting.needs_gpu()
    _needs_nvml()
    import pynvml
    import torch

    torch.zeros(1, device="cuda")
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(0).uuid}")
    listed = {process.pid: process.usedGpuMemory for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    first = pynvml.nvmlDeviceGetMemoryInfo(handle)
    second = _query(partial(pynvml.nvmlDeviceGetMemoryInfo, version=pynvml.nvmlMemory_v2), handle)
    figures = {
        "processes": len(listed),
        "lists_itself": os.getpid() in listed,
        "own_bytes": listed.get(os.getpid()),
        "used_bytes_v1": first.used,
        "used_bytes_v2": second and second.used,
        "reserved_bytes": second and second.reserved,
        "energy_counter": _query(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle) is not None,
    }
    return Found(figures, [f"{name}: {value}" for name, value in figures.items()])


def parent(setting: Setting) -> Found:
    """The parent of a bench measures nothing, so no GPU should hold a context of it."""
    setting.needs_gpu()
    setting.needs_perfkit()
    import pynvml

    command = perfkit(
        "bench", "--device", "cuda", "-w", "gpt:size=nano", "-t", "baseline", "--rounds", "0", "--no-calibrate",
        "--out", str(setting.folder / "suite"),
    )  # fmt: skip
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    held: dict[int, int] = {}
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            for handle in handles:
                for listed in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
                    held[listed.pid] = max(held.get(listed.pid, 0), listed.usedGpuMemory or 0)
            time.sleep(0.05)
    if process.returncode:
        raise RuntimeError(f"the bench ended with exit code {process.returncode}")
    if not held:
        raise Skipped("NVML listed no process while a bench trained: in a container it may see none")
    figures = {"processes": len(held), "parent_is_listed": process.pid in held, "parent_bytes": held.get(process.pid)}
    wrong = ["the parent of a bench holds a context"] if process.pid in held else []
    return Found(figures, [f"{name}: {value}" for name, value in figures.items()], wrong)


def count_lost(idle_s: Sequence[float], setting: Setting) -> Found:
    """Launches without a kernel in profiling sessions of one process, each followed by so many idle seconds."""
    setting.needs_gpu()
    sessions = []
    for seconds in idle_s:
        sessions.append(_profile_session(setting.folder / "trace.json"))
        time.sleep(seconds)
    lines = [f"session {number}: {session} ({session.share:.2%})" for number, session in enumerate(sessions)]
    worst = max(range(len(sessions)), key=lambda number: sessions[number].share)
    wrong = [f"session {worst} lost {sessions[worst].share:.1%}"] if sessions[worst].share > MOST_LOST else []
    return Found({"idle_s": list(idle_s), "sessions": [session._asdict() for session in sessions]}, lines, wrong)


def tests(setting: Setting) -> Found:
    """Run `tests/gpu` and list how each test ended."""
    setting.needs_perfkit("pytest")
    report = setting.folder / "tests.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run([*command, str(ROOT / "tests" / "gpu")])
    if not report.exists():
        raise RuntimeError(f"pytest ended with exit code {done.returncode} and no report")
    cases = list(ET.parse(report).getroot().iter("testcase"))
    ended = {f"{case.get('classname')}::{case.get('name')}": _classify_case(case) for case in cases}
    counts = {how: list(ended.values()).count(how) for how in ("passed", "failed", "skipped")}
    failed = [name for name, how in ended.items() if how == "failed"]
    if not cases or counts["skipped"] == len(cases):
        reasons = {message for case in cases for message in (child.get("message", "") for child in case)}
        raise Skipped(f"all {len(cases)} tests were skipped: {', '.join(sorted(reasons))}")
    return Found({**counts, "tests": ended}, [str(counts), *failed], [f"{len(failed)} tests failed"] if failed else [])


def _profile_session(path: Path) -> Lost:
    """One session of the profiler with a warm-up step, as perfkit records."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    weight = torch.randn(512, 512, device="cuda")
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(1 + STEPS):
            x = weight
            for _ in range(LAYERS):
                x = torch.tanh(x @ weight)
            torch.cuda.synchronize()
            profiler.step()
    return count_lost_kernels(json.loads(path.read_text())["traceEvents"])


def _cupti() -> dict[str, Any] | None:
    """Version of the CUPTI that torch has loaded; None where it has loaded none."""
    maps = Path("/proc/self/maps")
    text = maps.read_text() if maps.exists() else ""
    paths = {line.split()[-1] for line in text.splitlines() if "libcupti" in line}
    if not paths:
        return None
    path = min(paths)
    number = ctypes.c_uint32()
    code = ctypes.CDLL(path).cuptiGetVersion(ctypes.byref(number))
    return {"library": str(Path(path).resolve().name), "api_version": number.value if code == 0 else None}


def _nvml() -> dict[str, Any] | None:
    if importlib.util.find_spec("pynvml") is None:
        return None
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return {
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "nvml": pynvml.nvmlSystemGetNVMLVersion(),
        "cuda_of_driver": pynvml.nvmlSystemGetCudaDriverVersion_v2(),
        "mig_mode": _query(pynvml.nvmlDeviceGetMigMode, handle),
        "power_limit_w": _query(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
    }


def _query(query: Any, handle: Any) -> Any:
    """NVML's answer; None where this device has none."""
    import pynvml

    try:
        return query(handle)
    except pynvml.NVMLError:
        return None


def _needs_nvml() -> None:
    if importlib.util.find_spec("pynvml") is None:
        raise Skipped("needs nvidia-ml-py")


def _classify_case(case: ET.Element) -> str:
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


_TESTS_BASIS = "7 s start, 23 s short calibration (recorded), 25 s trainings, 30 s compilation (estimates)"
ROWS = (
    Row("versions", versions, 60),
    Row("packages", packages, 30),
    Row("nvml", nvml, 60),
    Row("parent", parent, 120),
    *(Row(f"lost-{idle}s", partial(count_lost, (idle,) * SESSIONS), 60 + SESSIONS * idle) for idle in IDLE_S),
    Row("tests", tests, 300, planned_s=85, basis=_TESTS_BASIS),
)

if __name__ == "__main__":
    main("stands", __doc__, ROWS)
