"""`ddp`: every rank holds the whole model; gradients are averaged. What a run of several ranks does by default."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from perfkit.core.allocations import OTHER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import ParamValue
from perfkit.devices.accelerator import is_cpu
from perfkit.techniques.base.conflict import REDUCED_LAST, SHARDED, Conflict, make_conflicts
from perfkit.techniques.base.planning import OF_COLLECTIVES, Counted, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import (
    LOSSLESS,
    PlanMode,
    PlanSupport,
    Purpose,
    Stage,
    Technique,
    format_technique,
)
from perfkit.techniques.parallel.gathered_gradients import (
    Held,
    count_8_bit_bytes,
    count_largest_bytes,
    release_received,
    send_in_8_bits,
    send_largest,
)
from perfkit.techniques.parallel.gradient_hooks import (
    HALVES,
    POWERSGD_STARTS,
    count_low_rank_bytes,
    send_in_16_bits,
    send_low_rank,
)
from perfkit.techniques.parallel.unreached_parameters import find_unreached_parameters

_ROUNDINGS = 8  # as `amp`
_SENT = "bytes_of_factors"
_REDUCED = "collective_bytes:all-reduce:dp"
_GATHERED = "collective_bytes:all-gather:dp"
_COPIED = "op_calls:torch.distributed.ddp.reducer::copy_bucket_to_grad"
_MIB = 2**20

# Hooks that keep unsent gradients, hooks with which a rank receives the data of all others, and effects on gradients
# that change the trajectory.
_KEEPING = ("powersgd", "topk")
_KEPT_SCALED = "unsent gradients are added to the next step's, whose scale may differ, and an overflow would persist"
_OF_ALL_RANKS = {"topk": "the largest gradients", "quantized": "gradients in 8 bits"}
_APPROXIMATED = {
    "powersgd": "approximated by low-rank matrices",
    "topk": "delayed until they are among the largest",
    "quantized": "rounded to 8 bits",
}


class Ddp(Technique):
    """Every rank holds the whole model, and gradients are averaged (`DistributedDataParallel`).

    Added wherever there is more than one rank and no other technique that averages gradients. Gradients are averaged
    in buckets during backward: small ones begin earlier, large ones take fewer collectives. `static_graph=true` does
    not go with accumulation.

    | `hook` | sends |
    |---|---|
    | `fp16`, `bf16` | half of the bytes; losses within 8 roundings |
    | `powersgd` | two factors of `rank` columns per matrix, from the third step on |
    | `topk` | the largest `share` of each gradient, with places |
    | `quantized` | 8 bits of each number and a scale per gradient, rounded to nearest |

    `powersgd` and `topk` keep what they leave out for the next step: as much memory as the gradients again. `topk` and
    `quantized` are gathered, not summed: `quantized` takes less than an all-reduce below 8 ranks, `topk` below 1 /
    `share`. Losses of these three follow another trajectory.
    """

    name: ClassVar[str] = "ddp"
    summary: ClassVar[str] = "data parallel: the whole model on every rank, gradients averaged"
    when: ClassVar[str] = "when the model fits in each device and more devices are to share the batch"
    costs: ClassVar[str] = "network traffic for all gradients in every step"
    paper: ClassVar[str] = (
        "Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020, "
        "https://arxiv.org/abs/2006.15704; Vogels et al., PowerSGD: Practical Low-Rank Gradient Compression for "
        "Distributed Optimization, NeurIPS 2019, https://arxiv.org/abs/1905.13727; Stich et al., Sparsified SGD with "
        "Memory, NeurIPS 2018, https://arxiv.org/abs/1809.07599; Lin et al., Deep Gradient Compression: Reducing the "
        "Communication Bandwidth for Distributed Training, ICLR 2018, https://arxiv.org/abs/1712.01887; Alistarh et "
        "al., QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding, NeurIPS 2017, "
        "https://arxiv.org/abs/1610.02132"
    )
    examples: ClassVar[tuple[str, ...]] = (
        "ddp",
        "ddp:hook=fp16",
        "ddp:hook=bf16",
        "ddp:hook=powersgd",
        "ddp:hook=topk",
        "ddp:hook=quantized",
    )
    stage: ClassVar[Stage] = Stage.SHARD
    advice: ClassVar[tuple[str, ...]] = ("comm.exposed", "comm.small_messages", "comm.late_buckets")
    purpose: ClassVar[Purpose] = Purpose.RANKS
    planning: ClassVar[Planning] = Planning(OF_COLLECTIVES, Counted.ALL)
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *make_conflicts(SHARDED, "ZeRO averages the gradients itself"),
        Conflict("optim_in_backward", REDUCED_LAST),
        Conflict("accum", "with a static graph, every backward pass must average gradients", when="static_graph=True"),
        *(Conflict("amp:dtype=fp16", _KEPT_SCALED, when=f"hook={hook}") for hook in _KEEPING),
    )
    min_world_size: ClassVar[int] = 2

    bucket_mb: (
        Annotated[
            int, msgspec.Meta(ge=1, description="bucket size in MiB of gradients; default torch's: 25, the first 1")
        ]
        | None
    ) = None
    static_graph: Annotated[bool, msgspec.Meta(description="every step runs the same graph as the first")] = False
    bucket_view: Annotated[bool, msgspec.Meta(description="gradients are views of the buckets")] = True
    hook: Annotated[
        Literal["none", "fp16", "bf16", "powersgd", "topk", "quantized"],
        msgspec.Meta(description="gradient communication"),
    ] = "none"
    rank: Annotated[int, msgspec.Meta(ge=1, description="rank of the factors of `powersgd`")] = 1
    share: Annotated[float, msgspec.Meta(gt=0, lt=1, description="share of each gradient that `topk` sends")] = 0.01

    def __post_init__(self) -> None:
        if self.rank != 1 and self.hook != "powersgd":
            raise ValueError("rank needs hook=powersgd")
        if self.share != 0.01 and self.hook != "topk":
            raise ValueError("share needs hook=topk")

    def propose_settings(self, device: torch.device) -> Mapping[str, tuple[ParamValue, ...]]:
        bucket = self.bucket_mb or 25
        return {"bucket_mb": (4 * bucket, max(1, bucket // 4))}

    def plannable(self) -> PlanSupport:
        if self.hook == "none":
            return PlanSupport()
        if self.hook in _KEEPING:
            return PlanSupport(PlanMode.NOT, f"{self.hook} keeps unsent gradients: as much memory as the gradients")
        # Left out, plain `ddp` takes its place.
        return PlanSupport(PlanMode.LEFT_OUT, "planned without its hook: a lower bound that omits its gradient copies")

    def apply(self, state: TrainState) -> TrainState:
        if self.static_graph and state.accumulation * state.microbatches > 1:
            raise UnavailableError(
                "static_graph=true needs every backward pass to average gradients, and with accumulation only "
                "the last does"
            )
        if state.mesh.size("tp") > 1:
            return self._replicate_split_layers(state)
        bucket_mb = self.bucket_mb
        if self.hook == "powersgd" and is_cpu(state.device):
            if bucket_mb is not None:
                raise UnavailableError(
                    "hook=powersgd has one bucket on a CPU, where gloo would see the factors of several "
                    "buckets in any order"
                )
            bucket_mb = 1 + sum(parameter.nbytes for parameter in state.model.parameters()) // _MIB
        state = wrap_in_ddp(state, bucket_mb=bucket_mb, static_graph=self.static_graph, bucket_view=self.bucket_view)
        models = {name: model for name, model in state.wrapped.items() if isinstance(model, DistributedDataParallel)}
        if self.hook == "powersgd":
            state.settles_after = POWERSGD_STARTS
            account = _SentBytesCounter(state.facts)
            for name, model in models.items():
                send_low_rank(model, self.rank, partial(account.add, name))
        received: Held = []
        for model in models.values():
            if self.hook in HALVES:
                send_in_16_bits(model, self.hook)
            elif self.hook == "topk":
                send_largest(model, self.share, received)
            elif self.hook == "quantized":
                send_in_8_bits(model, received)
        if self.hook in _OF_ALL_RANKS:
            state.backward = partial(_run_and_release, state.backward, received)
        return state

    def _replicate_split_layers(self, state: TrainState) -> TrainState:
        """FSDP2's `wrap_in_ddp`: DistributedDataParallel makes distributed tensors plain around each forward."""
        # Distributed tensors take a third of a second to import.
        from torch.distributed._composable.replicate_with_fsdp import replicate as replicate_with_fsdp

        from perfkit.techniques.parallel.fsdp import wrap_blocks

        if self != Ddp():
            raise UnavailableError(
                f"{format_technique(self)}: FSDP2 averages gradients of split layers, and has no such options"
            )
        replicate = partial(replicate_with_fsdp, mesh=state.mesh.get_submesh("dp"))
        wrap_blocks(state, replicate, replicate)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        others = state.dealt_parameters
        trained = [
            parameter for parameter in state.model.parameters() if parameter.requires_grad and parameter not in others
        ]
        # A step of the workload's own may average the gradients of a model more than once.
        relation = Relation.EQUAL if state.workload.step is None else Relation.AT_LEAST
        if self.hook in _OF_ALL_RANKS:
            claims = list(self._make_gather_claims(trained, relation, state))
        else:
            claims = [make_averaging_claim(self.name), self._make_sent_claim(trained, relation, state)]
        if self.bucket_mb is not None:
            least = float(count_fewest_buckets(trained, self.bucket_mb * _MIB))
            op = "c10d::_allgather_base_" if self.hook in _OF_ALL_RANKS else "c10d::allreduce_*"
            statement = f"gradients are sent in buckets of {self.bucket_mb} MiB"
            claims.append(self._make_claim(statement, f"op_calls:{op}", Relation.AT_LEAST, least))
        if state.mesh.size("tp") > 1:
            return tuple(claims)
        if self.bucket_view:
            claims.append(self._make_claim("gradients are not copied out of buckets", _COPIED, Relation.EQUAL, 0.0))
        else:
            claims.append(self._make_claim("gradients are copied out of buckets", _COPIED, Relation.AT_LEAST, 1.0))
        return tuple(claims)

    def _make_sent_claim(self, trained: list[torch.nn.Parameter], relation: Relation, state: TrainState) -> Claim:
        if self.hook == "powersgd":
            factors = float(count_low_rank_bytes(trained, self.rank))
            return self._make_claim("factors of the gradients are sent instead", _SENT, relation, factors)
        if self.hook in HALVES:
            halves = float(HALVES[self.hook].itemsize * sum(parameter.numel() for parameter in trained))
            return self._make_claim(f"all gradients are sent once, in {self.hook}", _REDUCED, relation, halves)
        if sparse := list_sparse_parameters(state):
            # A sparse gradient grows when it is summed over ranks: what is sent of it is not what it takes.
            dense = float(sum(parameter.nbytes for parameter in trained if parameter not in sparse))
            return self._make_claim("all dense gradients are sent", _REDUCED, Relation.AT_LEAST, dense)
        if state.dealt:
            sent = float(sum(parameter.nbytes for parameter in trained))
            return self._make_claim("gradients shared with other ranks are sent once", _REDUCED, relation, sent)
        return self._make_claim("all gradients are sent once", _REDUCED, relation, 1.0, "gradient_bytes")

    def _make_gather_claims(
        self, trained: list[torch.nn.Parameter], relation: Relation, state: TrainState
    ) -> tuple[Claim, Claim]:
        sent = count_largest_bytes(trained, self.share) if self.hook == "topk" else count_8_bit_bytes(trained)
        statement = f"each rank gathers {_OF_ALL_RANKS[self.hook]} of all ranks once"
        return (
            self._make_claim(statement, _GATHERED, relation, float(state.mesh.size("dp") * sent)),
            self._make_claim("no gradient is sent whole", _REDUCED, Relation.EQUAL, 0.0),
        )

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        if self.hook not in _KEEPING:
            return {}
        trained = [parameter for parameter in state.model.parameters() if parameter.requires_grad]
        unsent = sum(parameter.nbytes for parameter in trained)
        factors = count_low_rank_bytes(trained, self.rank) if self.hook == "powersgd" else 0
        return {OTHER: float(unsent + factors)}

    def parity(self) -> ParityRule:
        if self.hook in _APPROXIMATED:
            return ParityRule(relative=None, basis=f"gradients are {_APPROXIMATED[self.hook]}")
        if self.hook in HALVES:
            relative = _ROUNDINGS * torch.finfo(HALVES[self.hook]).eps
            return ParityRule(relative=relative, basis=f"{_ROUNDINGS} roundings of gradients to {self.hook}")
        return LOSSLESS


