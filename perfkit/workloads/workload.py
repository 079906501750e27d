"""Definition of a workload: a model, an optimizer, batches and a loss, as plain functions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from perfkit.core.errors import UsageError
from perfkit.devices.accelerator import is_cpu
from perfkit.workloads.training import Losses, Training
from perfkit.workloads.user_signature import can_take_one

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle

# A batch is a mapping of names to tensors, on the CPU when made; the worker moves it to the device.
Batch = dict[str, torch.Tensor]
Optimizers = Optimizer | Mapping[str, Optimizer] | Sequence[Optimizer]
# The loss of features (n, width) under an output layer's weight (classes, width), given the n right classes.
LinearLoss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
WithLinearLoss = Callable[[nn.Module, Batch, LinearLoss], torch.Tensor]


class TensorParallelSplit(NamedTuple):
    """Split of a model by tensor parallelism over some number of ranks.

    `sequence`: layers between the split ones are split along the sequence (sequence parallelism). `loss`: logits stay
    split, each rank with a part of the classes (loss parallelism).
    """

    ranks: int
    sequence: bool
    loss: bool

    def describe_fitting(self, *numbers: int) -> str:
        """Describe the next numbers of ranks that divide all `numbers`, as advice."""
        common = gcd(*numbers)
        divisors = [ranks for ranks in range(2, common + 1) if common % ranks == 0]
        fitting = sorted(sorted(divisors, key=lambda ranks: abs(ranks - self.ranks))[:2])
        return f"use {' or '.join(f'tp{ranks}' for ranks in fitting)}" if fitting else "no number of ranks divides them"


TensorParallelPlan = Callable[[nn.Module, TensorParallelSplit], Mapping[str, "ParallelStyle"]]


def _list_no_blocks(_model: nn.Module) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A training workload.

    Attributes:
        name: shown in reports.
        unit: unit of throughput, `tokens` or `samples`.
        units_per_batch: units in one microbatch of one rank.
        build_model: builds the model in fp32 on the CPU; the worker seeds torch before and moves it after. A dict of
            names to models if `step` trains several.
        build_optimizer: builds the optimizer of the model, or several by name or in a list. The model is that of
            `build_model`, with the same modules and names; its parameters may differ (FSDP2 replaces them). For several
            models it is their `Models`.
        make_batch: makes one microbatch on the CPU, drawn from the given generator (deterministic, not constant). All
            batches are made before the first step.
        make_loader: instead of `make_batch`, makes a DataLoader of microbatches, whose loading is part of every step.
            Its randomness (order, augmentation) must follow the given generator. It may also take `format` and
            `augment`, by name and with defaults.
        loss: the scalar training loss of a microbatch, or an object that holds it (`perfkit.workloads.model_loss`).
            None if the model computes it: it is called with the batch as keyword arguments.
        step: a whole training step, if it is more than one loss, one backward pass and one update.
        blocks: a function of the model: the names (as in `model.get_submodule`) of the repeated blocks that
            checkpointing, sharding and per-block compilation work on; outermost first, never nested.
        use_sdpa: switches the model from explicit attention (the baseline) to
            `torch.nn.functional.scaled_dot_product_attention`; None without such attention.
        sequence_dimensions: by name, the tensors of a batch with an entry per token of a sequence, and the dimension of
            these. If a rank has a part of each sequence, the batch's `positions` tell the loss which tokens they are.
            None if not stated.
        linear_loss: the loss with the output layer and the cross-entropy of its logits left to the given function; it
            calls the model as `loss` does. None without such a layer.
        build_teacher: a model called like that of `build_model`, with logits of the same number of classes, for
            `distill:teacher=own`; built and moved likewise. None if there is none.
        tensor_parallel_plan: the plan for `torch.distributed.tensor.parallel.parallelize_module`: names or patterns of
            modules, and how each is split. It raises `UnavailableError` if the model cannot be split so. None if not
            stated.
        expert_parallel: names of the expert modules that `ep` distributes over ranks: their parameters have the expert
            as first dimension, and they map (experts, slots, width) to the same, each expert its own slots, or are
            called with tokens (tokens, width), the experts of each (tokens, choices) and their weights. None without
            experts, or if not stated.
        model_flops_per_unit: FLOPs per unit of forward and backward by a closed form; None if unknown.
        description: one line of sizes, for the report.
    """

    name: str
    unit: str
    units_per_batch: int
    build_model: Callable[[], nn.Module | Mapping[str, nn.Module]]
    build_optimizer: Callable[[Any], Optimizers]
    make_batch: Callable[[torch.Generator], Batch] | None = None
    make_loader: Callable[..., DataLoader[Any]] | None = None
    loss: Callable[[nn.Module, Batch], object] | None = None
    step: Callable[[Training, Batch], Losses] | None = None
    blocks: Callable[[nn.Module], tuple[str, ...]] = _list_no_blocks
    use_sdpa: Callable[[nn.Module], None] | None = None
    sequence_dimensions: Mapping[str, int] | None = None
    linear_loss: WithLinearLoss | None = None
    build_teacher: Callable[[], nn.Module] | None = None
    tensor_parallel_plan: TensorParallelPlan | None = None
    expert_parallel: Callable[[nn.Module], tuple[str, ...]] | None = None
    model_flops_per_unit: float | None = None
    description: str = ""

    def __post_init__(self) -> None:
        if self.loss is not None and self.step is not None:
            raise UsageError(f"the workload {self.name} has both loss and step; omit one of them", id="usage.conflict")
        if (self.make_batch is None) == (self.make_loader is None):
            raise UsageError(f"the workload {self.name} must have either make_batch or make_loader")
        for name, function, argument in (
            ("make_batch", self.make_batch, "generator"),
            ("blocks", self.blocks, "model"),
        ):
            if function is not None and not callable(function):
                kind = type(function).__name__
                raise UsageError(
                    f"{name} of the workload {self.name} is a {kind}; expected a function of the {argument}"
                )
            if function is not None and not can_take_one(function):
                raise UsageError(f"{name} of the workload {self.name} must take the {argument} alone")


