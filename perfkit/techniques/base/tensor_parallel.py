"""Splits a model over ranks by a plan: parameters become DTensors, and shared parameters stay shared."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from perfkit.core.errors import UnavailableError

Plan = Mapping[str, ParallelStyle]


# Facts.
LAYERS, COLUMNS, ROWS = "split_layers", "column_split_layers", "row_split_layers"
EXCHANGED = "split_activation_bytes"


class LayerExchange(NamedTuple):
    """A call of a layer to be split by its outputs (`column`) whose input takes gradients, or of one to be split by its
    inputs whose output does, and the bytes of that input or output.
    """

    layer: nn.Module
    column: bool
    bytes: int


class SplitLayers(NamedTuple):
    """A plan's split: layers by their outputs (columns) and by their inputs (rows), and the remaining parameters.

    `parameter_bytes` are those of a rank with the largest part.
    """

    columns: int
    rows: int
    parameter_bytes: int


def measure_split(model: nn.Module, plan: Plan, ranks: int) -> SplitLayers:
    """Measure how a plan splits an unmodified model; raise `UnavailableError` for an unknown name."""
    columns = rows = 0
    dimensions: dict[nn.Parameter, int] = {}
    for pattern, style in plan.items():
        modules = _find_modules(model, pattern)
        if not modules:
            raise UnavailableError(f"the tensor-parallel plan splits {pattern}, which the model does not have")
        if isinstance(style, ColwiseParallel):
            columns += len(modules)
        elif isinstance(style, RowwiseParallel):
            rows += len(modules)
        for module in modules:
            dimensions.update(_find_split_parameters(module, style))
    if not columns + rows:
        raise UnavailableError("the tensor-parallel plan splits no layer")
    sizes = (
        _count_largest_part_bytes(parameter, dimensions[parameter], ranks)
        if parameter in dimensions
        else parameter.nbytes
        for parameter in model.parameters()
    )
    return SplitLayers(columns, rows, sum(sizes))


def _find_modules(model: nn.Module, pattern: str) -> list[nn.Module]:
    return [module for name, module in model.named_modules() if is_pattern_match(name, pattern)]


def is_pattern_match(name: str, pattern: str) -> bool:
    """True if a pattern of a plan matches a module: each part of its name separately, as in `parallelize_module`."""
    parts, patterns = name.split("."), pattern.split(".")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _find_split_parameters(module: nn.Module, style: ParallelStyle) -> Iterator[tuple[nn.Parameter, int]]:
    """The parameters of a layer that its style splits, and the dimension along which it does."""
    embedding = isinstance(module, nn.Embedding)
    for name, parameter in module.named_parameters(recurse=False):
        if isinstance(style, ColwiseParallel):
            yield parameter, 1 if embedding else 0
        elif isinstance(style, RowwiseParallel) and name == "weight":
            yield parameter, 0 if embedding else 1


def _count_largest_part_bytes(parameter: nn.Parameter, dimension: int, ranks: int) -> int:
    size = parameter.shape[dimension]
    return parameter.nbytes // size * math.ceil(size / ranks)


def get_split_shape(parameter: torch.Tensor) -> torch.Size:
    """The shape of a rank's part of a parameter as it is split over ranks, sliced further or not."""
    if not isinstance(parameter, DTensor) or "tp" not in (parameter.device_mesh.mesh_dim_names or ()):
        return parameter.shape
    assert parameter.device_mesh.mesh_dim_names is not None
    along = parameter.device_mesh.mesh_dim_names.index("tp")
    placement = parameter.placements[along]
    sizes = list(parameter.shape)
    if isinstance(placement, Shard):
        sizes[placement.dim] = math.ceil(sizes[placement.dim] / parameter.device_mesh.size(along))
    return torch.Size(sizes)


def get_split_bytes(parameter: torch.Tensor) -> int:
    """The bytes of such a part."""
    return parameter.nbytes // parameter.numel() * get_split_shape(parameter).numel() if parameter.numel() else 0


def splits_sequences(plan: Plan) -> bool:
    """True if layers that are split by their inputs leave parts of their outputs, not whole sums."""
    rows = (style for style in plan.values() if isinstance(style, RowwiseParallel))
    return any(isinstance(layout, Shard) for style in rows for layout in style.output_layouts)


def parallelize_model(model: nn.Module, mesh: DeviceMesh, plan: Plan) -> None:
    """Split a model in place. All ranks have the first one's parameters and buffers then, as with DDP.

    `UnavailableError` where one parameter of several layers is not split alike in all of them.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)
    shared = _find_shared_parameters(model)
    parallelize_module(model, mesh, dict(plan), src_data_rank=None)
    for names in shared:
        first, *others = (model.get_parameter(name) for name in names)
        if any(_get_placements(other) != _get_placements(first) for other in others):
            raise UnavailableError(f"{' and '.join(names)} are one parameter, and the plan splits them differently")
        for name in names[1:]:
            owner, _, leaf = name.rpartition(".")
            model.get_submodule(owner).register_parameter(leaf, first)
    for parameter in model.parameters():
        if isinstance(parameter, DTensor) and parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(_match_gradient_placement)  # type: ignore[no-untyped-call]


def find_exchanges(model: nn.Module, plan: Plan, forward: Callable[[], object]) -> list[LayerExchange]:
    """Find the exchanges of layers in `forward` of a model that is not yet split, and in backward."""
    exchanges: list[LayerExchange] = []

    def went_in(module: nn.Module, inputs: tuple[torch.Tensor, ...], _output: torch.Tensor) -> None:
        if inputs[0].requires_grad:
            exchanges.append(LayerExchange(module, column=True, bytes=inputs[0].nbytes))

    def came_out(module: nn.Module, _inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if output.requires_grad:
            exchanges.append(LayerExchange(module, column=False, bytes=output.nbytes))

    with ExitStack() as stack:
        for pattern, style in plan.items():
            for module in _find_modules(model, pattern):
                if isinstance(style, ColwiseParallel):
                    stack.callback(module.register_forward_hook(went_in).remove)
                elif isinstance(style, RowwiseParallel):
                    stack.callback(module.register_forward_hook(came_out).remove)
        forward()
    return exchanges


def make_exchange_facts(exchanges: Iterable[LayerExchange], batches: int) -> dict[str, float]:
    """Make facts of the layers' exchanges in the forward passes of these batches."""
    counted = list(exchanges)
    columns = sum(exchange.column for exchange in counted)
    return {
        LAYERS: float(len(counted)),
        COLUMNS: float(columns),
        ROWS: float(len(counted) - columns),
        EXCHANGED: float(sum(exchange.bytes for exchange in counted) * batches),
    }


def _find_shared_parameters(model: nn.Module) -> list[list[str]]:
    """The names of each parameter that has several."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return [several for several in names.values() if len(several) > 1]


def _get_placements(parameter: torch.Tensor) -> object:
    return parameter.placements if isinstance(parameter, DTensor) else None


def _match_gradient_placement(parameter: torch.Tensor) -> None:
    """Gradients of norms are each rank's part of a sum, those of an embedding's rows whole: what an optimizer would
    make of them in each of its ops is made once."""
    gradient = parameter.grad
    assert isinstance(parameter, DTensor)
    if isinstance(gradient, DTensor) and gradient.placements != parameter.placements:
        parameter.grad = gradient.redistribute(placements=parameter.placements)
