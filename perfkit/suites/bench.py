"""Measures a suite from Python, then analyzes it from its folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from perfkit.analysis.model.suite import Analysis
from perfkit.core.errors import make_unknown_name_error
from perfkit.core.spec import Schedule, parse_variants
from perfkit.core.texts.redact import redact_text
from perfkit.devices.machine.device_choice import find_device
from perfkit.measure.bench import name_default_folder, resolve_request_ceilings
from perfkit.measure.bench import run_bench as run_suite
from perfkit.measure.rank.limits import check_limits
from perfkit.measure.resolve_request import find_requested_ncu, resolve_request
from perfkit.measure.run_events import Event
from perfkit.store.request import OPTION_FIELDS, make_rank_fields
from perfkit.suites.new_request import make_request
from perfkit.suites.remeasure import analyze_and_remeasure
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.expand_all import expand_variants


def bench(
    workload: str = "gpt",
    technique: str = "amp,ckpt",
    *,
    out: str | Path | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    seq_len: int | None = None,
    world_size: int | Sequence[int] = (),
    steps: int | None = None,
    warmup: int | None = None,
    calibrate: bool = True,
    progress: Callable[[Event], None] = lambda _: None,
    **options: Any,
) -> Analysis:
    """Compare training techniques on a workload, as `perfkit bench` does, and return the contents of its report.

    Each variant trains in its own processes; this process sleeps meanwhile. The workload is given by name, so that
    those processes can find it: `gpt:size=nano`, `train.py:build`, `package.module:build`.

    Args:
        workload: workload to train, with `:key=value` parameters.
        technique: techniques, separated by commas, combined with `+`; or `all`.
        out: folder to write, new or empty; by default `runs/TIME-WORKLOAD`.
        device: `auto` (the GPU if available, else the CPU), `cpu`, `cuda` or `xpu`.
        batch_size, seq_len: override the workload's sizes.
        world_size: ranks per run, or several numbers of them to measure scaling; by default as many as techniques need.
        steps: timed steps per process; by default chosen automatically.
        warmup: warm-up steps; by default until steps are steady, 5 to 30.
        calibrate: True to measure unknown ceilings of this machine first, and exceeded ones again.
        progress: receives the events of `perfkit.measure.run_events`.
        options: other options by their names on the command line: `precision` (0.05), `budget` (seconds), `rounds`,
            `dtype` (`fp32`, `bf16`, `fp16`), `scaling` (`weak`, `strong`), `threads`, `accumulate`, `seed`, `timeout`
            (seconds), `memory_limit` (bytes), `launcher` (`process`, `torchrun`, `slurm`, `ray`), `nnodes`,
            `rdzv_endpoint`, `counters` (`ncu`: Nsight Compute counts kernels; `pm`: performance monitors are sampled).

    Raises:
        UsageError: the request is invalid; nothing was run.
        UserCodeError: the workload's code raised when it was built.
        KeyboardInterrupt: results so far are kept in `out`, for `perfkit.analyze(out)`.
    """
    from perfkit.plan.search.resolve_auto import (
        find_open_params,  # not sooner: plans take long to import, and other commands need none
    )

    folder = Path(out) if out is not None else name_default_folder(workload)
    target = find_device(device)
    variants = tuple(parse_variants(expand_variants(technique)))
    for variant in variants:
        compose_techniques(variant)
    plan = Schedule() if warmup is None else Schedule(warmup=warmup)
    request = msgspec.structs.replace(
        make_request(workload, target, batch_size, seq_len),
        variants=variants,
        schedule=msgspec.structs.replace(plan, timed=steps or plan.timed),
        turns=steps,
        calibrate=calibrate,
    )
    for name in options:
        if name not in OPTION_FIELDS:
            raise make_unknown_name_error("parameter of perfkit.bench", name, OPTION_FIELDS)
    fields = {OPTION_FIELDS[name]: value for name, value in options.items()}
    sizes = (world_size,) if isinstance(world_size, int) else world_size
    request = msgspec.structs.replace(request, **fields, **make_rank_fields(sizes))
    check_limits(request.timeout_s, request.memory_limit_bytes)
    request = resolve_request(request)
    ncu = find_requested_ncu(request)
    ceilings = resolve_request_ceilings(request, target.name)
    run_suite(
        request,
        folder,
        command=redact_text(f"perfkit.bench({workload!r}, {technique!r})"),
        ceilings=ceilings,
        progress=progress,
        ncu=ncu,
        find=find_open_params,
    )
    return analyze_and_remeasure(folder, calibrate=calibrate)
