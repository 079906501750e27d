"""The training state that techniques change, and the step that uses it."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from perfkit.workloads.workload import Batch, Workload


@dataclass(frozen=True)
class World:
    """The ranks of a run. `size` 1 means that no process group exists."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0


@dataclass
class TrainState:
    """Everything one rank trains with. Techniques replace parts of it in the order of their stages.

    Attributes:
        make_optimizer: called once, after the last technique of stage OPTIMIZER or before.
        forward_contexts: entered around the forward pass and the loss of every microbatch.
        backward: runs the backward pass of a scaled loss.
        optimizer_step: one update; gradients are cleared afterwards by the step.
        gradients_reduced: a technique already averages gradients over ranks, so no plain DDP is added.
        no_sync: entered around every microbatch but the last of a step, to skip gradient reduction.
        compute_dtype: dtype of the matrix products' operands ("fp32", "bf16", "fp16"), the peak MFU refers to.
        counters: facts that a technique counts while it acts (for instance `bytes_to_disk`), merged into the
            record's facts.
        fact_notes: explanations of facts, shown beside them (for instance the first graph break's reason).
        checkpointed: names of the blocks that a technique recomputes in backward.
        skipped_updates: of each update whether a gradient scaler left it out; tensors where the device knows it.
        applied: names of the techniques applied so far; claims of one may depend on the others.
        on_close: called when the worker is done, last first.
    """

    workload: Workload
    model: nn.Module
    device: torch.device
    world: World
    make_optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    optimizer: Optimizer | None = None
    forward_contexts: list[Callable[[], AbstractContextManager[object]]] = field(default_factory=list)
    backward: Callable[[torch.Tensor], None] = torch.Tensor.backward
    optimizer_step: Callable[[Optimizer], None] = lambda optimizer: optimizer.step()
    gradients_reduced: bool = False
    no_sync: Callable[[], AbstractContextManager[object]] | None = None
    compute_dtype: str = "fp32"
    counters: dict[str, float] = field(default_factory=dict)
    fact_notes: dict[str, str] = field(default_factory=dict)
    checkpointed: tuple[str, ...] = ()
    skipped_updates: list[bool | torch.Tensor] = field(default_factory=list)
    applied: tuple[str, ...] = ()
    on_close: list[Callable[[], None]] = field(default_factory=list)

    @property
    def bare_model(self) -> nn.Module:
        """The workload's own model, also where DistributedDataParallel is wrapped around it."""
        return self.model.module if isinstance(self.model, DistributedDataParallel) else self.model

    @property
    def block_names(self) -> tuple[str, ...]:
        """Names of the repeated blocks within `bare_model`; wrapping a block in place keeps its name."""
        return self.workload.blocks(self.bare_model)

    @property
    def blocks(self) -> tuple[nn.Module, ...]:
        """The repeated blocks as they are now."""
        return tuple(self.bare_model.get_submodule(name) for name in self.block_names)

    def enter(self, context: AbstractContextManager[object]) -> None:
        """Enter a context that lasts until the state is closed."""
        stack = ExitStack()
        stack.enter_context(context)
        self.on_close.append(stack.close)

    def close(self) -> None:
        """Undo what outlives the state (settings of the process, temporary files), last first."""
        while self.on_close:
            self.on_close.pop()()

    def loss(self, batch: Batch) -> torch.Tensor:
        """The loss of one microbatch under all forward contexts."""
        with ExitStack() as stack:
            for context in self.forward_contexts:
                stack.enter_context(context())
            return self.workload.loss(self.model, batch)
