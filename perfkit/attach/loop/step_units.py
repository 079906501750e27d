"""Counts the samples of a step, as far as an attached loop shows them."""

from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn

# Batches are nested at most so deep in tuples, lists and mappings.
_DEEPEST = 4

# Names of tensors that separate or number the sequences of a row.
_OFFSETS = "cu_seq"
_SEQUENCE_NUMBERS = ("seq_idx", "sequence_id", "sequence_ids", "doc_ids", "document_ids")

PACKED = "sequences are packed"

HOW = "--units-per-step (units_per_step=)"


class StepUnits(NamedTuple):
    """Units of a step (0 where unknown), their name, and their source."""

    per_step: int
    unit: str
    source: str


def find_tensors(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors in a batch that have a first dimension and something in it."""
    if isinstance(value, torch.Tensor):
        if value.dim() and value.shape[0]:
            yield value
    elif depth < _DEEPEST:
        inside: Iterable[Any] = ()
        if isinstance(value, Mapping):
            inside = value.values()
        elif isinstance(value, list | tuple):
            inside = value
        for part in inside:
            yield from find_tensors(part, depth + 1)


def get_leading_size(value: Any) -> int:
    """The size of the first dimension of the first tensor in a batch; 0 without one."""
    return next((int(tensor.shape[0]) for tensor in find_tensors(value)), 0)


def get_stated_size(value: Any) -> int | None:
    """The samples that a batch states itself: the graphs of a batch of PyTorch Geometric, the sequences between offsets
    (`cu_seqlens`); None where it does not."""
    for name, part in _walk_batch(value):
        if isinstance(getattr(type(part), "num_graphs", None), property):
            return int(part.num_graphs)
        if name.startswith(_OFFSETS) and isinstance(part, torch.Tensor) and part.dim() == 1:
            return len(part) - 1
    return None


def get_batch_size(value: Any) -> int:
    """The samples of a batch: those that it states, else its leading size."""
    stated = get_stated_size(value)
    return get_leading_size(value) if stated is None else stated


def explain_doubt(value: Any) -> str:
    """The reason that the first dimension of a batch may not be its samples; "" without one.

    Lists of images, nodes and edges of graphs, and packed sequences are such.
    """
    if get_stated_size(value) is not None:
        return ""
    if any(_is_packed(name, part) for name, part in _walk_batch(value) if isinstance(part, torch.Tensor)):
        return PACKED
    if len({int(tensor.shape[0]) for tensor in find_tensors(value)}) > 1:
        return "tensors differ in their first dimension"
    return ""


def has_sequence_axes(value: Any) -> bool:
    """True if all tensors of a batch may be [sequence, batch, ...]: no label per sample and no image is among them."""
    shapes = [tensor.dim() for tensor in find_tensors(value)]
    return bool(shapes) and all(dimensions in (2, 3) for dimensions in shapes)


def _is_packed(name: str, tensor: torch.Tensor) -> bool:
    """True if the tensor shows that a row has several sequences, or may: a device is not asked for its numbers."""
    if name == "position_ids" and tensor.dim() > 1:
        return not tensor.is_cpu or bool(((tensor == 0).sum(-1) > 1).any())
    return name in _SEQUENCE_NUMBERS


def _walk_batch(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """What is in a batch, each with its name in the mapping that has it, "" without one."""
    yield name, value
    if depth < _DEEPEST and isinstance(value, Mapping):
        for key, part in value.items():
            yield from _walk_batch(part, key if isinstance(key, str) else "", depth + 1)
    elif depth < _DEEPEST and isinstance(value, list | tuple):
        for part in value:
            yield from _walk_batch(part, name, depth + 1)


def find_batch_tensor(inputs: Any) -> torch.Tensor | None:
    """The tensor whose first dimension shows the number of samples: the first of two or more dimensions, else the first
    of one, which may be a single sample."""
    first: torch.Tensor | None = None
    for tensor in find_tensors(inputs):
        if tensor.dim() > 1:
            return tensor
        first = tensor if first is None else first
    return first


def find_sequence_first(models: Iterable[nn.Module]) -> str:
    """The first layer in `models` that reads [sequence, batch, ...], such as `nn.LSTM`; "" where none does.

    Recurrent layers and attention of torch do so unless they are built with batch_first=True.
    """
    for model in models:
        for module in model.modules():
            if isinstance(module, nn.RNNBase | nn.MultiheadAttention) and not module.batch_first:
                return f"nn.{type(module).__name__}"
    return ""


def count_units(
    fetched: list[int], given: list[int], *, stated: float | None, unit: str, doubt: str = "", batch_doubt: str = ""
) -> StepUnits:
    """The units of a step.

    Args:
        fetched: for each step the samples in the batches that DataLoaders gave.
        given: for each step the samples that the model was called with in training; empty where there are several.
        stated: what the user says; goes before all others.
        unit: what the user calls them.
        doubt: why `given` may not be the samples of a step, "" where it is; `batch_doubt` the same of `fetched`.
    """
    if stated is not None:
        return StepUnits(round(stated), unit, "given by the user")
    if batch_doubt:
        fetched, doubt = [], doubt or (batch_doubt if not given else "")
    if doubt and not (fetched and median(fetched) > 0):
        return StepUnits(0, unit, f"unknown: {doubt}; pass it with {HOW}")
    for series, source in (
        (fetched, "counted: first dimension of the first tensor in each batch of the DataLoader"),
        (given, "counted: first dimension of the first tensor passed to the model"),
    ):
        if series and median(series) > 0:
            return StepUnits(round(median(series)), "samples", source)
    none = "no DataLoader was used, and no single model was called with a tensor"
    return StepUnits(0, unit, f"unknown: {none}; pass it with {HOW}")
