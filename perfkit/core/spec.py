"""Specifications of runs: `RunSpec` is the whole order given to a worker, as plain data.

Also the small language of the command line: `amp,ckpt,amp+ckpt,zero2:offload=cpu` is a list of variants,
each a `+`-joined list of techniques with `:key=value` parameters.
"""

import math
import re
from collections.abc import Iterable, Mapping
from itertools import product, starmap
from typing import Any, Literal, dataclass_transform, get_args, get_origin

import msgspec

from perfkit.core.errors import UsageError
from perfkit.core.texts.param_texts import split_params

SPEC_VERSION = 2
BASELINE = "baseline"
ALL = "all"  # of a list of variants: every technique

# Duration of the --energy pass: NVML's counter is updated every tens of milliseconds, which is then a few percent at
# most.
ENERGY_S = 5.0

ParamValue = bool | int | float | str

# What stays as ranks are added: each rank's batch, or that of all ranks together.
Scaling = Literal["weak", "strong"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)

# Steps of a warm-up that is to end when steps are steady.
_LEAST_WARMUP, _MOST_WARMUP = 5, 30

# What a field may take of its struct's repr.
_MOST_ITEMS = 20
_MOST_CHARS = 200

# Parameters of techniques that may be named without a value.
_FLAGS = ("auto",)

# Techniques whose `size`, the ranks that they take, may be written behind their names: `tp2` is `tp:size=2`.
_SIZED = re.compile("(tp|pp|ep)([0-9]+)")


