"""What advice is about: a suite's baseline, a trace of whatever machine, or a workload that nobody has run."""

from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from perfkit.analysis.suite.read_passes import that_hold
from perfkit.analysis.suite.runs import VariantRuns, baseline_names
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.errors import UsageError
from perfkit.plan.advise import traced
from perfkit.plan.advise.shelf import Place
from perfkit.plan.advise.traced import TracedStep
from perfkit.plan.target import Target
from perfkit.store.read import StoredSuite, read_suite
from perfkit.store.request import BenchRequest

# Of parameters, which a trace does not tell: what most of its products take.
_DTYPES = ("bf16", "fp16")


class Subject(NamedTuple):
    """A step, and what is known of it: as it was recorded (`step`), and how it is planned (`request`).

    `notes` say why one of them is missing.
    """

    name: str
    kind: Literal["run", "trace", "workload"]
    device: str
    place: Place
    step: TracedStep | None = None
    request: BenchRequest | None = None
    notes: tuple[str, ...] = ()


def of_trace(path: Path, device: str | None = None) -> Subject:
    """The steps of a trace. Raises what `traced.of_file` does."""
    step = traced.of_file(path, device)
    trace = step.view.trace
    dtype = trace.matrix_dtype if trace.matrix_dtype in _DTYPES else "fp32"
    place = Place(step.view.torch_device, dtype, trace.world_size or 1)
    note = "memory is not known: a trace does not tell how its model is built; advise a run or a workload"
    return Subject(path.name, "trace", trace.device_name or trace.device, place, step, None, (note,))


def of_workload(request: BenchRequest, target: Target) -> Subject:
    """A workload as it was asked for, on a device that may not be there."""
    place = Place(target.kind, request.dtype, request.world_size or 1)
    return Subject(request.workload.label, "workload", target.device, place, None, request)


def of_run(folder: Path) -> Subject:
    """The baseline of a suite: its traced step, and its workload where a suite of `perfkit bench` names one.

    Raises:
        RunFormatError: the folder is no suite's, or is damaged.
        UsageError: it has neither a traced step nor a workload.
    """
    stored = read_suite(folder)
    runs = _baseline(stored)
    main = runs.main
    if main is None or not main.ranks:
        raise UsageError(f"{folder}: no run of {runs.name} ended with a record: there is nothing to advise on")
    record, notes = main.ranks[0].record, []
    step: TracedStep | None = None
    try:
        step = _traced(stored.ceilings, runs)
    except UsageError as error:
        notes.append(f"time is planned, not simulated: {error}")
    request = next((session.request for session in stored.suite.sessions if session.request is not None), None)
    if request is None:
        notes.append(
            "memory is not known: the run names no workload that could be planned; advise one, FILE.py:FUNCTION"
        )
        if step is None:
            raise UsageError(f"{folder}: {'; '.join(notes)}")
    environment = record.environment
    place = Place(main.spec.launch.device, main.spec.dtype, main.spec.launch.world_size)
    name = f"{runs.name} of {main.spec.workload.label}"
    device = place.device if environment is None else environment.device_name
    return Subject(name, "run", device, place, step, request, tuple(notes))


def _baseline(stored: StoredSuite) -> VariantRuns:
    names = stored.suite.variants or tuple(dict.fromkeys(run.variant for run in stored.runs))
    variants = [VariantRuns(name, tuple(run for run in stored.runs if run.variant == name)) for name in names]
    baselines = baseline_names(variants, stored.suite.baselines)
    return min((variant for variant in variants if variant.name in baselines), key=lambda variant: variant.world_size)


def _traced(ceilings: DeviceCeilings | None, runs: VariantRuns) -> TracedStep:
    assert runs.main is not None
    rank = next((rank for rank in runs.main.ranks if rank.trace is not None), None)
    if rank is None or rank.trace is None:
        raise UsageError("the run was not traced")
    timed = [median(samples) for samples in runs.samples(lambda record: record.samples)]
    environment = rank.record.environment
    return traced.of_run(
        rank.trace,
        that_hold(ceilings, environment),
        environment,
        step_s=median(timed) if timed else None,
        data_wait_share=rank.record.facts.get("data_wait_share"),
    )
