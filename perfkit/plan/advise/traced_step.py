"""Loads a recorded step and simulates changes in it."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from perfkit.analysis.findings.change import Change
from perfkit.analysis.pipeline.effects import build_effect
from perfkit.analysis.replay.change_effect import apply_effect, merge_effects
from perfkit.analysis.replay.replay import ReplayResult, replay_trace, simulate_length_s
from perfkit.analysis.replay.step_nodes import find_step_nodes
from perfkit.analysis.trace.rank_trace import DetailedAnalysis, analyze_with_details
from perfkit.analysis.trace.trace_device import identify_device
from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.record.environment import Environment
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.catalog.catalog import CatalogEntry, find_entry
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.devices.lookup.trace_ceilings import resolve_trace_ceilings
from perfkit.devices.machine.machine import read_cpu_model
from perfkit.plan.advise.answers import AdvisedView
from perfkit.plan.target.target import Target
from perfkit.plan.timing.device_efficiencies import load_efficiencies
from perfkit.plan.timing.efficiencies import Efficiencies
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace

_RECORD = "record with torch.profiler's schedule and profiler.step(), or with perfkit run"


class TracedStep(NamedTuple):
    """The steps of a trace, and their simulation.

    `step_s` is the timed step, without profiler slowdown, else the traced step.
    """

    view: AdvisedView
    analyzed: DetailedAnalysis
    replayed: ReplayResult

    @property
    def step_s(self) -> float:
        return self.view.trace.step_s * self.view.pace

    def gain_s(self, changes: Iterable[Change]) -> float | None:
        """Time saved per step by all these changes; None if the trace cannot tell."""
        effects = [build_effect(change, self.analyzed, self.replayed) for change in changes if change]
        known = [effect for effect in effects if effect is not None]
        if len(known) < len(effects):
            return None
        if not known:
            return 0.0
        graph, steps = self.replayed.graph, find_step_nodes(self.replayed.graph)
        changed = apply_effect(graph, self.replayed.work, merge_effects(known))
        saved = simulate_length_s(self.replayed, steps) - simulate_length_s(self.replayed, steps, changed)
        return max(0.0, saved) / self.analyzed.engine.parts * self.view.pace


def load_trace_step(path: Path, device: str | None = None) -> TracedStep:
    """The steps of a trace from any machine; `device` as for `perfkit analyze --device`.

    Raises:
        UsageError: it marks no steps, or nothing in it tells what followed what.
        RunFormatError: it cannot be read.
    """
    ops = _read_step_ops(path)
    device_identity = identify_device(ops.trace)
    ceilings = resolve_trace_ceilings(device_identity, device)
    analyzed = analyze_with_details(ops, ceilings.ceilings, device_name=ceilings.device_name)
    entry = find_entry(ceilings.device_name, device_identity.units if device is None else None)
    return _build_traced_step(path, ops, analyzed, None if entry is None else _load_gpu_efficiencies(entry))


def load_run_step(
    path: Path,
    ceilings: DeviceCeilings | None,
    environment: Environment | None,
    *,
    step_s: float | None,
    data_wait_share: float | None,
) -> TracedStep:
    """The traced steps of a perfkit run, with the time of its timed steps. Raises what `load_trace_step` does."""
    ops = _read_step_ops(path)
    name = "" if environment is None else environment.device_name
    analyzed = analyze_with_details(ops, ceilings, device_name=name, environment=environment)
    efficiencies = None if environment is None else _load_environment_efficiencies(environment)
    return _build_traced_step(path, ops, analyzed, efficiencies, step_s, data_wait_share)


def _load_gpu_efficiencies(entry: CatalogEntry) -> Efficiencies | None:
    """Efficiencies of the GPU; None if no GPU was measured."""
    try:
        return load_efficiencies(Target(device=entry.id, kind="cuda", entry=entry), 1)
    except UnavailableError:
        return None


def _load_environment_efficiencies(environment: Environment) -> Efficiencies | None:
    """Efficiencies of this machine's CPU, or of the GPU; None if neither it nor a similar one was measured."""
    if not is_cpu(environment.device):
        entry = find_entry(environment.device_name)
        return None if entry is None else _load_gpu_efficiencies(entry)
    if environment.device_name != read_cpu_model() or environment.threads is None:
        return None
    try:
        return load_efficiencies(Target(), environment.threads)
    except UnavailableError:
        return None


def _read_step_ops(path: Path) -> Ops:
    ops = read_ops(read_trace(path))
    if not len(ops.steps):
        raise UsageError(f"{path}: no steps are marked, so the time of a step is unknown; {_RECORD}")
    return ops


def _build_traced_step(
    path: Path,
    ops: Ops,
    analyzed: DetailedAnalysis,
    efficiencies: Efficiencies | None,
    step_s: float | None = None,
    data_wait_share: float | None = None,
) -> TracedStep:
    if analyzed.rank_trace.missing_device_reason:
        raise UsageError(f"{path}: {analyzed.rank_trace.missing_device_reason}")
    replayed = replay_trace(ops)
    if replayed is None:
        raise UsageError(f"{path}: it lacks the dependencies between events, so nothing can be simulated")
    if replayed.result.reason:
        raise UsageError(f"{path}: not simulated: {replayed.result.reason}")
    view = AdvisedView(analyzed.rank_trace, step_s, None, data_wait_share, efficiencies)
    return TracedStep(view, analyzed, replayed)