class _StructMeta(msgspec.StructMeta):
    """Makes keyword-only fields, which msgspec does not hand down to subclasses, the rule."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **options})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, metaclass=_StructMeta, frozen=True, forbid_unknown_fields=True):
    """Base of everything that is written to disk: immutable, keyword-only, decoded strictly."""

    def __repr__(self) -> str:
        """As msgspec's, with long fields by their type and length: results hold thousands of rows."""
        fields = ", ".join(f"{name}={_format_field(getattr(self, name))}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({fields})"


def _format_field(value: object) -> str:
    if isinstance(value, tuple | list | dict | set | frozenset) and len(value) > _MOST_ITEMS:
        return f"<{type(value).__name__} of {len(value)}>"
    text = repr(value)
    if len(text) <= _MOST_CHARS:
        return text
    if isinstance(value, tuple | list | dict | set | frozenset):
        return f"<{type(value).__name__} of {len(value)}>"
    return f"{type(value).__name__}(...)" if isinstance(value, Struct) else f"{text[:_MOST_CHARS]}..."


class TechniqueSpec(Struct):
    """A technique by name with its parameters as given: `zero2:offload=cpu`."""

    name: str
    params: dict[str, ParamValue] = {}

    def __post_init__(self) -> None:
        _refuse_non_finite(self.name, self.params)

    @property
    def label(self) -> str:
        params, name = dict(self.params), self.name
        if _SIZED.fullmatch(f"{name}{params.get('size')}"):
            name += str(params.pop("size"))
        return ":".join((name, *starmap(format_param, params.items())))


class Schedule(Struct):
    """Number of steps of each pass of a worker.

    Warm-up lasts at least `warmup` and at most `max_warmup` steps, until step times are steady. By default these are 5
    and 30; a given `warmup` is exact unless `max_warmup` is given too. `timed` is the number of steps measured with no
    instrument but the clock. `energy_s` is the duration of the energy pass in seconds; 0: no such pass.
    """

    warmup: int = None  # type: ignore[assignment]  # until `__post_init__`, likewise the next
    max_warmup: int = None  # type: ignore[assignment]
    timed: int = 20
    memory: int = 3
    trace: int = 3
    parity: int = 10
    energy_s: float = 0.0

    def __post_init__(self) -> None:
        if self.max_warmup is None:
            msgspec.structs.force_setattr(self, "max_warmup", _MOST_WARMUP if self.warmup is None else self.warmup)
        if self.warmup is None:
            msgspec.structs.force_setattr(self, "warmup", _LEAST_WARMUP)
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise ValueError(f"schedule.{name} must not be negative, got {getattr(self, name)}")
        if self.timed < 1:
            raise ValueError("schedule.timed must be at least 1")


class LaunchSpec(Struct):
    """Launch of workers: the launcher and the places. `threads` is per rank; None leaves torch's own choice.

    `launcher` is a name of `perfkit.measure.launch.launcher_table`. Ranks may be on several machines, `nodes`, as many
    on each. Those of torchrun meet at `endpoint`: `HOST:PORT` of the first.
    """

    device: str = "cpu"
    world_size: int = 1
    threads: int | None = None
    timeout_s: float = 600.0
    memory_limit_bytes: int | None = None
    launcher: str = "process"
    nodes: int = 1
    endpoint: str = ""


class WorkloadSpec(Struct):
    """A workload by name (`gpt`, `hf:CONFIG`, `file.py:function`) with its parameters as given."""

    name: str
    params: dict[str, ParamValue] = {}

    def __post_init__(self) -> None:
        _refuse_non_finite(self.name, self.params)

    @property
    def label(self) -> str:
        return ":".join((self.name, *(f"{key}={format_param_value(value)}" for key, value in self.params.items())))

    def replace_params(self, **params: ParamValue) -> "WorkloadSpec":
        """A copy with these parameters replaced."""
        return msgspec.structs.replace(self, params={**self.params, **params})


class RunSpec(Struct):
    """One variant, run once: everything a worker needs to know.

    `accumulation` is the number of microbatches per optimizer step. `passes` names the instrumented passes
    to run after the timed steps; repeats that only add samples leave them out. With `pm_sampling` the trace has samples
    of the GPU's performance monitors.
    """

    schema_version: int = SPEC_VERSION
    workload: WorkloadSpec
    techniques: tuple[TechniqueSpec, ...] = ()
    dtype: str = "fp32"
    seed: int = 0
    accumulation: int = 1
    schedule: Schedule = Schedule()
    launch: LaunchSpec = LaunchSpec()
    passes: tuple[str, ...] = ("evidence", "memory", "trace")
    pm_sampling: bool = False

    @property
    def variant(self) -> str:
        """`amp+ckpt`, or `baseline`; with `@N` where the world size is not 1."""
        name = format_variant_label(self.techniques)
        return name if self.launch.world_size == 1 else f"{name}@{self.launch.world_size}"


def format_variant_label(techniques: Iterable[TechniqueSpec]) -> str:
    """The name of a combination of techniques: labels joined by `+`, or `baseline` for none."""
    return "+".join(technique.label for technique in techniques) or BASELINE


def parse_variants(text: str) -> list[tuple[TechniqueSpec, ...]]:
    """`"amp,amp+ckpt:mode=selective"` -> a list of technique combinations, duplicates removed.

    The word `baseline` means no technique. A parameter with several values, `batch:size=4|8|16`, makes a combination of
    each. An empty part or a malformed parameter is a `UsageError`.
    """
    variants: list[tuple[TechniqueSpec, ...]] = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            raise UsageError(f"empty technique in {text!r}: expected names separated by commas, such as amp,ckpt")
        combinations = [()] if part == BASELINE else product(*(_expand_alternatives(item) for item in part.split("+")))
        variants.extend(variant for variant in combinations if variant not in variants)
    return variants


def _expand_alternatives(text: str) -> list[TechniqueSpec]:
    """`"batch:size=4|8"` -> a TechniqueSpec for each value, of several such parameters for every combination."""
    head, *parts = text.split(":")
    choices = []
    for part in parts:
        key, equals, values = part.partition("=")
        choices.append([key + equals + value for value in values.split("|")])
    return [parse_technique(":".join((head, *chosen))) for chosen in product(*choices)]


def parse_technique(text: str) -> TechniqueSpec:
    """`"offload:what=activations:to=disk"` -> TechniqueSpec.

    `"batch:auto"` is short for `batch:auto=true`, and `"tp2"` for `tp:size=2`.
    """
    name, *rest = text.strip().split(":")
    if not name:
        raise UsageError(f"empty technique name in {text!r}")
    if sized := _SIZED.fullmatch(name):
        name, size = sized.groups()
        rest = [f"size={size}", *rest]
    return TechniqueSpec(name=name, params=_parse_params((_expand_flag(part) for part in rest), text))


def parse_workload(text: str, known: Iterable[str]) -> WorkloadSpec:
    """`"gpt:size=nano"`, `"hf:config.json"` or `"train.py:build"` -> WorkloadSpec.

    A name in `known` takes `:key=value` parameters. Anything after it that is not `key=value` belongs to the
    name itself, as do the colons of a user's `file.py:function`. Colons within `[...]` or quotes belong to the value,
    which stays as it is written: `read_param_value` reads it.
    """
    try:
        head, *rest = split_params(text.strip())
    except ValueError as error:
        raise UsageError(str(error)) from None
    name_parts = [head]
    while rest and "=" not in rest[0]:
        name_parts.append(rest.pop(0))
    if not head:
        raise UsageError(f"empty workload {text!r}: expected one of {', '.join(sorted(known))} or file.py:function")
    return WorkloadSpec(name=":".join(name_parts), params=_parse_params(rest, text))


def convert_params(cls: type[Any], kind: str, name: str, params: Mapping[str, ParamValue | list[Any]]) -> Any:
    """Make an instance of the msgspec Struct `cls` from parameters; a `UsageError` names the problem."""
    from perfkit.core.errors import UnknownParameterError, make_unknown_name_error

    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    for key in params:
        if key not in fields:
            if not fields:
                raise UnknownParameterError(key, f"{kind} {name!r} takes no parameters, got {key!r}")
            raise UnknownParameterError(key, str(make_unknown_name_error(f"parameter of {name}", key, fields)))
        choices = get_args(fields[key].type) if get_origin(fields[key].type) is Literal else ()
        if choices and params[key] not in choices:
            expected = " or ".join((", ".join(choices[:-1]), choices[-1])) if len(choices) > 1 else choices[0]
            raise UsageError(f"{kind} {name!r}: {key} must be {expected}, got {format_param_value(params[key])!r}")
    try:
        return msgspec.convert(dict(params), cls, strict=False)
    except msgspec.ValidationError as error:
        problem, _, key = str(error).partition(" - at `$.")
        if (key := key.rstrip("`")) in params:
            raise UsageError(f"{kind} {name!r}: {key}={format_param_value(params[key])}: {problem}") from None
        raise UsageError(f"{kind} {name!r}: {error}") from None


def _refuse_non_finite(name: str, params: Mapping[str, ParamValue]) -> None:
    for key, value in params.items():
        if isinstance(value, float) and not math.isfinite(value):  # JSON has no such numbers
            raise UsageError(f"{name}: {key} must be a finite number or a word, got {value}")


def _expand_flag(part: str) -> str:
    return f"{part}=true" if part in _FLAGS else part


def _parse_params(parts: Iterable[str], text: str) -> dict[str, ParamValue]:
    params: dict[str, ParamValue] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise UsageError(f"malformed parameter {part!r} in {text!r}: expected key=value")
        if key in params:
            raise UsageError(f"parameter {key!r} is given twice in {text!r}")
        params[key] = _parse_value(value)
    return params


def _parse_value(text: str) -> ParamValue:
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def format_param(key: str, value: ParamValue) -> str:
    """A parameter of a technique as it is written: `size=8`, `auto`."""
    return key if key in _FLAGS and value is True else f"{key}={format_param_value(value)}"


def format_param_value(value: ParamValue | list[Any]) -> str:
    """A parameter's value as it is written: `true`, `0.5`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
