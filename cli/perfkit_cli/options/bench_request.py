"""Turns the options of `perfkit bench` into a request: all for a new suite, the given ones for an existing one."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perfkit.core.errors import UsageError
from perfkit.core.spec import ENERGY_S, Schedule, WorkloadSpec, parse_workload
from perfkit.core.texts.redact import redact_arguments
from perfkit.devices.accelerator import get_accelerator
from perfkit.devices.machine.device_choice import find_device
from perfkit.store.request import OPTION_FIELDS, BenchRequest, make_rank_fields

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.devices.ceilings.ceiling import DeviceCeilings
    from perfkit.measure.schedule import Techniques

DEFAULTS = Schedule()

# Those that a resumed suite keeps, and takes anew.
KEPT = ("no_calibrate", "counters", "slurm")
TAKEN = (
    *OPTION_FIELDS,
    *KEPT,
    "world_sizes",
    "warmup",
    "energy",
)  # all but what a new suite's workload and device are made from
_WORKLOAD = ("workload", "batch_size", "seq_len")
ASKED = (*TAKEN, *_WORKLOAD, "device")


def get_given_options(ctx: click.Context, names: Iterable[str] = ASKED) -> dict[str, Any]:
    """Those of the options `names` that are on the command line."""
    written = click.core.ParameterSource.COMMANDLINE
    return {name: ctx.params[name] for name in names if ctx.get_parameter_source(name) is written}


def refuse_given(ctx: click.Context, names: Iterable[str], why: str) -> None:
    """A `UsageError` where any of the options `names` is on the command line."""
    flags = {option.name: option.opts[-1] for option in ctx.command.params}
    written = [flags[name] for name in get_given_options(ctx, names)]
    if written:
        raise UsageError(f"{why}; omit {', '.join(written)}", id="usage.conflict")


def apply_options(request: BenchRequest, options: Mapping[str, Any]) -> BenchRequest:
    """Replace fields of `request` by these options."""
    fields = {field: options[name] for name, field in OPTION_FIELDS.items() if name in options}
    if "rounds" not in options and ("precision" in options or "budget" in options):
        fields["rounds"] = None  # a number of rounds would stand in for them
    if "no_calibrate" in options:
        fields["calibrate"] = not options["no_calibrate"]
    if "slurm" in options:  # each is an option of its own
        fields["slurm"] = {**request.slurm, **_leave_out_secrets(options["slurm"])}
    if "device" in options:
        from perfkit.measure.launch.launcher_table import STARTS_HERE

        launcher = options.get("launcher", request.launcher)
        fields["device"] = find_device(options["device"], here=launcher in STARTS_HERE).kind
    if "world_sizes" in options:
        fields |= make_rank_fields(options["world_sizes"])
    if any(name in options for name in _WORKLOAD):
        fields["workload"] = _resolve_workload(request.workload, options)
    return msgspec.structs.replace(request, schedule=_update_schedule(request.schedule, options), **fields)


def choose_variants(options: Mapping[str, Any], request: BenchRequest, console: "Console") -> tuple["Techniques", ...]:
    """The variants that --technique and --combine name."""
    from perfkit.measure.bench import find_technique_refusal
    from perfkit_cli.options.variants import combine_variants, parse_named_variants

    named = parse_named_variants(options["technique"])
    if options["combine"] != "all":
        return named
    variants, left_out = combine_variants(named, lambda technique: find_technique_refusal(request, technique))
    for item in left_out:
        console.out(f"left out: {item.variant}: {item.reason}")
    return variants


def refuse_energy(request: BenchRequest) -> None:
    """A `UsageError` for a device without a counter of its energy."""
    if request.schedule.energy_s and not get_accelerator(request.device).has_nvml:
        raise UsageError(
            f"--energy needs an NVIDIA GPU, but the device is {request.device}; omit it",
            id="usage.conflict",
        )


def resolve_ceilings(request: BenchRequest, device_name: str, *, console: "Console") -> "DeviceCeilings":
    """Resolve the device's ceilings for every number of threads that the runs will use."""
    from perfkit.measure.bench import resolve_request_ceilings
    from perfkit_cli.output.live_lines import show_lines

    with show_lines(console) as tell:
        return resolve_request_ceilings(request, device_name, progress=tell)


def _leave_out_secrets(parameters: Mapping[str, str | bool]) -> dict[str, str | bool]:
    """Options of a job without those that hold a secret, such as `export=HF_TOKEN=...`: suites are shared."""
    words = [f"--{name}={value}" for name, value in parameters.items()]
    shown = redact_arguments(words)
    return {name: parameters[name] for name, word, kept in zip(parameters, words, shown, strict=True) if word == kept}


def _update_schedule(schedule: Schedule, options: Mapping[str, Any]) -> Schedule:
    changed: dict[str, Any] = {}
    if options.get("warmup") is not None:
        changed |= {"warmup": options["warmup"], "max_warmup": options["warmup"]}
    if "steps" in options:
        changed["timed"] = options["steps"] or DEFAULTS.timed
    if "energy" in options:
        changed["energy_s"] = ENERGY_S if options["energy"] else 0.0
    return msgspec.structs.replace(schedule, **changed)


def _resolve_workload(known: WorkloadSpec, options: Mapping[str, Any]) -> WorkloadSpec:
    """A parameter that is not given is that of the same workload."""
    from perfkit.workloads.workload_table import WORKLOADS

    named = parse_workload(options["workload"], WORKLOADS.list_names()) if "workload" in options else known
    if named.name == known.name:
        named = known.replace_params(**named.params)
    return named.replace_params(**{name: options[name] for name in ("batch_size", "seq_len") if options.get(name)})
