"""A rank's life: set-up, the passes in their order, and a record that says how it ended."""

import os
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import msgspec
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.distributed import ProcessGroupGloo, Store

from perfkit.core.allocations import FailedRequest
from perfkit.core.errors import PerfkitError
from perfkit.core.note import make_note
from perfkit.core.record.quantity import Unknown
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.spec import RunSpec
from perfkit.core.texts.error_text import cap_line, format_first_line, format_traceback
from perfkit.core.units import format_bytes
from perfkit.devices.accelerator import get_accelerator
from perfkit.devices.machine.shared_gpu import EMULATED
from perfkit.instruments.failure_status import classify_error
from perfkit.instruments.memory.failed_request import parse_failed_request
from perfkit.instruments.recorder import Recorder
from perfkit.instruments.sensors.memory_peaks import read_peak_rss_bytes
from perfkit.measure.launch.network import GLOO_INTERFACES
from perfkit.measure.rank import passes
from perfkit.measure.rank.flight_dump import save_flight_record
from perfkit.measure.rank.foreign_imports import check_imports
from perfkit.measure.rank.loss_noise import run_echo_pass, run_seeded_pass
from perfkit.measure.rank.out_of_memory import record_failure
from perfkit.measure.rank.rank_device import join_group, open_store, take_device
from perfkit.measure.rank.session import TrainingSession
from perfkit.measure.rank.session_setup import set_up_session
from perfkit.measure.rank.trace_pass import run_trace_pass
from perfkit.store.layout import get_rank_folder
from perfkit.techniques.base.rank_sharing import build_mesh
from perfkit.techniques.base.state import World
from perfkit.techniques.base.technique import explain_refusal
from perfkit.techniques.compose import compose_techniques
from perfkit.workloads.user_workload import format_user_traceback, get_source_file


class _SingleWorkerGloo(ProcessGroupGloo):
    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta, **features: Any) -> None:
        if any(features.values()):  # that options do not take: torch 2.14 has `enable_reconfigure`
            super().__init__(store, rank, size, timeout, **features)
            return
        gloo: Any = ProcessGroupGloo  # whose stub has other names
        options = gloo._Options()
        interfaces = [name for name in os.environ.get(GLOO_INTERFACES, "").split(",") if name]
        devices = [gloo.create_device(interface=name) for name in interfaces]
        options._devices = devices or [gloo.create_default_device()]
        options._timeout = timeout
        options._threads = 1
        super().__init__(store, rank, size, options)


def limit_gloo_workers() -> None:
    """From now on all Gloo groups of this process have one worker. torch takes options for every backend but this."""
    create = c10d._new_process_group_helper

    def with_one_worker(*args: Any, **options: Any) -> Any:
        # Only while entered: later torch checks groups against this class, and they would lose a subclass.
        with patch.object(c10d, "ProcessGroupGloo", _SingleWorkerGloo):
            return create(*args, **options)

    c10d._new_process_group_helper = with_one_worker


Pass = Callable[[TrainingSession], None]

ALWAYS: dict[str, Pass] = {"warm-up": passes.run_warm_up_pass, "timed steps": passes.run_timed_pass}
# The trace before the memory pass, which counts bytes and does not mind the heap that an earlier recording leaves.
INSTRUMENTED: dict[str, Pass] = {
    "trace": run_trace_pass,
    "memory": passes.run_memory_pass,
    "evidence": passes.run_evidence_pass,
    "echo": run_echo_pass,
    "seeded": run_seeded_pass,
    "counters": passes.run_counters_pass,
}
# Passes whose failure does not fail the run: earlier timings remain valid.
_FOR_THEMSELVES = ("trace", "memory", "evidence", "echo", "seeded")


