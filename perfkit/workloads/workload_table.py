"""Lists the workloads, and loads one by its name."""

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import get_type_hints

import msgspec

from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit.core.registry import BrokenPluginError, Registry
from perfkit.core.spec import WorkloadSpec, parse_workload
from perfkit.core.texts.import_messages import silence_import_messages
from perfkit.devices.accelerator import is_cpu
from perfkit.workloads.models.architectures import ARCHITECTURES, expand_architecture
from perfkit.workloads.parameters import Parameters, explain_misfit
from perfkit.workloads.user_workload import load_user_workload
from perfkit.workloads.workload import Workload
from perfkit.workloads.workload_trust import remember_workload, require_named_workload

WORKLOADS: Registry[type[Parameters]] = Registry(
    "workload",
    "perfkit.workloads",
    {
        "gpt": "perfkit.workloads.gpt:Gpt",
        "moe": "perfkit.workloads.moe:Moe",
        "resnet": "perfkit.workloads.resnet:ResNet",
        "images": "perfkit.workloads.images:Images",
        "hf": "perfkit.workloads.hf:HuggingFace",
    },
    explain_misfit,
)

FEW_BLOCKS = 2


@dataclass(frozen=True)
class WorkloadInfo:
    """A line of the list of workloads. `parameters` has the name of each, with values, default and meaning.

    `broken` says why another package's workload cannot be used at all; other fields are then empty.
    """

    name: str
    summary: str = ""
    parameters: dict[str, str] = dataclass_field(default_factory=dict)
    unavailable: str | None = None
    broken: str | None = None


def load_workload(
    spec: WorkloadSpec, *, device: str = "cpu", batch_size: int | None = None, seq_len: int | None = None
) -> Workload:
    """Load the workload that `spec` names.

    `device` chooses the defaults (a larger model on anything but a CPU). `batch_size` and `seq_len` set the parameters
    of these names.

    Raises:
        UsageError: an unknown name or parameter, a value out of range, or one given twice.
        UnavailableError: it needs a package that is not installed.
        UserCodeError: the user's code raised.
    """
    silence_import_messages()  # Transformers imports torchao
    options = {key: value for key, value in (("batch_size", batch_size), ("seq_len", seq_len)) if value is not None}
    for key, value in options.items():
        if spec.params.get(key, value) != value:
            flag = "--" + key.replace("_", "-")
            raise UsageError(
                f"{key} is given twice: {spec.params[key]} in {spec.label!r} and {flag} {value}; give it once"
            )
    spec = expand_architecture(spec)
    head, _, argument = spec.name.partition(":")
    if is_user_function(spec):
        return load_user_workload(spec.name, {**spec.params, **options})
    if head.endswith(".py"):
        raise UsageError(f"workload {head!r} names no function; expected {head}:function")

    def build(cls: type[Parameters]) -> Workload:
        defaults = {} if is_cpu(device) else cls.on_gpu
        return cls.parse(argument, {**defaults, **spec.params, **options}).build()

    if head not in WORKLOADS.list_names():
        raise make_unknown_name_error("workload", head, [*WORKLOADS.list_names(), *ARCHITECTURES])
    return WORKLOADS.ask_object(head, build)


def shorten_workload(spec: WorkloadSpec, device: str, blocks: int = FEW_BLOCKS) -> WorkloadSpec:
    """The workload with so many repeated blocks; as it is where their number is no parameter."""
    short = expand_architecture(spec)
    head, _, _ = short.name.partition(":")
    if is_user_function(short) or not (parameter := WORKLOADS.load(head).blocks_parameter):
        return spec
    short = WorkloadSpec(name=short.name, params={**short.params, parameter: blocks})
    try:
        load_workload(short, device=device)
    except UsageError:  # the config lists its blocks, or has none
        return spec
    return short


def count_blocks(spec: WorkloadSpec, device: str) -> int | None:
    """The number of repeated blocks that `shorten_workload` changes; None where it changes none."""
    if shorten_workload(spec, device) == spec:
        return None
    whole = expand_architecture(spec)
    head, _, argument = whole.name.partition(":")
    return WORKLOADS.load(head).parse(argument, whole.params).count_blocks()


def is_user_function(spec: WorkloadSpec) -> bool:
    """True for `train.py:build` and `package.module:build`, False for the name of a workload, right or wrong."""
    head, colon, _ = spec.name.partition(":")
    return bool(colon) and head not in WORKLOADS.list_names()


def require_trusted_workload(spec: WorkloadSpec, folder: Path) -> None:
    """Raise a `UsageError` for a function that a suite names and the user has not: see `workload_trust`."""
    if is_user_function(spec):
        require_named_workload(spec, folder)


def resolve_workload(
    text: str, device: str, batch_size: int | None, seq_len: int | None, microbatches: int = 1
) -> WorkloadSpec:
    """The workload that the user names, with its sizes, built once here so that a mistake in it costs no run.

    A function of the user's is remembered, so that suites may name it from then on.

    Raises what `load_workload` and `check_microbatches` do.
    """
    spec = parse_workload(text, WORKLOADS.list_names())
    check_microbatches(load_workload(spec, device=device, batch_size=batch_size, seq_len=seq_len), microbatches)
    sizes = {key: value for key, value in (("batch_size", batch_size), ("seq_len", seq_len)) if value is not None}
    spec = WorkloadSpec(name=spec.name, params={**spec.params, **sizes})
    if is_user_function(spec):
        remember_workload(spec)
    return spec


def check_microbatches(workload: Workload, microbatches: int) -> None:
    """Raise `UsageError` for several microbatches of a step that takes one."""
    if workload.step is not None and microbatches != 1:
        raise UsageError(
            f"the workload {workload.name} defines its own step, which takes one batch, not {microbatches}; "
            "omit --accumulate, or accumulate within the step",
            id="usage.conflict",
        )


def describe_workloads() -> list[WorkloadInfo]:
    """Every workload with its parameters, and why it cannot be built on this machine if so."""
    known = []
    for name in WORKLOADS.list_names():
        try:
            known.append(WORKLOADS.ask_object(name, _build_info))
        except BrokenPluginError as error:
            known.append(WorkloadInfo(name, broken=str(error)))
    models = WorkloadInfo(
        name="MODEL",
        summary=f"a public model by name, without its weights: {', '.join(ARCHITECTURES)}; takes the parameters of hf "
        "or resnet",
    )
    user = WorkloadInfo(
        name="FILE.py:FUNCTION",
        summary="your own: a function that returns a perfkit.Workload, or package.module:function; any key=value is "
        "passed to it by name",
    )
    return [*known, models, user]


def _build_info(cls: type[Parameters]) -> WorkloadInfo:
    return WorkloadInfo(cls.usage, cls.summary, _describe_parameters(cls), cls.unavailable())


def _describe_parameters(cls: type[Parameters]) -> dict[str, str]:
    """The parameters with a default: the values each takes, the default, and the meaning where that is not plain."""
    hints = get_type_hints(cls, include_extras=True)
    lines = {}
    for field in msgspec.structs.fields(cls):
        if field.default is msgspec.NODEFAULT:
            continue
        annotations = getattr(hints[field.name], "__metadata__", ())
        meta = next((item for item in reversed(annotations) if isinstance(item, msgspec.Meta)), msgspec.Meta())
        default = [] if field.default is None else [str(field.default)]
        if field.name in cls.on_gpu:
            default.append(f"{cls.on_gpu[field.name]} on a GPU")
        parts = (meta.title, f"[{'; '.join(default)}]" if default else None, meta.description)
        lines[field.name] = " ".join(part for part in parts if part)
    return lines
