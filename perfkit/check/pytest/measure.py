"""Runs a step a few times, each under one instrument, for figures that are the same in every process."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.attach.host.guard import Guard, describe_error
from perfkit.attach.host.torch_log_level import log_errors_only
from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.attach.loop.loop_hooks import LoopHooks
from perfkit.attach.loop.model_discovery import name_models
from perfkit.attach.loop.phase_marks import follow_marks
from perfkit.attach.loop.step_finder import StepFinder
from perfkit.check.pytest.memory_limit import StepMemory, measure_step_memory
from perfkit.check.pytest.ops import TracedStepOps, trace_step_ops
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.cost.live_flops import FlopCount, count_flops
from perfkit.devices.accelerator import CPU, find_built_accelerator, get_accelerator, is_cpu
from perfkit.instruments.autograd_state import is_profiling
from perfkit.instruments.range_marks import mark_step
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.techniques.base.compile_facts import count_graph_breaks, has_compiled_frames

# Kineto's messages on its recordings do not belong into the tests' output.
_KINETO_LEVEL, _KINETO_SILENT = "KINETO_LOG_LEVEL", "6"

Models = nn.Module | Iterable[nn.Module] | None
Optimizers = Optimizer | Iterable[Optimizer] | None


@dataclass(frozen=True)
class StepMeasurement:
    """Measurements of a step. `graph_breaks` are by reason; `steps` is the number of runs, `models` that of models."""

    device: torch.device
    models: int
    memory: StepMemory
    ops: TracedStepOps
    flops: FlopCount
    graph_breaks: Mapping[str, int]
    steps: int


def find_trained(models: Models, optimizers: Optimizers, device: torch.device | str | None) -> TrainedModels:
    """Find the models and optimizers of a step.

    The default device is that of the parameters; without parameters, the GPU if this process has used one.
    """
    modules = [models] if isinstance(models, nn.Module) else list(models or ())
    steppers = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers or ())
    for kind, given in [(nn.Module, module) for module in modules] + [(Optimizer, one) for one in steppers]:
        if not isinstance(given, kind):
            word = "model" if kind is nn.Module else "optimizer"
            raise UsageError(f"{word}={given!r}: expected a {kind.__module__}.{kind.__name__} or several in a list")
    tensors = [parameter for module in modules for parameter in module.parameters()]
    tensors += [parameter for one in steppers for group in one.param_groups for parameter in group["params"]]
    if device is not None:
        step_device = torch.device(device)
    elif tensors:
        step_device = tensors[0].device
    else:
        built = find_built_accelerator()
        step_device = torch.device(built.type if built is not None and built.runtime.is_initialized() else CPU.type)
    accelerator = get_accelerator(step_device)
    if accelerator.has_own_memory and step_device.index is None:
        step_device = torch.device(accelerator.type, accelerator.runtime.current_device())
    if not is_cpu(step_device) and not accelerator.has_memory_statistics:
        raise UsageError(f"cannot measure a step on {step_device.type!r}: expected cpu, cuda or xpu")
    return TrainedModels(step_device, name_models(modules), tuple(steppers))


def measure_step(step: Callable[[], object], trained: TrainedModels, warmup: int) -> StepMeasurement:
    """Run `step` `warmup` times, then under each instrument, and a few more times around the memory recording.

    Raises:
        PerfkitError: a profiler or perfkit.profile is active in this process.
    """
    _refuse_other_profilers()
    if warmup < 1:
        raise UsageError(f"warmup={warmup}: expected at least 1: the first step creates the optimizer state")
    os.environ.setdefault(_KINETO_LEVEL, _KINETO_SILENT)
    _reset_compiled()
    before = count_graph_breaks()
    for _ in range(warmup):
        step()
    breaks = {reason: count - before.get(reason, 0) for reason, count in count_graph_breaks().items()}
    steps = warmup

    def run(index: int) -> None:
        nonlocal steps
        steps += 1
        with mark_step(index):
            step()
            loop.phases.end()

    with _mark_phases(trained) as loop, log_errors_only():
        memory = measure_step_memory(run, 0, trained)
        ops = trace_step_ops(run, steps, trained)
    flops = count_flops(step)
    return StepMeasurement(
        device=trained.device,
        models=len(trained.models),
        memory=memory,
        ops=ops,
        flops=flops,
        graph_breaks={reason: count for reason, count in breaks.items() if count},
        steps=steps + 1,
    )


@contextmanager
def _mark_phases(trained: TrainedModels) -> Iterator[LoopFollower]:
    """Mark the phases of the steps inside this context."""
    loop = LoopFollower(StepFinder(), lambda: None)
    loop.by_hand, loop.sizing = True, False
    # Marked phases replace torch's own. Without an observed model, torch's records are better.
    loop.phases.on = bool(trained.models)
    guard = Guard(lambda: None)
    hooks = LoopHooks(loop, guard)
    try:
        hooks.install()
        hooks.listen(trained.models.values())
        follow_marks(loop.phases)
        yield loop
    finally:
        follow_marks(None)
        hooks.remove()
        loop.phases.end()
        loop.let_go()
    if guard.failure is not None:
        raise PerfkitError(
            f"the phases of the step could not be determined: {describe_error(guard.failure)}"
        ) from guard.failure


def _refuse_other_profilers() -> None:
    watching = sys.modules.get("perfkit.attach.profile")
    if watching is not None and watching._watching is not None:
        raise PerfkitError("perfkit.profile is active in this process: call perfkit_check outside it")
    if is_profiling():
        raise PerfkitError(
            "a torch profiler is already active: call perfkit_check outside it, and run pytest without a profiling "
            "plugin"
        )


def _reset_compiled() -> None:
    """Force recompilation: graph breaks are counted at compile time.

    A model compiled by an earlier test would seem to have none.
    """
    if has_compiled_frames():
        torch._dynamo.reset()