def run_rank(
    spec: RunSpec,
    folder: Path,
    *,
    rank: int,
    local_rank: int,
    report: Callable[[str], None],
    chosen: Mapping[str, Pass] | None = None,
) -> RunStatus:
    """Run all passes of `spec`, or `chosen` instead, in this process.

    The record under `folder` is complete whatever happens. An instrumented pass that raises loses only its own figures,
    and the record has a warning.
    """
    world = World(rank=rank, size=spec.launch.world_size, local_rank=local_rank)
    unfinished = RankRecord(
        rank=rank, world_size=world.size, status=RunStatus.CRASHED, reason="the process ended and gave no reason"
    )
    recorder = Recorder(get_rank_folder(folder, rank), unfinished)
    session: TrainingSession | None = None
    request: FailedRequest | None = None
    name = "setup"
    diverged = False
    try:
        store = open_store(folder, world, spec.launch.nodes) if world.size > 1 else None
        device, shared = take_device(spec.launch, world, store)
        if shared:
            recorder.add_facts({"emulated": 1.0}, {"emulated": EMULATED})
        if store is not None:
            if build_mesh(compose_techniques(spec.techniques), world, device).size("tp") > 1:
                limit_gloo_workers()
            join_group(device, store, world)
        start = perf_counter()
        session = set_up_session(spec, device, world, recorder, report)
        durations = {name: perf_counter() - start}
        check_imports()
        for name, run in (_select_passes(spec) if chosen is None else chosen).items():
            report(name)
            start = perf_counter()
            try:
                run(session)
            except Exception as error:
                if chosen is not None or name not in _FOR_THEMSELVES:
                    raise
                traceback.print_exception(error)
                _skip_failed_pass(session, name, error)
                if world.size > 1:
                    diverged = True  # its steps are out of step with the other ranks', which may wait for it
                    break
            durations[name] = perf_counter() - start
            recorder.update(pass_s=dict(durations))
        check_imports()  # again: a step may import too
        recorder.update(status=RunStatus.OK, reason="")
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - however it ends, the record says so
        traceback.print_exception(error)  # the full traceback, for the log
        recorder.update(**_describe_ending(error, spec, name, session))
        if recorder.record.status == RunStatus.OUT_OF_MEMORY:
            request = parse_failed_request(error)
    try:
        if dist.is_initialized() and recorder.record.status not in (RunStatus.OK, RunStatus.SKIPPED):
            _save_flight_record(recorder)  # now that the exception and what its frames held are gone
        if session is not None and request is not None and "memory" in spec.passes:
            _record_memory_failure(session, request, report)
    finally:
        if session is not None:
            session.state.close()
    if diverged and recorder.record.status == RunStatus.OK:
        return RunStatus.CRASHED  # only to the parent, which gives the others seconds to notice
    if dist.is_initialized() and recorder.record.status in (RunStatus.OK, RunStatus.SKIPPED):
        dist.destroy_process_group()
    return recorder.record.status


def _select_passes(spec: RunSpec) -> dict[str, Pass]:
    """Timing first, then energy, which is taken in every process as times are, then what slows steps down."""
    energy = {"energy": passes.run_energy_pass} if spec.schedule.energy_s else {}
    return ALWAYS | energy | {key: run for key, run in INSTRUMENTED.items() if key in spec.passes}


def _skip_failed_pass(session: TrainingSession, name: str, error: Exception) -> None:
    """Record the missing figures, and drop gradients of an unfinished step before the next pass."""
    recorder = session.recorder
    reason = f"the {name} pass failed: {format_first_line(error)}"
    recorder.warn(
        make_note(
            "run.pass_failed", f"{reason}; its figures are missing, and the timed steps are valid", pass_name=name
        )
    )
    flops = recorder.record.flops
    if name == "evidence" and flops is not None and isinstance(flops.hardware, Unknown):
        recorder.update(flops=msgspec.structs.replace(flops, hardware=Unknown(reason=reason)))
    session.state.zero_grad()


def _save_flight_record(recorder: Recorder) -> None:
    try:
        save_flight_record(recorder.folder)
    except (PerfkitError, RuntimeError, MemoryError) as error:
        text = f"the last collectives could not be recorded: {format_first_line(error)}"
        recorder.warn(make_note("run.no_flight_record", text))


def _record_memory_failure(session: TrainingSession, request: FailedRequest, report: Callable[[str], None]) -> None:
    """Record live memory, now that the exception and everything its frames held are gone."""
    report("what filled the memory")
    try:
        record_failure(session, request)
    except (RuntimeError, MemoryError, OSError) as error:
        text = f"live memory at the failure could not be recorded: {format_first_line(error)}"
        session.recorder.warn(make_note("run.no_failure_memory", text))


def _describe_ending(
    error: BaseException, spec: RunSpec, name: str, session: TrainingSession | None
) -> dict[str, object]:
    """The record's fields for a run that ended with `error` in the pass `name`."""
    status = classify_error(error)
    step = session.next_step if session is not None else None
    reason, reason_id = format_first_line(error), ""
    if isinstance(error, PerfkitError):
        reason, reason_id = cap_line(str(error).splitlines()[0]), error.id
    if session is not None and (cannot := explain_refusal(error, session.techniques)):
        status, reason, reason_id = RunStatus.SKIPPED, cannot, "skip.step"
    if status == RunStatus.OUT_OF_MEMORY:
        accelerator = get_accelerator(spec.launch.device)
        counts = accelerator.has_memory_statistics
        peak = accelerator.runtime.max_memory_allocated() if counts else read_peak_rss_bytes()
        when = "while setting up" if step is None else f"at step {step}"
        of = "allocated" if counts else "resident"
        reason = f"out of memory {when}, peak {format_bytes(peak)} {of}"
    text = "" if status == RunStatus.SKIPPED else _format_traceback(error, get_source_file(spec.workload.name))
    ending = {"status": status, "reason": reason, "reason_id": reason_id, "traceback": text}
    return {**ending, "failed_pass": name, "failed_step": step}


def _format_traceback(error: BaseException, user_file: Path | None) -> str:
    """A user's error shows the user's frames only; an error in a built-in workload shows all."""
    if user_file:
        return format_user_traceback(error, user_file)
    return format_traceback(traceback.TracebackException.from_exception(error))
