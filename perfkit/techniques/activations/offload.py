"""`offload`: keep activations, optimizer state or parameters out of the training device's memory."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.core.allocations import HOST
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.cost.torch_dispatch import tree_leaves
from perfkit.devices.accelerator import has_own_memory
from perfkit.techniques.activations.paged_activations import ActivationPager
from perfkit.techniques.activations.paged_optimizer import get_local_optimizer, page_around_step, page_state
from perfkit.techniques.activations.paged_tensors import PagedTensor, get_local_part
from perfkit.techniques.activations.paging import MIN_BYTES, HostStore, Store, make_disk_store
from perfkit.techniques.base.conflict import FULLY_SHARDED, Conflict, make_conflicts
from perfkit.techniques.base.planning import Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanSupport, Purpose, Stage, Technique


def page_blocks(state: TrainState, store: Store) -> dict[nn.Parameter, PagedTensor]:
    """Put hooks on every block that bring its parameters in before its forward and backward and free them after.

    A parameter is freed in backward once its gradient is there: the op that computes it has by then computed the
    gradient of its input as well. Parameters shared between blocks or with the rest of the model stay, small ones too.
    """
    uses: dict[nn.Parameter, int] = {}
    for parameters in _collect_owned_parameters(state):
        for parameter in parameters:
            uses[parameter] = uses.get(parameter, 0) + 1
    paged: dict[nn.Parameter, PagedTensor] = {}
    for block in state.blocks:
        own = {
            parameter: PagedTensor(parameter, store)
            for parameter in block.parameters()
            if uses[parameter] == 1 and parameter.nbytes >= MIN_BYTES
        }
        _install_hooks(block, own)
        paged.update(own)
    return paged


def _collect_owned_parameters(state: TrainState) -> list[set[nn.Parameter]]:
    """The parameters of each block, and those of the modules outside the blocks."""
    blocks = [set(block.parameters()) for block in state.blocks]
    inside = {id(module) for block in state.blocks for module in block.modules()}
    rest = {
        parameter
        for module in state.model.modules()
        if id(module) not in inside
        for parameter in module.parameters(recurse=False)
    }
    return [*blocks, rest]


def _install_hooks(block: nn.Module, own: Mapping[nn.Parameter, PagedTensor]) -> None:
    def bring_in(*_: object) -> None:
        for tensor in own.values():
            tensor.page_in()

    def free(*_: object) -> None:
        for tensor in own.values():
            tensor.page_out()

    def after_forward(_module: nn.Module, _inputs: object, output: object) -> None:
        free()
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(bring_in)

    # moving storages is not for torch.compile to trace: the graph breaks at these hooks
    block.register_forward_pre_hook(torch.compiler.disable(bring_in))
    block.register_forward_hook(torch.compiler.disable(after_forward))
    for parameter, tensor in own.items():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda _, tensor=tensor: tensor.page_out())


class Offload(Technique):
    """Moves what is not needed right now out of the training device's memory, and frees it there.

    - `activations`: each storage that autograd saves, until backward asks for it.
    - `optimizer`: state is in memory only around the update of its parameters, about 16 MiB of parameters at a time.
      For optimizers that update each parameter independently (Adam, SGD and their kin).
    - `parameters`: a block's parameters are in memory only while it runs, and around their update.

    `host` is pinned memory, copied on separate streams; it needs a GPU. `disk` writes one file per storage into a
    temporary folder, through the page cache; a folder in memory (tmpfs) is refused.
    """

    name: ClassVar[str] = "offload"
    summary: ClassVar[str] = "move activations, optimizer state or parameters to host memory or disk while unused"
    when: ClassVar[str] = "when a model nearly fits: trades copies, which may overlap with compute, for memory"
    costs: ClassVar[str] = "at least one copy out and back of every byte in every step"
    paper: ClassVar[str] = (
        "Ren et al., ZeRO-Offload: Democratizing Billion-Scale Model Training, USENIX ATC 2021, "
        "https://arxiv.org/abs/2101.06840"
    )
    examples: ClassVar[tuple[str, ...]] = (
        "offload",
        "offload:to=disk",
        "offload:what=optimizer:to=disk",
        "offload:what=parameters:to=disk",
    )
    stage: ClassVar[Stage] = Stage.OPTIMIZER
    purpose: ClassVar[Purpose] = Purpose.ACTIVATIONS
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    advice: ClassVar[tuple[str, ...]] = ("memory.activations", "memory.optimizer_state", "memory.parameters")
    planning: ClassVar[Planning] = Planning(UnknownEffect("time of the transfers in both directions"))
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            "zero1",
            "ZeroRedundancyOptimizer sends every parameter to all ranks after the update, and offloaded ones have "
            "no memory (Gloo: bad address)",
            when="what=parameters",
        ),
        *make_conflicts(
            FULLY_SHARDED,
            "FSDP2 frees and refills the parameters' memory itself; moving it as well crashes the process",
            when="what=parameters",
        ),
        *make_conflicts(
            (f"{sharded}:offload=cpu" for sharded in FULLY_SHARDED),
            "the optimizer state is on the host already",
            when="what=optimizer",
        ),
    )

    what: Literal["activations", "optimizer", "parameters"] = "activations"
    to: Literal["host", "disk"] = "host"
    folder: Annotated[str, msgspec.Meta(description="parent of the temporary folder on disk; default the system's")] = (
        ""
    )

    def unavailable(self, device: torch.device) -> str | None:
        if self.to == "host" and not has_own_memory(device):
            return f"to=host needs a device with its own memory; a {device.type} uses host memory already"
        return None

    def plannable(self) -> PlanSupport:
        if self.to == "disk":
            return PlanSupport()
        return PlanSupport(
            reason="torch's allocator keeps incoming copies apart, and outgoing ones until they complete: that is "
            "reserved beyond the plan, and released before a request fails"
        )

    def apply(self, state: TrainState) -> TrainState:
        if self.what == "parameters" and not state.block_names:
            raise UnavailableError(
                f"the workload {state.workload.name} names no blocks whose parameters could be offloaded"
            )
        store: Store = (
            make_disk_store(self.folder, state.counters)
            if self.to == "disk"
            else HostStore(state.device, state.counters)
        )
        state.on_close.append(store.close)
        if self.what == "activations":
            state.forward_contexts.append(ActivationPager(lambda _dtype: store, state.device).make_hooks)
            return state
        # Once all techniques are applied: where `ddp` comes after this one, it runs a forward pass, after which the
        # parameters that it sends would have no memory.
        install = cache(partial(page_blocks, state, store))

        def paged(optimizer: Optimizer) -> Optimizer:
            if self.what == "optimizer":
                page_state(optimizer, store=store)
            else:
                page_around_step(optimizer, paged=install())
            return optimizer

        state.optimizer_changes.append(paged)
        return state

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        if self.to == "disk" or self.what == "activations":  # these are let go of in backward
            return {}
        if self.what == "parameters":
            return {HOST: float(sum(p.nbytes for block in state.blocks for p in block.parameters()))}
        optimizers = map(get_local_optimizer, state.optimizers.values())
        values = (value for optimizer in optimizers for kept in optimizer.state.values() for value in kept.values())
        return {HOST: float(sum(get_local_part(value).nbytes for value in values if isinstance(value, torch.Tensor)))}

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.what == "activations":
            return self._make_activation_claims(state)
        return self._make_optimizer_claims(state) if self.what == "optimizer" else self._make_parameter_claims(state)

    def _make_activation_claims(self, state: TrainState) -> tuple[Claim, ...]:
        reference = "reference_saved_tensor_bytes"
        moved = 0.02 if state.saves_activations else 0.5
        out, back = f"bytes_to_{self.to}", f"bytes_from_{self.to}"
        return (
            self._make_claim("saved activations are copied out", out, Relation.AT_LEAST, moved, reference),
            self._make_claim("saved activations are copied back for backward", back, Relation.AT_LEAST, 1.0, out),
            self._make_claim(
                "saved activations are offloaded until backward", "saved_tensor_bytes", Relation.AT_MOST, 0.5, reference
            ),
        )

    def _make_optimizer_claims(self, state: TrainState) -> tuple[Claim, ...]:
        groups = [
            group for optimizer in state.optimizers.values() for group in get_local_optimizer(optimizer).param_groups
        ]
        sizes = [get_local_part(parameter).nbytes for group in groups for parameter in group["params"]]
        paged = sum(size for size in sizes if size >= MIN_BYTES)
        stays = 1 - paged / sum(sizes) + 0.01  # with the optimizer's scalars
        fact, out, back = "optimizer_state_bytes", f"bytes_to_{self.to}", f"bytes_from_{self.to}"
        return (
            self._make_claim("optimizer state is offloaded between updates", fact, Relation.AT_MOST, stays, "baseline"),
            self._make_claim(
                "the state of every large parameter is copied out",
                out,
                Relation.AT_LEAST,
                float(paged),
                whole=True,
                counted="optimizer state",
            ),
            self._make_claim("optimizer state is copied back for every update", back, Relation.AT_LEAST, 1.0, out),
        )

    def _make_parameter_claims(self, state: TrainState) -> tuple[Claim, ...]:
        everything = sum(parameter.nbytes for parameter in state.model.parameters())
        paged = sum(p.nbytes for block in state.blocks for p in block.parameters() if p.nbytes >= MIN_BYTES)
        stays = 1 - 0.9 * paged / everything
        statement, resident = "block parameters are offloaded between steps", "parameter_bytes"
        out, back = f"bytes_to_{self.to}", f"bytes_from_{self.to}"
        nearly_all = partial(self._make_claim, relation=Relation.AT_LEAST, whole=True, counted="parameters")
        return (
            self._make_claim(statement, resident, Relation.AT_MOST, stays, "reference_parameter_bytes"),
            nearly_all("updated parameters are copied out", out, value=float(paged)),
            # forward, backward and update each bring them in
            nearly_all("parameters are copied back for forward and backward", back, value=2.0 * paged),
        )
