"""Writes the command that measures variants like those of a suite."""

import shlex

from perfkit.core.spec import LaunchSpec, RunSpec
from perfkit.store.request import BenchRequest


def format_bench_command(spec: RunSpec, variants: str) -> str:
    """A `perfkit bench` of `variants` on the workload, sizes and device of a run; "" for launchers of a cluster.

    Options at their defaults are omitted.
    """
    given, launch = RunSpec(workload=spec.workload), spec.launch
    if launch.launcher != given.launch.launcher or launch.nodes != given.launch.nodes:
        return ""
    words = ["perfkit", "bench", "-w", spec.workload.label, "-t", variants, "--device", launch.device]
    options = (
        ("--dtype", spec.dtype, given.dtype),
        ("--accumulate", spec.accumulation, given.accumulation),
        ("--world-size", launch.world_size, given.launch.world_size),
        ("--seed", spec.seed, given.seed),
    )
    for option, value, default in options:
        if value != default:
            words += [option, str(value)]
    return shlex.join(words)


def format_request_command(request: BenchRequest, variants: str) -> str:
    """The same for a request."""
    launch = LaunchSpec(
        device=request.device, world_size=request.world_size or 1, launcher=request.launcher, nodes=request.nodes
    )
    spec = RunSpec(
        workload=request.workload,
        dtype=request.dtype,
        seed=request.seed,
        accumulation=request.accumulation,
        launch=launch,
    )
    return format_bench_command(spec, variants)
