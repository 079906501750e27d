"""`cp`: context parallelism. Each rank has a part of every sequence, and attention sends keys and values around."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import set_rotate_method
from torch.nn.attention import SDPBackend, sdpa_kernel

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import is_cuda
from perfkit.techniques.activations.attention_calls import Attention, AttentionCall, replace_attention
from perfkit.techniques.base.conflict import RELAXED, Conflict, make_conflicts
from perfkit.techniques.base.planning import UNKNOWN_EFFECT, Planning
from perfkit.techniques.base.rank_sharing import check_joined
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanMode, PlanSupport, Purpose, Stage, Technique
from perfkit.techniques.base.trial import draw_trial_batch
from perfkit.workloads.model_loss import call_loss, compute_loss
from perfkit.workloads.workload import Batch, Workload, draw_first_batch

_CALLS = "attention_calls"
_GATHER, _ALL_TO_ALL = "_c10d_functional::all_gather_into_tensor", "_c10d_functional::all_to_all_single"
# Those that torch has a ring of (`_context_parallel/_attention.py`, custom_ops). None is a CPU's.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
_POSITIONS = "positions"


class Cp(Technique):
    """Gives each rank a part of every sequence (torch's `context_parallel`); `ddp` or a sharding technique averages
    gradients.

    All ranks take the batch of all ranks of data parallelism, so losses are the same. In attention every query meets
    the keys and values of all parts, which ranks exchange during compute (ring attention). Each rank has one piece
    from the front and one as far from the end, so causal attention is balanced. `rotate` sends keys and values all at
    once (`allgather`) or from neighbor to neighbor (`alltoall`), which holds one part at a time.

    It needs `scaled_dot_product_attention` without a mask in one of torch's GPU kernels, and
    `Workload(sequence_dimensions=...)`; the loss finds a rank's tokens in `positions` of the batch. With torch 2.11
    and `amp` it ran on two ranks over NCCL on one H200; otherwise it is tested with a stand-in.
    """

    name: ClassVar[str] = "cp"
    summary: ClassVar[str] = "context parallel: each rank has a part of every sequence, with attention over all of it"
    when: ClassVar[str] = "when one long sequence's activations do not fit in a device"
    costs: ClassVar[str] = "network traffic for all keys and values in every layer, forward and backward"
    paper: ClassVar[str] = (
        "Liu et al., Ring Attention with Blockwise Transformers for Near-Infinite Context, ICLR 2024, "
        "https://arxiv.org/abs/2310.01889; Grattafiori et al., The Llama 3 Herd of Models, section 3.3.2, 2024, "
        "https://arxiv.org/abs/2407.21783"
    )
    examples: ClassVar[tuple[str, ...]] = ("cp", "cp:rotate=alltoall")
    stage: ClassVar[Stage] = Stage.PARALLEL
    purpose: ClassVar[Purpose] = Purpose.RANKS
    purpose_place: ClassVar[int] = 3
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(UNKNOWN_EFFECT)
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("tp", "ring attention with heads split over ranks is untested"),
        Conflict("pp", "cp splits sequences where the loss is computed, but pipeline stages compute no loss"),
        Conflict("ep", "experts have a slot per token of a sequence, and a rank has part of the sequence"),
        Conflict("flash", "ring attention chooses its own kernels"),
        Conflict("distill", "the teacher would attend to only part of each sequence"),
        *make_conflicts(RELAXED, "a rank's gradients cover only its part of the sequence until they are averaged"),
    )
    min_world_size: ClassVar[int] = 2

    rotate: Annotated[Literal["allgather", "alltoall"], msgspec.Meta(description="transport of keys and values")] = (
        "allgather"
    )

    def unavailable(self, device: torch.device) -> str | None:
        if is_cuda(device):
            return None
        return (
            f"torch has ring attention only for GPU kernels, not for the {device.type.upper()}'s "
            "(_scaled_dot_product_flash_attention_for_cpu has no sharding strategy)"
        )

    def plannable(self) -> PlanSupport:
        return PlanSupport(PlanMode.NOT, "a plan's tensors are on a CPU, where torch has no ring attention")

    def apply(self, state: TrainState) -> TrainState:
        workload, ranks = state.workload, state.mesh.size("dp")
        dimensions = workload.sequence_dimensions
        if dimensions is None or workload.use_sdpa is None:
            raise UnavailableError(
                f"the workload {workload.name} does not name its sequence dimensions (sequence_dimensions, use_sdpa)"
            )
        check_joined(workload)
        _check_batch(workload.name, draw_first_batch(workload, torch.Generator().manual_seed(0)), dimensions, ranks)
        workload.use_sdpa(state.model)
        state.enter(sdpa_kernel(_KERNELS))
        state.facts[_CALLS] = float(_count_attention_calls(state))
        set_rotate_method(self.rotate)
        parts = _SequenceParts(state.mesh.get_submesh("dp"), dimensions)
        state.workload = replace(workload, loss=partial(parts.loss, workload))
        state.backward = partial(parts.backward, state.backward)
        state.on_close.append(parts.leave)
        state.joined = True
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        forward = _GATHER if self.rotate == "allgather" else _ALL_TO_ALL
        for_each = partial(self._make_claim, relation=Relation.AT_LEAST, value=1.0, relative_to=_CALLS)
        return (
            for_each("every attention call sends keys and values", f"op_calls:{forward}"),
            # Gradients of keys and values travel from neighbor to neighbor in either case.
            for_each("backward sends their gradients", f"backward_op_calls:{_ALL_TO_ALL}"),
        )


class _SequenceParts:
    """The context in which torch splits sequences, from the forward pass to the end of backward."""

    def __init__(self, mesh: DeviceMesh, dimensions: Mapping[str, int]) -> None:
        self._mesh = mesh
        self._dimensions = {**dimensions, _POSITIONS: 0}
        self._entered = ExitStack()

    def loss(self, workload: Workload, model: nn.Module, batch: Batch) -> torch.Tensor:
        """The loss of this rank's part; the mean over ranks is that of the batch, as parts are equal."""
        self.leave()  # a forward pass without backward was the last
        part = {name: tensor.clone() for name, tensor in batch.items()}  # torch cuts them in place
        some, along = next((part[name], dimension) for name, dimension in self._dimensions.items() if name in part)
        part[_POSITIONS] = torch.arange(some.shape[along], device=some.device)
        cut = [part[name] for name in self._dimensions]
        self._entered.enter_context(
            context_parallel(
                self._mesh,
                buffers=cut,
                buffer_seq_dims=list(self._dimensions.values()),
                no_restore_buffers=set(cut),
            )
        )
        return compute_loss(workload, model, part)

    def backward(self, before: Callable[[torch.Tensor], None], loss: torch.Tensor) -> None:
        before(loss)
        self.leave()

    def leave(self) -> None:
        self._entered.close()


def _check_batch(name: str, batch: Batch, dimensions: Mapping[str, int], ranks: int) -> None:
    """Raise `UnavailableError` if the sequences of a batch cannot be split."""
    if not dimensions.keys() <= batch.keys():
        raise UnavailableError(f"a batch of {name} has no {', '.join(dimensions.keys() - batch.keys())}")
    lengths = {batch[tensor_name].shape[dimension] for tensor_name, dimension in dimensions.items()}
    if len(lengths) > 1:
        raise UnavailableError(f"the tensors of a batch of {name} have sequences of different lengths: {lengths}")
    (length,) = lengths
    if length % (2 * ranks):
        raise UnavailableError(
            f"sequences of {length} tokens do not divide into {2 * ranks} pieces, two per rank; use another "
            "length or --world-size",
            id="skip.indivisible",
        )


def _count_attention_calls(state: TrainState) -> int:
    """Count the model's attention calls in a forward pass; raise `UnavailableError` if one has a mask."""
    calls = 0

    def counted(call: AttentionCall, attention: Attention) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if call.attn_mask is not None:
            raise UnavailableError("cp supports attention without a mask only, and the model's has one")
        return call.run_with(attention)

    with draw_trial_batch(state) as batch, replace_attention(counted), state.enter_forward_contexts(), torch.no_grad():
        call_loss(state.workload, state.model, batch)
    if not calls:
        raise UnavailableError("the model does not call torch.nn.functional.scaled_dot_product_attention by this name")
    return calls
