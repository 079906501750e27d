"""Finds the shape of a model that a user names: a public model, a config.json, a class of Transformers, or numbers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfkit.core.errors import UnavailableError, UsageError, make_unknown_name_error
from perfkit.core.optional_deps import require_torch
from perfkit.core.spec import ParamValue, WorkloadSpec, parse_workload
from perfkit.mfu.decoder_shapes import MODEL_TYPES, build_shape, has_formula
from perfkit.mfu.model_shape import AttentionLayers, ModelShape
from perfkit.mfu.transformers_shapes import count_shape
from perfkit.mfu.written_number import WrittenNumber, parse_count
from perfkit.workloads.hf_config import load_config
from perfkit.workloads.models.architectures import ARCHITECTURES, expand_architecture

_HF, _GPT = "hf:", "gpt"
_CONFIG_FILE = "config.json"
# Of the batch, not of the model.
_BATCH_KEYS = frozenset({"seq_len", "batch_size", "task", "micro_batch_size"})


def is_model(text: str) -> bool:
    """True for what names a model rather than a run or a trace."""
    path = Path(text)
    if path.exists():
        return path.name == _CONFIG_FILE or (path.is_dir() and (path / _CONFIG_FILE).is_file())
    return text.startswith(_HF) or ("/" not in text and "@" not in text and path.suffix != ".gz")


def resolve_model(text: str) -> tuple[ModelShape, int | None]:
    """The shape of a model, and the length of its sequences where the name gives one (`llama-3-8b:seq_len=8192`).

    Raises:
        UsageError: an unknown model, with the nearest names; or a config whose parameters are not counted.
        UnavailableError: a class of Transformers, which is not installed.
    """
    path = Path(text)
    if path.exists():
        file = path / _CONFIG_FILE if path.is_dir() else path
        attributes = _read_config(file)
        if has_formula(attributes):
            return build_shape(text, attributes, str(file)), None
        return count_shape(text, _load_config(text, str(file), {}), str(file)), None
    spec = parse_workload(text, [_GPT, *ARCHITECTURES])
    if spec.name not in (_GPT, *ARCHITECTURES) and not spec.name.startswith(_HF):
        raise make_unknown_name_error("model", spec.name, (_GPT, *ARCHITECTURES))
    return shape_workload(spec)


def shape_workload(spec: WorkloadSpec) -> tuple[ModelShape, int | None]:
    """The shape of the model of a workload, and the length of its sequences if its parameters say it.

    Raises:
        UsageError: a workload whose parameters are not counted.
        UnavailableError: a workload whose sizes need torch or Transformers, which is not installed.
    """
    label = spec.label
    given = spec.params.get("seq_len")
    source = "perfkit's table of public models" if spec.name in ARCHITECTURES else spec.name
    if spec.name in ARCHITECTURES:
        source = ARCHITECTURES[spec.name].source
    if spec.name == _GPT:
        return _shape_gpt(spec)
    expanded = expand_architecture(spec)
    if not expanded.name.startswith(_HF):
        raise UsageError(f"{label}: the parameters of this workload are not counted; give --params, --layers, --width")
    config = {key: value for key, value in expanded.params.items() if key not in _BATCH_KEYS}
    argument = expanded.name.removeprefix(_HF)
    seq_len = given if isinstance(given, int) else None
    if spec.name in ARCHITECTURES:
        attributes = {"model_type": MODEL_TYPES.get(argument, argument), **config}
        if has_formula(attributes):
            return build_shape(label, attributes, source), seq_len
    loaded = _load_config(label, argument, config)
    attributes = loaded.to_dict()
    if has_formula(attributes):
        return build_shape(label, attributes, source), seq_len
    return count_shape(label, loaded, source), seq_len


def _shape_gpt(spec: WorkloadSpec) -> tuple[ModelShape, int]:
    """perfkit's own GPT-2, whose sizes are in its workload."""
    require_torch("the shape of the workload gpt")
    from perfkit.workloads.gpt import Gpt

    given = Gpt.parse("", spec.params)
    sizes = given.resolve_shape()
    config = {
        "model_type": "gpt2",
        "n_embd": sizes.width,
        "n_layer": sizes.layers,
        "n_head": sizes.heads,
        "vocab_size": sizes.vocab,
        "n_positions": sizes.positions,
    }
    return build_shape(spec.label, config, "perfkit's workload gpt"), given.seq_len or sizes.positions


def make_typed_shape(
    params: str | float,
    *,
    active_params: str | float | None,
    layers: int | None,
    width: int | None,
    vocab: int | None,
    tied: bool,
) -> tuple[ModelShape, WrittenNumber]:
    """A shape of numbers that the user gives, and the number of parameters as it was written.

    `width` is of a hidden state, and of all query heads together.
    """
    written = parse_count(params, "--params")
    total = round(written.value)
    active = written if active_params is None else parse_count(active_params, "--active-params")
    if active.value > written.value:
        raise UsageError(f"--active-params {active_params}: more than --params {params}")
    table = vocab * width if vocab is not None and width is not None else None
    shape = ModelShape(
        name=f"{params} parameters",
        source="given",
        params=total,
        inactive_params=total - round(active.value),
        token_table=table,
        position_table=None,
        tied=tied if table is not None else None,
        width=width,
        heads=None if width is None else 1,
        head_dim=width,
        vocab=vocab,
        attention=() if layers is None else (AttentionLayers(layers=layers),),
    )
    return shape, active


def _load_config(name: str, argument: str, params: Mapping[str, ParamValue]) -> Any:
    """The config of a model that only Transformers knows."""
    try:
        return load_config(argument, params)
    except UnavailableError as error:
        raise UnavailableError(
            f"{name}: {error} to count its parameters, or give --params, --layers and --width", id=error.id
        ) from None


def _read_config(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{file}: not JSON: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{file}: not a Transformers config: expected an object with model_type")
    text = values.get("text_config")
    return text if isinstance(text, dict) else values
