"""Builds the subject of advice: a suite's baseline, a trace from any machine, or a workload."""

import shlex
from pathlib import Path
from statistics import median
from typing import NamedTuple

from perfkit.analysis.pipeline.read_passes import select_ceilings
from perfkit.analysis.suite.runs import VariantRuns, find_baseline_names
from perfkit.core.errors import UsageError
from perfkit.core.note import Note, list_texts, make_note
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.devices.machine.machine import read_cpu_model
from perfkit.plan.advise import traced_step
from perfkit.plan.advise.advice import Kind
from perfkit.plan.advise.traced_step import TracedStep
from perfkit.plan.target.target import Target, explain_unknown_gpu, find_run_target
from perfkit.store.request import BenchRequest
from perfkit.store.suite_reader import StoredSuite, read_suite
from perfkit.workloads.workload_table import require_trusted_workload

# Dtype of the parameters, which a trace lacks: that of most products.
_DTYPES = ("bf16", "fp16")

_UNNAMED = "the run names no workload to plan; advise a workload FILE.py:FUNCTION"


class RunPlace(NamedTuple):
    """The place of a step: torch's device type, parameter dtype, number of ranks."""

    device: str
    dtype: str
    world_size: int


class AdviceSubject(NamedTuple):
    """A step: its recording (`step`), its `request`, and the `target` of plans; `notes` explain missing ones.

    `bench_command` measures the technique that `-t` adds to it, "" where nothing can be measured.
    """

    name: str
    kind: Kind
    device: str
    place: RunPlace
    step: TracedStep | None = None
    request: BenchRequest | None = None
    target: Target | None = None
    notes: tuple[Note, ...] = ()
    bench_command: str = ""


def make_trace_subject(path: Path, device: str | None = None) -> AdviceSubject:
    """The steps of a trace. Raises what `traced.of_file` does."""
    step = traced_step.load_trace_step(path, device)
    trace = step.view.trace
    dtype = trace.matrix_dtype if trace.matrix_dtype in _DTYPES else "fp32"
    place = RunPlace(step.view.accelerator.type, dtype, trace.world_size or 1)
    note = make_note(
        "advice.no_memory",
        "memory is unknown: a trace does not describe the model; run perfkit advise on a run or a workload",
    )
    return AdviceSubject(path.name, "trace", trace.device_name or trace.device, place, step, notes=(note,))


def make_workload_subject(request: BenchRequest, target: Target) -> AdviceSubject:
    """A requested workload, on a device that may be absent."""
    place = RunPlace(target.kind, request.dtype, request.world_size or 1)
    return AdviceSubject(
        request.workload.label,
        "workload",
        target.device,
        place,
        None,
        request,
        target,
        bench_command=_format_bench_command(request),
    )


def _format_bench_command(request: BenchRequest) -> str:
    """The command that measures the requested workload; its sizes are in its label."""
    options = {
        "--dtype": (request.dtype, "fp32"),
        "--world-size": (request.world_size or 1, 1),
        "--accumulate": (request.accumulation, 1),
    }
    given = [part for option, (value, default) in options.items() if value != default for part in (option, str(value))]
    return shlex.join(("perfkit", "bench", "-w", request.workload.label, *given))


def make_run_subject(folder: Path, memory: str | None = None, variant: str = "") -> AdviceSubject:
    """A `variant` of a suite, the baseline if none is named: its traced step, and its workload where a suite of
    `perfkit bench` names one, which is planned for the device that it ran on. `memory` is what a rank may take of that,
    as for `target_of`.

    Raises:
        RunFormatError: the folder is no suite's, or is damaged.
        UsageError: it has neither a traced step nor a workload, or nothing to hold `memory` against, or its workload
            is code that the user has not named.
    """
    stored = read_suite(folder)
    runs = _find_runs(stored, variant)
    main = runs.main
    if main is None or not main.ranks:
        raise UsageError(f"{folder}: no run of {runs.name} has a record: nothing to advise on")
    environment, launch, notes = main.ranks[0].record.environment, main.spec.launch, []
    device = launch.device if environment is None else environment.device_name
    step: TracedStep | None = None
    try:
        step = _load_traced_step(stored.ceilings, runs)
    except UsageError as error:
        notes.append(make_note("advice.time_planned", f"time is planned, not simulated: {error}", error_id=error.id))
    request = next((session.request for session in stored.suite.sessions if session.request is not None), None)
    if request is not None:
        require_trusted_workload(request.workload, folder)
    target = None if request is None else find_run_target(launch.device, environment, memory)
    if target is None:
        unknown = _UNNAMED if request is None else explain_unknown_gpu(device)
        notes.append(make_note("advice.no_memory", f"memory is unknown: {unknown}"))
        if step is None:
            raise UsageError(f"{folder}: {'; '.join(list_texts(notes))}")
        if memory is not None:
            raise UsageError(f"{folder}: --memory needs a plan, but {notes[-1]}")
    elif step is None and device != read_cpu_model() and is_cpu(target.kind):
        notes.append(make_note("advice.this_cpu", f"times are planned for this machine's CPU, {read_cpu_model()}"))
    place = RunPlace(launch.device, main.spec.dtype, launch.world_size)
    workload = main.spec.workload.label
    name = workload if runs.name == workload else f"{runs.name} of {workload}"  # a user's own loop has its name
    bench_command = "" if request is None else shlex.join(("perfkit", "bench", "--into", str(folder)))
    return AdviceSubject(name, "run", device, place, step, request, target, tuple(notes), bench_command)


def _find_runs(stored: StoredSuite, variant: str) -> VariantRuns:
    names = stored.suite.variants or tuple(dict.fromkeys(run.variant for run in stored.runs))
    variants = [VariantRuns(name, tuple(run for run in stored.runs if run.variant == name)) for name in names]
    if variant:
        return next(runs for runs in variants if runs.name == variant)
    baselines = find_baseline_names(variants, stored.suite.baselines)
    return min((variant for variant in variants if variant.name in baselines), key=lambda variant: variant.world_size)


def _load_traced_step(ceilings: DeviceCeilings | None, runs: VariantRuns) -> TracedStep:
    assert runs.main is not None
    rank = next((rank for rank in runs.main.ranks if rank.trace is not None), None)
    if rank is None or rank.trace is None:
        raise UsageError("the run was not traced")
    timed = [median(samples) for samples in runs.get_slowest_samples(lambda record: record.samples)]
    environment = rank.record.environment
    return traced_step.load_run_step(
        rank.trace,
        select_ceilings(ceilings, environment),
        environment,
        step_s=median(timed) if timed else None,
        data_wait_share=rank.record.facts.get("data_wait_share"),
    )
