"""Inspects a running process from outside: its stacks, and the system's figures."""

import contextlib
import time
from pathlib import Path

import psutil
import pynvml

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.record.quantity import Quantity, Unknown, make_measurement
from perfkit.core.texts.redact import redact_arguments
from perfkit.instruments.sensors.process_ranks import (
    add_descendants,
    find_ranks,
    find_spawned_ranks,
    list_rank_processes,
)
from perfkit.instruments.sensors.sensors import open_sensors
from perfkit.instruments.stacks.collapsed_stacks import read_collapsed
from perfkit.instruments.stacks.py_spy import explain_scope, spy_on_process
from perfkit.store.process import ProcessFacts
from perfkit.store.stacks import SampledThread


def find_process(pid: int) -> psutil.Process:
    """Find the process; raise a `UsageError` if there is none."""
    try:
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return process
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        pass
    raise UsageError(f"no running process {pid}; `ps aux | grep python` lists the running ones")


def sample_process(
    process: psutil.Process, file: Path, *, seconds: float, hz: int
) -> tuple[ProcessFacts, list[SampledThread]]:
    """Look at a process for some seconds; py-spy's stacks stay in `file`. Raises what `spy_on_process` does."""
    try:
        directory, command = process.cwd(), tuple(redact_arguments(process.cmdline()))
        children = process.children(recursive=True)
        use, age = {process.pid: _read_use(process)}, time.time() - process.create_time()
    except psutil.AccessDenied:
        raise UnavailableError(f"process {process.pid} cannot be inspected; {explain_scope()}") from None
    except psutil.NoSuchProcess:
        raise UsageError(f"process {process.pid} ended before it could be sampled") from None
    parents: dict[int, int] = {}
    for child in children:
        with contextlib.suppress(psutil.Error):  # it has ended
            use[child.pid], parents[child.pid] = _read_use(child), child.ppid()
    children = [child for child in children if child.pid in parents]
    family, launched = [process, *children], find_ranks(process, children)
    device_memory = _read_device_memory([member.pid for member in family])
    before, began = _read_cpu_s(family), time.monotonic()
    spied = spy_on_process(process.pid, file, seconds=seconds, hz=hz)
    after, elapsed = _read_cpu_s(family), time.monotonic() - began
    ended = not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    used = None if ended else sum(after[pid] - before[pid] for pid in after.keys() & before.keys())
    threads = list(read_collapsed(spied.text, pid=process.pid, hz=hz, seconds=spied.seconds, directory=directory))
    ranks: dict[int, int | None] = dict(launched)
    workers = sorted((worker.pid for worker in list_rank_processes(launched, children)), key=launched.__getitem__)
    if not workers and (spawned := find_spawned_ranks(threads, parents)):
        workers, ranks = list(spawned), add_descendants(spawned, parents)
    measured = workers or [process.pid]
    none = Unknown(reason="the process ended during sampling")
    facts = ProcessFacts(
        pid=process.pid,
        command=command,
        directory=directory,
        age_s=age,
        cpu=none if used is None else make_measurement(used / elapsed, "1", "CPU time of the process and its children"),
        resident=make_measurement(
            sum(use[pid][0] for pid in measured),
            "bytes",
            f"the operating system, {'the ranks' if workers else 'this process'}",
        ),
        threads=sum(use[pid][1] for pid in measured),
        children=len(family) - 1,
        device_memory=device_memory,
        hz=hz,
        seconds=spied.seconds,
        has_ended=ended,
        failed_samples=spied.failed,
        interrupted=spied.interrupted,
        ranks=ranks,
        rank_pids=tuple(workers),
        spawned=bool(workers) and not launched,
    )
    return facts, threads


def _read_use(process: psutil.Process) -> tuple[int, int]:
    """Resident bytes and number of threads."""
    return process.memory_info().rss, process.num_threads()


def _read_cpu_s(family: list[psutil.Process]) -> dict[int, float]:
    used = {}
    for member in family:
        try:
            times = member.cpu_times()
        except psutil.Error:
            continue
        used[member.pid] = times.user + times.system
    return used


def _read_device_memory(pids: list[int]) -> Quantity:
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    except pynvml.NVMLError:
        return Unknown(reason="NVML is not available: no NVIDIA driver")
    readings = [sensors.process_used_bytes(pid) for uuid in uuids if (sensors := open_sensors(uuid)) for pid in pids]
    known = [used.value for used in readings if not isinstance(used, Unknown)]
    if known:
        return make_measurement(sum(known), "bytes", "NVML, the process and its children")
    return readings[0] if readings else Unknown(reason="NVML lists no device")
