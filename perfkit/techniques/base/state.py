"""The training state that techniques change, and the step that uses it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import ParityRule
from perfkit.core.record.rank_record import SetupCost
from perfkit.techniques.base.mesh import RankMesh
from perfkit.techniques.base.phases import Mark
from perfkit.techniques.base.segments import JoinedBlock
from perfkit.techniques.base.unwrapped_modules import unwrap_modules
from perfkit.workloads.loaders import LoaderChanges
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.workload import Batch, Models, Workload, list_blocks, make_optimizers

if TYPE_CHECKING:
    from perfkit.techniques.base.tensor_parallel import LayerExchange  # imports what other runs do not need

Closure = Callable[[], torch.Tensor]


def _step_optimizer(optimizer: Optimizer, closure: Closure | None) -> object:
    return optimizer.step() if closure is None else optimizer.step(closure)  # type: ignore[arg-type]


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
        device: device of the tensors.
        mesh: the ranks along the dimensions that techniques share.
        parameter_share: the largest share of the model's parameter bytes on a rank, with layers or stages split.
        planned_for: the device of a plan, whose fake tensors are on another; None in a run.
        model: the workload's own model, changed in place by techniques; `Models` if it has several.
        teacher: a frozen model that is also called.
        wrapped: the object to call instead of a model, by its name: DistributedDataParallel, which does not change it
            in place.
        optimizers: by the workload's names; empty until the last technique is applied.
        built_contexts: entered while the workload builds its optimizers: they undo replacements of modules for that
            time.
        group_changes: techniques' changes to the parameter groups of each optimizer.
        optimizer_changes: techniques' later changes to each optimizer, in order.
        forward_contexts: entered around the forward pass and the loss of every microbatch.
        backward: runs the backward pass of a scaled loss.
        optimizer_step: one update of one optimizer, with its closure if it has one.
        after_updates: called once per step, after the last update.
        engine: runs a whole step over microbatches in CPU memory instead of perfkit's own loop, marks its phases and
            returns its loss. None: perfkit's own loop.
        dealt: names of the parameters that differ between ranks, with the number of ranks they are split over.
        slices: number of ranks that each hold a slice of every parameter as a plain tensor (FSDP1); 1 otherwise.
        unreached_parameters: the trained parameters that the loss does not reach, where a technique had to look.
        exchanges: calls of split layers in a forward pass of the whole model.
        own_forward: on a rank with a part of the model, its computation of a batch's first microbatch, as one number
            whose backward pass covers all of it; None if a rank computes the whole loss.
        joined: the ranks along `dp` train on one joint batch, each on a part of every sequence.
        cycle: number of steps after which a step's work repeats; whole cycles are measured.
        settles_after: number of initial steps that differ from later ones; warm-up is longer.
        gradients_reduced: a technique already averages gradients over ranks, so no plain DDP is added.
        no_sync: entered around every microbatch but the last of a step, to skip gradient reduction.
        compute_dtype: dtype of matmul operands ("fp32", "tf32", "bf16", "fp16"); MFU refers to its peak.
        step_dtype: the same with all techniques, also those still to be applied; empty before any is.
        left_out_flops: FLOPs of the unmodified model's forward and backward of a batch that techniques removed.
        counters: facts that a technique counts while it acts (for instance `bytes_to_disk`), merged into the record's
            facts.
        facts: other facts that a technique finds while it acts, for the record.
        fact_notes: explanations of facts, shown with them (for instance the first graph break's reason).
        checkpointed: names of the blocks that a technique recomputes in backward.
        skipped_updates: for each update, whether a gradient scaler skipped it; tensors if the device knows it.
        accumulation: batches per step, with one update for all.
        microbatches: number of equal parts of every batch.
        loading: techniques' changes to the workload's DataLoader.
        non_blocking: the CPU does not wait for copies of batches to the device.
        parity_rules: reasons found in this model why its losses differ from the baseline's.
        setup: seconds of a technique's set-up besides applying it, such as compiling a library.
        applied: names of the techniques applied so far; claims of one may depend on the others.
        saves_activations: one of them leaves much less for backward.
        on_close: called when the worker is done, last first.
    """

    workload: Workload
    model: nn.Module
    device: torch.device
    world: World
    mesh: RankMesh = field(init=False)
    parameter_share: float = 1.0
    planned_for: torch.device | None = None
    teacher: nn.Module | None = None
    wrapped: dict[str, nn.Module] = field(default_factory=dict)
    optimizers: dict[str, Optimizer] = field(default_factory=dict)
    built_contexts: list[Callable[[], AbstractContextManager[object]]] = field(default_factory=list)
    group_changes: list[Callable[[Optimizer], None]] = field(default_factory=list)
    optimizer_changes: list[Callable[[Optimizer], Optimizer]] = field(default_factory=list)
    forward_contexts: list[Callable[[], AbstractContextManager[object]]] = field(default_factory=list)
    backward: Callable[[torch.Tensor], None] = torch.Tensor.backward
    optimizer_step: Callable[[Optimizer, Closure | None], object] = _step_optimizer
    after_updates: Callable[[], None] = lambda: None
    engine: Callable[[Sequence[Batch], Mark], torch.Tensor] | None = None
    dealt: dict[str, int] = field(default_factory=dict)
    slices: int = 1
    unreached_parameters: frozenset[nn.Parameter] = frozenset()
    exchanges: list["LayerExchange"] = field(default_factory=list)
    own_forward: Callable[[Batch], torch.Tensor] | None = None
    joined: bool = False
    cycle: int = 1
    settles_after: int = 0
    gradients_reduced: bool = False
    no_sync: Callable[[], AbstractContextManager[object]] | None = None
    compute_dtype: str = "fp32"
    step_dtype: str = ""
    left_out_flops: float = 0.0
    counters: dict[str, float] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)
    fact_notes: dict[str, str] = field(default_factory=dict)
    checkpointed: tuple[str, ...] = ()
    skipped_updates: list[bool | torch.Tensor] = field(default_factory=list)
    accumulation: int = 1
    loading: LoaderChanges = field(default_factory=LoaderChanges)
    non_blocking: bool = True
    microbatches: int = 1
    parity_rules: list[ParityRule] = field(default_factory=list)
    setup: list[SetupCost] = field(default_factory=list)
    applied: tuple[str, ...] = ()
    saves_activations: bool = False
    on_close: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mesh = RankMesh(self.device.type, self.world.rank, {"dp": self.world.size})

    @property
    def batches_of_ranks(self) -> tuple[int, ...]:
        """The ranks whose batches this one trains on, as one: its own, and those that it shares its samples with."""
        return tuple(range(self.world.size)) if self.joined else self.mesh.samples_of

    @property
    def acts_on(self) -> torch.device:
        """The device whose abilities count: the one that is planned for, or where tensors are."""
        return self.planned_for or self.device

    @property
    def models(self) -> dict[str, nn.Module]:
        """The models by name, "" for a single one."""
        return {**self.model} if isinstance(self.model, Models) else {"": self.model}

    @property
    def called(self) -> dict[str, nn.Module]:
        """The object to call for each model."""
        return self.models | self.wrapped

    @property
    def block_names(self) -> tuple[str, ...]:
        """Names of the repeated blocks within `model`; wrapping a block in place keeps its name.

        Of blocks that a technique has joined to one, the first's.
        """
        return tuple(
            name
            for name in list_blocks(self.workload, self.model)
            if not isinstance(self.model.get_submodule(name), JoinedBlock)
        )

    @property
    def blocks(self) -> tuple[nn.Module, ...]:
        """The repeated blocks as they are now."""
        return tuple(self.model.get_submodule(name) for name in self.block_names)

    @property
    def dealt_parameters(self) -> frozenset[nn.Parameter]:
        """The parameters that differ between ranks."""
        return frozenset(map(self.model.get_parameter, self.dealt))

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
        """The loss of one microbatch under all forward contexts; of a rank with a part of the model `own_forward`."""
        if self.own_forward is not None:
            return self.own_forward(batch)
        with self.enter_forward_contexts():
            return compute_loss(self.workload, self.called[""], batch)

    @contextmanager
    def enter_forward_contexts(self) -> Iterator[None]:
        """All forward contexts, entered one within the other."""
        with _enter_all(self.forward_contexts):
            yield

    @contextmanager
    def unwrap_model(self) -> Iterator[None]:
        """The model as its workload made it, for the workload's own code to look at."""
        with unwrap_modules(self.model), _enter_all(self.built_contexts):
            yield

    def build_optimizers(self) -> None:
        """The workload's optimizers over the parameters as they are now, with what techniques make of them.

        Raises `UnavailableError` where another optimizer would take the place of one that a scheduler acts on.
        """
        with self.unwrap_model():
            own = make_optimizers(self.workload, self.model)
        for group_change in self.group_changes:
            for optimizer in own.values():
                group_change(optimizer)
        scheduled = [name for name, optimizer in own.items() if getattr(optimizer.step, "_wrapped_by_lr_sched", False)]
        changed = dict(own)
        for change in self.optimizer_changes:
            changed = {name: change(optimizer) for name, optimizer in changed.items()}
        for name in scheduled:
            # A wrapper of Lightning Fabric has the optimizer itself make the update.
            if getattr(changed[name], "optimizer", changed[name]) is not own[name]:
                raise UnavailableError(
                    f"the workload has a learning-rate scheduler for its {type(own[name]).__name__}, and none "
                    f"for the {type(changed[name]).__name__} that replaces it"
                )
        self.optimizers = changed

    def update(self) -> None:
        """One update of every optimizer."""
        for optimizer in self.optimizers.values():
            self.optimizer_step(optimizer, None)
        self.after_updates()

    def zero_grad(self) -> None:
        """Clear all gradients."""
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)


@contextmanager
def _enter_all(contexts: Iterable[Callable[[], AbstractContextManager[object]]]) -> Iterator[None]:
    """In all of these contexts, one within the other."""
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context())
        yield