def list_sparse_parameters(state: TrainState) -> frozenset[torch.nn.Parameter]:
    """The parameters with sparse gradients: those of `Embedding` and `EmbeddingBag` with `sparse=True`."""
    layers = (module for module in state.model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag))
    return frozenset(layer.get_parameter("weight") for layer in layers if layer.sparse)


def _run_and_release(backward: Callable[[torch.Tensor], None], received: Held, loss: torch.Tensor) -> None:
    backward(loss)
    release_received(received)


class _SentBytesCounter:
    """Bytes sent for each model in the last exchange; their sum is the fact."""

    def __init__(self, facts: dict[str, float]) -> None:
        self._facts = facts
        self._last: dict[str, int] = {}
        facts[_SENT] = 0.0

    def add(self, model: str, nbytes: int) -> None:
        self._last[model] = nbytes
        self._facts[_SENT] = float(sum(self._last.values()))


def wrap_in_ddp(
    state: TrainState, *, bucket_mb: int | None = None, static_graph: bool = False, bucket_view: bool = True
) -> TrainState:
    """Wrap every model that is trained in DistributedDataParallel.

    It looks for unused parameters in every step where the loss does not reach all; a static graph tells it by itself.
    """
    unreached = frozenset() if static_graph else find_unreached_parameters(state)
    if unreached:
        state.unreached_parameters = unreached
        state.facts["unreached_parameters"] = float(len(unreached))
    group = None if state.mesh.is_whole("dp") else state.mesh.group("dp")
    # Buckets that gradients are views of, so that they are not held twice.
    for model in state.models.values():
        ignored = [name for name, parameter in model.named_parameters() if parameter in state.dealt_parameters]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)
    wrapped = {
        name: DistributedDataParallel(
            model,
            process_group=group,
            bucket_cap_mb=bucket_mb,
            static_graph=static_graph,
            find_unused_parameters=not unreached.isdisjoint(model.parameters()),
            gradient_as_bucket_view=bucket_view,
        )
        for name, model in state.models.items()
        if any(parameter.requires_grad for parameter in model.parameters())
    }
    state.wrapped.update(wrapped)
    state.no_sync = lambda: _skip_gradient_sync(wrapped.values())
    state.gradients_reduced = True
    return state


@contextmanager
def _skip_gradient_sync(models: Iterable[DistributedDataParallel]) -> Iterator[None]:
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(model.no_sync())
        yield


def count_fewest_buckets(gradients: Iterable[torch.Tensor], limit: int) -> int:
    """The minimum number of buckets of this size: DDP closes one with the gradient that reaches the limit."""
    sizes = [gradient.nbytes for gradient in gradients]
    return math.ceil(sum(sizes) / (limit + max(sizes, default=0)))


def make_averaging_claim(technique: str) -> Claim:
    """Gradients are summed over ranks by a collective within backward."""
    return Claim(
        technique=technique,
        statement="gradients are reduced over the ranks",
        fact="op_calls:c10d::allreduce_*",
        relation=Relation.AT_LEAST,
        value=1.0,
    )
