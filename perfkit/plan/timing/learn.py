"""Learns from measured steps how fast a device does each kind of work: from suites of `perfkit bench`, and from
traces."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.memory.process_memory import compute_context_bytes
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.trace.rank_trace import DetailedAnalysis, analyze_with_details
from perfkit.analysis.trace.roofline.roofs import build_roofs
from perfkit.analysis.trace.trace_device import identify_device
from perfkit.core.errors import UnavailableError
from perfkit.core.record.environment import Environment
from perfkit.core.urls import is_url
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.catalog.catalog import CatalogEntry, find_entry
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.plan.timing.device_efficiencies import build_gpu_roofs
from perfkit.plan.timing.efficiency_store import LearnedDevice, LearnedProgram
from perfkit.plan.timing.samples import TimedCall, collect_calls, make_samples
from perfkit.store.layout import CEILINGS_FILE, SUITE_FILE
from perfkit.store.suite_reader import StoredRun, StoredSuite, read_suite
from perfkit.trace.model import NONE, Category
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.trace.readers.trace_sources import derive_trace_name, expand_sources

# A recorded step this many times longer than steps without a profiler was disturbed.
_DISTURBED = 1.25

# Idle share of a step above which the recording shows the CPU's own pace.
_HOST_BOUND = 0.5


def find_sources(paths: Iterable[str]) -> Iterator[str]:
    """The suites and traces named by files, folders and patterns; for a folder of suites, the suites."""
    for path in paths:
        suites = [] if is_url(path) else sorted(Path(path).rglob(SUITE_FILE))
        yield from (str(suite.parent) for suite in suites) if suites else expand_sources(path)


def learn_efficiencies(
    source: str, gpu: CatalogEntry | None = None, left_out: Callable[[str], None] = lambda _: None
) -> tuple[LearnedDevice, ...]:
    """Learn from a suite or a trace: one result per device and number of threads.

    `gpu` is what a trace was recorded on, whatever it says itself. `left_out` receives numbers of threads that teach
    nothing, with reasons, if others do.

    Raises:
        UnavailableError: nothing can be learned from it, and why.
        RunFormatError: it cannot be read.
    """
    is_suite = not is_url(source) and Path(source).is_dir()
    return learn_suite(read_suite(Path(source)), left_out) if is_suite else (_learn_trace(source, gpu),)


def _learn_trace(source: str, gpu: CatalogEntry | None) -> LearnedDevice:
    trace = read_trace(source)
    device = identify_device(trace)
    if is_cpu(device.kind):
        raise UnavailableError(f"{source}: the trace does not name its CPU; use a suite of perfkit bench")
    entry = gpu or find_entry(device.name, device.units)
    if entry is None:
        hint = f"{device.name!r} is not in the catalog" if device.name else "the trace does not name its GPU"
        raise UnavailableError(f"{source}: {hint}: name it with --gpu")
    roofs = build_gpu_roofs(entry)
    analyzed = analyze_with_details(read_ops(trace), roofs.ceilings, device_name=roofs.device_name)
    program = LearnedProgram(
        name=derive_trace_name(source), samples=make_samples(collect_calls(analyzed.engine), roofs)
    )
    return _check_learned(
        LearnedDevice(
            device=entry.id, device_name=roofs.device_name, programs=(_add_launch_figures(program, analyzed),)
        ),
        source,
    )


class _TracedVariant(NamedTuple):
    """The traced step of a variant on so many ranks, and how long its steps took without a profiler; None where that is
    not known. `compute_context_bytes` are its process's on a GPU."""

    analyzed: DetailedAnalysis
    environment: Environment
    ranks: int
    timed_s: float | None
    context_bytes: int | None = None


def learn_suite(stored: StoredSuite, left_out: Callable[[str], None] = lambda _: None) -> tuple[LearnedDevice, ...]:
    """All variants of a suite are one program; those of several numbers of threads a rank one each.

    `left_out` receives numbers of threads that teach nothing, with reasons, if others do.

    Raises:
        UnavailableError: nothing can be learned from it, and why.
    """
    steps: dict[int | None, list[_TracedVariant]] = defaultdict(list)
    for run in stored.runs:
        for rank in run.ranks[:1]:
            environment = rank.record.environment
            if rank.trace is not None and environment is not None:
                if is_cpu(environment.device) and stored.ceilings is None:
                    raise UnavailableError(
                        f"{stored.folder} has no {CEILINGS_FILE}, the reference for learning on a CPU: measure it "
                        "again with perfkit bench, without --no-calibrate"
                    )
                ops = read_ops(read_trace(rank.trace))
                analyzed = analyze_with_details(ops, _get_ceilings(stored, environment), environment=environment)
                threads = environment.threads if is_cpu(environment.device) else None
                context = compute_context_bytes(rank.record.process_memory)
                ranks = run.spec.launch.world_size
                steps[threads].append(_TracedVariant(analyzed, environment, ranks, _find_timed_s(stored, run), context))
    if not steps:
        raise UnavailableError(f"{stored.folder}: no run left a trace")
    learned, reasons = [], []
    for threads, some in steps.items():
        try:
            learned.append(_check_learned(_learn_program(stored, threads, some), str(stored.folder)))
        except UnavailableError as error:
            reasons.append(str(error))
    if not learned:
        raise UnavailableError("; ".join(reasons))
    for reason in reasons:
        left_out(reason)
    return tuple(learned)


