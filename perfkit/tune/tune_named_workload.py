"""Tunes a workload from Python, as `perfkit tune` does."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit.core.spec import parse_variants
from perfkit.core.texts.redact import redact_text
from perfkit.store.request import OPTION_FIELDS

if TYPE_CHECKING:
    from perfkit.measure.run_events import Event
    from perfkit.tune.model.tune_result import AllowedLosses, Objective, TuneResult

BUDGET_S = 1200.0
# Options of a bench that apply to all trials alike.
_OPTIONS = ("dtype", "threads", "accumulate", "seed", "timeout")


def tune_named_workload(
    workload: str = "gpt",
    technique: str = "all",
    *,
    out: str | Path | None = None,
    objective: "Objective" = "time",
    allow: "AllowedLosses" = "tolerance",
    budget: float = BUDGET_S,
    memory: float | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    seq_len: int | None = None,
    world_size: int | None = None,
    calibrate: bool = True,
    progress: "Callable[[Event], None]" = lambda _: None,
    report: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> "TuneResult":
    """Search for the techniques that minimize step time or memory, and prove the gain, as `perfkit tune` does.

    Trials train in processes of their own; this process sleeps meanwhile. Nothing of the workload's file is changed:
    `result.patch` has the changes as a diff.

    Args:
        workload: workload to tune, with `:key=value` parameters.
        technique: techniques to choose from, as for `perfkit.bench`; `all`: every technique.
        out: folder to write, new or empty; by default `runs/TIME-tune-WORKLOAD`.
        objective: what to minimize: `time` of a step, peak `memory`, or `cost`, the time per sample.
        allow: losses to accept: `lossless`, `tolerance` or `any`.
        budget: seconds for the whole search.
        memory: limit of peak memory in bytes.
        device: `auto` (the GPU if available, else the CPU), `cpu`, `cuda` or `xpu`.
        batch_size, seq_len: override the workload's sizes.
        world_size: ranks per run; by default one.
        calibrate: True to measure unknown ceilings of this machine first.
        progress: receives the events of `perfkit.measure.run_events`.
        report: receives a line per stage.
        options: other options by their names on the command line: `dtype`, `threads`, `accumulate`, `seed`, `timeout`.

    Raises:
        UsageError: the request is invalid, or the workload does not train.
        UserCodeError: the workload's code raised when it was built.
        KeyboardInterrupt: what was measured is kept in `out`, for `perfkit tune --resume`.
    """
    from perfkit.plan.rehearsal.quiet_libraries import silence_kineto

    silence_kineto()

    from perfkit.devices.machine.device_choice import find_device
    from perfkit.measure.bench import name_default_folder, resolve_request_ceilings
    from perfkit.measure.output_dir import refuse_occupied
    from perfkit.measure.rank.limits import check_limits
    from perfkit.suites.new_request import make_request
    from perfkit.techniques.compose import compose_techniques
    from perfkit.techniques.expand_all import expand_variants
    from perfkit.tune.model.tune_request import TuneRequest
    from perfkit.tune.search.start_search import start_search

    for name in options:
        if name not in _OPTIONS:
            raise make_unknown_name_error("parameter of perfkit.tune", name, _OPTIONS)
    if budget <= 0:
        raise UsageError(f"budget={budget}: expected a positive number of seconds")
    offered = tuple(parse_variants(expand_variants(technique)))
    for variant in offered:
        compose_techniques(variant)
    folder = Path(out) if out is not None else name_default_folder(f"tune-{workload}")
    refuse_occupied(folder)
    target = find_device(device)
    fields = {OPTION_FIELDS[name]: value for name, value in options.items()}
    bench = msgspec.structs.replace(
        make_request(workload, target, batch_size, seq_len), world_size=world_size, calibrate=calibrate, **fields
    )
    check_limits(bench.timeout_s, None)
    ceilings = resolve_request_ceilings(msgspec.structs.replace(bench, variants=((),)), target.name)
    request = TuneRequest(bench, technique, offered, objective, allow, budget, memory)
    command = redact_text(f"perfkit.tune({workload!r}, {technique!r})")
    return start_search(request, folder, command=command, ceilings=ceilings, progress=progress, report=report)
