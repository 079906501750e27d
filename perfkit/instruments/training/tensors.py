"""Storages that trained objects hold, counted once however many views share them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.core.allocations import InitialBlock
from perfkit.cost.calls.dtypes import BY_NAME, BY_TORCH_NAME
from perfkit.cost.kernels.fp32_products import MATMUL, resolve_compute_dtype
from perfkit.devices.accelerator import is_cuda
from perfkit.devices.ceilings.peak import Fp32Settings
from perfkit.devices.machine.fp32_precision import read_fp32_settings
from perfkit.instruments.training.trained_models import TrainedModels, get_trained_models
from perfkit.techniques.activations.paged_optimizer import get_local_optimizer
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.state import TrainState

# The methods for the parts of a sparse tensor, by its layout; those of COO also where it is not coalesced.
_SPARSE = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def list_optimizer_tensors(optimizers: Sequence[Optimizer]) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of all optimizer state of this rank, in the wrapped optimizer where there is one.

    Names are `exp_avg[3]`, of several optimizers `exp_avg[1:3]`. Sharded tensors come as they are (DTensor).
    """
    for place, optimizer in enumerate(optimizers):
        prefix = f"{place}:" if len(optimizers) > 1 else ""
        for number, state in enumerate(get_local_optimizer(optimizer).state.values()):
            for key, value in state.items():
                for tensor in find_nested_tensors(value):
                    yield f"{key}[{prefix}{number}]", tensor


def find_nested_tensors(value: object) -> Iterator[torch.Tensor]:
    """The tensors of one entry of an optimizer's state: preconditioners come in lists, projections in objects."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from find_nested_tensors(item)
    elif hasattr(value, "ortho_matrix"):  # GaLore's projector
        yield from find_nested_tensors(value.ortho_matrix)


def list_trained_blocks(trained: TrainedModels) -> tuple[InitialBlock, ...]:
    """The distinct storages on the training device whose category follows from what is trained."""
    blocks: dict[int, InitialBlock] = {}

    def add(category: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        for name, tensor in tensors:
            if tensor.device.type != trained.device.type:
                continue
            for part in list_plain_parts(get_local_part(tensor)):
                add_block(blocks, part, category, name)

    add("parameter", trained.named_parameters())
    add("parameter", _list_scales(trained))
    add("gradient", _list_gradients(trained))
    add("optimizer state", list_optimizer_tensors(trained.optimizers))
    add("buffer", trained.named_buffers())
    return tuple(blocks.values())


def list_known_blocks(state: TrainState) -> tuple[InitialBlock, ...]:
    """`list_trained_blocks` of what a worker trains."""
    return list_trained_blocks(get_trained_models(state))


def add_block(blocks: dict[int, InitialBlock], tensor: torch.Tensor, category: str, name: str) -> None:
    """Add the storage of `tensor`, unless it is empty or there already."""
    storage = tensor.untyped_storage()
    address = get_address(storage)
    if storage.nbytes() and address not in blocks:
        whole = tensor.nbytes == storage.nbytes()
        blocks[address] = InitialBlock(
            address=address,
            size_bytes=storage.nbytes(),
            category=category,
            name=name,
            shape=str(list(tensor.shape)) if whole else "",
            dtype=shorten_dtype(tensor.dtype),
        )


def get_address(storage: torch.UntypedStorage) -> int:
    """The address of a storage; for a fake tensor, which has none, the id of its object."""
    return int(storage._cdata) if storage.device.type == "meta" else storage.data_ptr()


def sum_category_bytes(blocks: Iterable[InitialBlock], category: str) -> int:
    """Bytes of one category."""
    return sum(block.size_bytes for block in blocks if block.category == category)


def sum_parameter_bytes(model: nn.Module) -> dict[str, int]:
    """Bytes of this rank's parameters by dtype (`fp32`), leaving out those whose memory is elsewhere now."""
    totals: dict[str, int] = {}
    for parameter in model.parameters():
        for tensor in list_plain_parts(get_local_part(parameter)):
            if tensor.untyped_storage().nbytes():
                name = shorten_dtype(tensor.dtype)
                totals[name] = totals.get(name, 0) + tensor.nbytes
    return totals