def draw_first_batch(workload: Workload, generator: torch.Generator) -> Batch:
    """A microbatch of the workload, the first that it draws from the generator.

    A DataLoader draws the seed of its workers from torch's generator of the process, which stays as it was.
    """
    with torch.random.fork_rng(devices=[]):
        return next(draw_batches(workload, generator))


def draw_batches(workload: Workload, generator: torch.Generator) -> Iterator[Batch]:
    """Microbatches of the workload without end; those of a DataLoader, which must have one, again and again.

    A `UsageError` for anything but dicts of tensors.
    """
    if workload.make_batch is not None:
        while True:
            yield check_batch(workload.make_batch(generator), f"make_batch of {workload.name}")
    assert workload.make_loader is not None
    loader = workload.make_loader(generator)
    while True:
        batches = iter(loader)
        first = next(batches, None)
        if first is None:
            raise make_no_batch_error(workload)
        for batch in chain((first,), batches):
            yield check_batch(batch, f"make_loader of {workload.name}")


def check_batch(batch: object, made_by: str) -> Batch:
    """Return the batch; raise a `UsageError` unless it is a dict of tensors, since user code made it."""
    example = 'such as {"x": x, "y": y}'
    if not isinstance(batch, dict):
        raise UsageError(f"{made_by} returned a {type(batch).__name__}; expected a dict of tensors, {example}")
    for key, value in batch.items():
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            raise UsageError(f"{made_by}: {key!r} is a {kind}; expected a dict of tensors, {example}")
    return batch


def make_no_batch_error(workload: Workload) -> UsageError:
    """Make the error for a DataLoader that ends before its first batch."""
    return UsageError(f"make_loader of {workload.name}: its DataLoader yields no batch")


def count_samples(batch: Batch) -> int | None:
    """Count a batch's samples: the first dimension of all its tensors; None if they differ."""
    sizes = {tensor.shape[0] if tensor.dim() else None for tensor in batch.values()}
    return sizes.pop() if len(sizes) == 1 else None


def split_batch(batch: Batch, parts: int) -> list[Batch]:
    """Split the batch into equal parts, views of its tensors."""
    if parts == 1:
        return [batch]
    split = {name: tensor.chunk(parts) for name, tensor in batch.items()}
    return [{name: pieces[place] for name, pieces in split.items()} for place in range(parts)]


def join_batches(batches: Sequence[Batch]) -> Batch:
    """The samples of several batches as one."""
    if len(batches) == 1:
        return batches[0]
    return {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}


def move_to_device(batch: Batch, device: torch.device, non_blocking: bool = True) -> Batch:
    """Copy the batch to new memory on `device`; the CPU waits for the copy unless told not to."""
    if is_cpu(device):
        return {name: tensor.clone() for name, tensor in batch.items()}
    return {name: tensor.to(device, non_blocking=non_blocking) for name, tensor in batch.items()}


class Models(nn.ModuleDict):
    """Several models that one step trains, by name: `models["generator"]`, `models.generator`."""


def list_blocks(workload: Workload, model: nn.Module) -> tuple[str, ...]:
    """The names of the workload's blocks within the model, of a module that has several (tied layers) the first."""
    first: dict[nn.Module, str] = {}
    for name in workload.blocks(model):
        first.setdefault(model.get_submodule(name), name)
    return tuple(first.values())


def make_model(workload: Workload) -> nn.Module:
    """The workload's model, or the `Models` it made; a `UsageError` for anything else."""
    built = workload.build_model()
    if isinstance(built, nn.Module):
        return built
    if not isinstance(built, Mapping) or not built or not all(isinstance(part, nn.Module) for part in built.values()):
        raise UsageError(
            f"build_model of {workload.name} returned a {type(built).__name__}; expected a model or a dict of models"
        )
    if workload.step is None:
        raise UsageError(
            f"build_model of {workload.name} returned {len(built)} models; to train several, give the workload "
            "step=, or put them into one nn.Module"
        )
    return Models(built)


def cast_model(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Give the model's floating-point tensors this dtype. `Module.to` would also make complex ones real."""
    cast = {
        torch.float32: model.float,
        torch.bfloat16: model.bfloat16,
        torch.float16: model.half,
        torch.float64: model.double,
    }
    return cast[dtype]()


def make_optimizers(workload: Workload, model: nn.Module) -> dict[str, Optimizer]:
    """The workload's optimizers by name: "" for a single one, positions in a list.

    Raises `UsageError` for anything but optimizers.
    """
    built = workload.build_optimizer(model)
    if isinstance(built, Mapping):
        named = {str(name): optimizer for name, optimizer in built.items()}
    elif isinstance(built, list | tuple):
        named = {str(place): optimizer for place, optimizer in enumerate(built)}
    else:
        named = {"": built}  # type: ignore[dict-item]
    if not named or not all(isinstance(optimizer, Optimizer) for optimizer in named.values()):
        raise UsageError(
            f"build_optimizer of {workload.name} returned a {type(built).__name__}; expected a torch.optim.Optimizer, "
            "or a dict or list of them"
        )
    return named


def make_adamw(model: nn.Module, **options: Any) -> Optimizer:
    """The optimizer of the built-in workloads: AdamW at a learning rate of 1e-3, torch's defaults otherwise."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3, **options)
