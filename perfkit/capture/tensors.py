"""Which storages a training state holds, counted once however many views share them."""

from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.cost.dtypes import BY_NAME, BY_TORCH_NAME
from perfkit.record import Block
from perfkit.techniques.paged_tensors import local_part
from perfkit.techniques.state import TrainState
from perfkit.workloads.workload import Batch


def optimizer_tensors(optimizer: Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of all optimizer state of this rank, in the wrapped optimizer where there is one.

    Sharded tensors come as they are (DTensor).
    """
    inner = getattr(optimizer, "optim", optimizer)
    for number, state in enumerate(inner.state.values()):
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                yield f"{key}[{number}]", value


def known_blocks(state: TrainState, batch: Batch | None = None) -> tuple[Block, ...]:
    """The distinct storages on the training device whose category follows from the training state."""
    blocks: dict[int, Block] = {}

    def add(category: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        for name, tensor in tensors:
            if tensor.device.type != state.device.type:
                continue
            for part in plain_parts(local_part(tensor)):
                add_block(blocks, part, category, name)

    add("parameter", state.model.named_parameters())
    add("gradient", _gradients(state.model))
    if state.optimizer is not None:
        add("optimizer state", optimizer_tensors(state.optimizer))
    add("buffer", state.model.named_buffers())
    add("input", (batch or {}).items())
    return tuple(blocks.values())


def add_block(blocks: dict[int, Block], tensor: torch.Tensor, category: str, name: str) -> None:
    """Add the storage of `tensor`, unless it is empty or there already."""
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    if storage.nbytes() and address not in blocks:
        whole = tensor.nbytes == storage.nbytes()
        blocks[address] = Block(
            address=address,
            size_bytes=storage.nbytes(),
            category=category,
            name=name,
            shape=str(list(tensor.shape)) if whole else "",
            dtype=short_dtype(tensor.dtype),
        )


def category_bytes(blocks: Iterable[Block], category: str) -> int:
    """Bytes of one category."""
    return sum(block.size_bytes for block in blocks if block.category == category)


def parameter_bytes_by_dtype(model: nn.Module) -> dict[str, int]:
    """Bytes of this rank's parameters by dtype (`fp32`), leaving out those whose memory is elsewhere now."""
    totals: dict[str, int] = {}
    for parameter in model.parameters():
        for tensor in plain_parts(local_part(parameter)):
            if tensor.untyped_storage().nbytes():
                name = short_dtype(tensor.dtype)
                totals[name] = totals.get(name, 0) + tensor.nbytes
    return totals


def plain_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The plain tensors inside a tensor subclass (a quantized weight or state), which has no storage of its own; any
    other tensor as it is."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    names, _ = flatten()
    for name in names:
        yield from plain_parts(getattr(tensor, name))


def short_dtype(dtype: torch.dtype) -> str:
    """`torch.bfloat16` -> `bf16`; a dtype that has no short name keeps its own."""
    name = str(dtype).removeprefix("torch.")
    return BY_TORCH_NAME[name].name if name in BY_TORCH_NAME else name


def torch_dtype(name: str) -> torch.dtype:
    """`bf16` -> `torch.bfloat16`."""
    dtype: torch.dtype = getattr(torch, BY_NAME[name].torch_name)
    return dtype


def _gradients(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            yield name, parameter.grad