def _learn_program(stored: StoredSuite, threads: int | None, steps: list[_TracedVariant]) -> LearnedDevice:
    environment = steps[0].environment
    roofs = build_roofs(_get_ceilings(stored, environment), environment)
    if threads is not None and roofs.find_bandwidth() is None:
        raise UnavailableError(
            f"{stored.folder}: its ceilings lack memory bandwidth with {threads} threads, the reference for "
            "learning: measure it again with perfkit bench, without --no-calibrate"
        )
    if all(map(_is_disturbed, steps)):
        raise UnavailableError(
            f"{stored.folder}: each traced step{'' if threads is None else f' with {threads} threads'} took more than "
            f"{_DISTURBED} times a step without a profiler: it was disturbed; measure it again on a quiet machine"
        )
    by_step = [_remove_profiler_time(collect_calls(step.analyzed.engine), step) for step in steps]
    samples = make_samples([call for calls in by_step for call in calls], roofs)
    program = LearnedProgram(name=stored.runs[0].spec.workload.label, samples=samples, threads=threads)
    if not is_cpu(environment.device):
        entry = _find_entry(environment)
        alone = (step for step in steps if step.ranks == 1)  # several hold buffers for each other as well
        contexts = [step.context_bytes for step in alone if step.context_bytes is not None]
        program = replace(program, context_bytes=float(median(contexts)) if contexts else None)
        return LearnedDevice(
            device=entry.id, device_name=entry.names[0], programs=(_add_launch_figures(program, steps[0].analyzed),)
        )
    assert stored.ceilings is not None  # they have a bandwidth
    host = [
        _compute_host_s(step.timed_s, calls)
        for step, calls in zip(steps, by_step, strict=True)
        if step.timed_s is not None and calls and step.ranks == 1  # several also wait for each other
    ]
    return LearnedDevice(
        device=stored.ceilings.fingerprint,
        device_name=stored.ceilings.device_name,
        programs=(replace(program, host_s=median(host) if host else None),),
        ceilings=stored.ceilings.ceilings,
    )


def _remove_profiler_time(calls: list[TimedCall], step: _TracedVariant) -> list[TimedCall]:
    """The calls as they are without a profiler, which slows all of a step; none where something else slowed it."""
    if _is_disturbed(step):
        return []
    return [call._replace(seconds=call.seconds / max(_measure_slowdown(step), 1.0)) for call in calls]


def _is_disturbed(step: _TracedVariant) -> bool:
    return _measure_slowdown(step) > _DISTURBED


def _measure_slowdown(step: _TracedVariant) -> float:
    """Profiler slowdown of the traced step; 1 if unknown."""
    return 1.0 if step.timed_s is None else step.analyzed.rank_trace.step_s / step.timed_s


def _compute_host_s(step_s: float, calls: list[TimedCall]) -> float:
    """CPU time per op: the step time outside its ops, divided by their number."""
    return max(0.0, step_s - sum(call.calls * call.seconds for call in calls)) / sum(call.calls for call in calls)


def _find_timed_s(stored: StoredSuite, run: StoredRun) -> float | None:
    runs = VariantRuns(run.variant, tuple(other for other in stored.runs if other.variant == run.variant))
    steps = runs.list_median_steps(lambda samples: samples.wall_s)
    return median(steps) if steps else None


def _get_ceilings(stored: StoredSuite, environment: Environment) -> DeviceCeilings | None:
    """A CPU's as they were measured, a GPU's from its datasheet: so they are the same wherever it is learned."""
    return stored.ceilings if is_cpu(environment.device) else build_gpu_roofs(_find_entry(environment)).ceilings


def _find_entry(environment: Environment) -> CatalogEntry:
    entry = find_entry(environment.device_name)
    if entry is None:
        raise UnavailableError(f"{environment.device_name!r} is not in the catalog")
    return entry


def _add_launch_figures(program: LearnedProgram, analyzed: DetailedAnalysis) -> LearnedProgram:
    """With how the host fed the device."""
    launches, step_s = analyzed.rank_trace.launches, analyzed.rank_trace.step_s
    queued = None if launches is None else launches.queued_idle
    if launches is None or queued is None:
        return program
    ops, engine = analyzed.engine.pieces.ops, analyzed.engine
    # The host feeds all devices, of which the launches are the critical one's.
    is_kernel = ops.trace.category[engine.pieces.event] == Category.KERNEL
    kernels = float((engine.within & is_kernel).sum()) / engine.parts
    starved = launches.starved_s is not None and launches.starved_s > _HOST_BOUND * step_s
    within_s = float(ops.self_ns[ops.step != NONE].sum()) / 1e9 / engine.parts - launches.sync_s
    return replace(
        program,
        launch_s=queued.launching_s / queued.launching_gaps if queued.launching_gaps else None,
        gap_s=queued.between_s / queued.between_gaps if queued.between_gaps else None,
        host_s=within_s / kernels if starved and kernels else None,
    )


def _check_learned(learned: LearnedDevice, source: str) -> LearnedDevice:
    if not any(program.samples for program in learned.programs):
        raise UnavailableError(f"{source}: no op with known work; was it recorded with record_shapes=True?")
    return learned