def collect_parameter_facts(models: Iterable[nn.Module]) -> dict[str, float]:
    """The facts `parameter_bytes:<dtype>` of models that are trained together."""
    totals: Counter[str] = Counter()
    for model in models:
        totals.update(sum_parameter_bytes(model))
    return {f"parameter_bytes:{name}": float(size) for name, size in totals.items()}


def collect_state_facts(optimizers: Iterable[Optimizer]) -> dict[str, float]:
    """The facts `optimizer_state_bytes:<dtype>` of this rank's optimizers, wherever their state is.

    Codes (`uint8`) are also counted as zero, so that a claim about them can fail.
    """
    totals: Counter[str] = Counter({shorten_dtype(torch.uint8): 0})
    for _, tensor in list_optimizer_tensors([*optimizers]):
        for part in list_plain_parts(get_local_part(tensor)):
            totals[shorten_dtype(part.dtype)] += part.nbytes
    return {f"optimizer_state_bytes:{name}": float(size) for name, size in totals.items()}


def sum_trainable_bytes(model: nn.Module) -> int:
    """Bytes of this rank's parameters that take gradients, wherever they are now."""
    return sum(get_local_part(parameter).nbytes for parameter in model.parameters() if parameter.requires_grad)


def list_plain_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The plain tensors inside a tensor without its own storage: a subclass (a quantized weight or state), or a sparse
    one. Any other tensor unchanged; nothing for one without accessible memory (`has_storage`)."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        names, _ = flatten()
        for name in names:
            yield from list_plain_parts(getattr(tensor, name))
    elif tensor.layout in _SPARSE:
        for part in _SPARSE[tensor.layout]:
            yield getattr(tensor, part)().detach()
    elif has_storage(tensor):
        yield tensor


def has_storage(tensor: torch.Tensor) -> bool:
    """True if a tensor has a storage.

    Not where its memory is a library's (oneDNN's layout), nor where it stands for another while code is transformed:
    functional tensors, which compiling leaves behind, and those within `torch.func` (vmap, grad).
    """
    return (
        tensor.layout == torch.strided
        and not torch._is_functional_tensor(tensor)
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def shorten_dtype(dtype: torch.dtype) -> str:
    """`torch.bfloat16` -> `bf16`; a dtype that has no short name keeps its own."""
    name = str(dtype).removeprefix("torch.")
    return BY_TORCH_NAME[name].name if name in BY_TORCH_NAME else name


def get_compute_dtype(dtype: str, device: torch.device) -> str:
    """The precision of matmuls with operands of `dtype`: TF32 for fp32 if torch allows it on the GPU."""
    return resolve_compute_dtype(MATMUL, dtype, read_product_settings(device))


def read_product_settings(device: torch.device) -> Fp32Settings | None:
    """The settings that decide what fp32 products are computed in; None on a CPU, where they stay fp32."""
    return read_fp32_settings(device) if is_cuda(device) else None


def get_torch_dtype(name: str) -> torch.dtype:
    """`bf16` -> `torch.bfloat16`."""
    dtype: torch.dtype = getattr(torch, BY_NAME[name].torch_name)
    return dtype


def _list_scales(trained: TrainedModels) -> Iterator[tuple[str, torch.Tensor]]:
    """The scales and tables of bitsandbytes' weights in 4 bits, those of the scales themselves among them."""
    for name, parameter in trained.named_parameters():
        state = getattr(parameter, "quant_state", None)
        for level in (state, getattr(state, "state2", None)):
            for key, value in (vars(level) if level is not None else {}).items():
                if isinstance(value, torch.Tensor):
                    yield f"{name}.{key}", value


def _list_gradients(trained: TrainedModels) -> Iterator[tuple[str, torch.Tensor]]:
    for name, parameter in trained.named_parameters():
        if parameter.grad is not None:
            yield name, parameter.grad
