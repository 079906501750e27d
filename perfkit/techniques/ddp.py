"""`ddp`: every rank holds the whole model; gradients are averaged. What a run of several ranks does by default."""

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
from torch.nn.parallel import DistributedDataParallel

from perfkit.errors import UnavailableError
from perfkit.record import Claim, ParityRule, Relation
from perfkit.techniques.gradient_hooks import HALVES, low_rank_bytes, send_in_16_bits, send_low_rank
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import LOSSLESS, Plannable, Planned, Stage, Technique

_ROUNDINGS = 8  # as `amp`
_SENT = "bytes_of_factors"
_REDUCED = "collective_bytes:all-reduce"
_COPIED = "op_calls:torch.distributed.ddp.reducer::copy_bucket_to_grad"
_MIB = 2**20


class Ddp(Technique):
    """Every rank holds the whole model and gradients are averaged over ranks (`DistributedDataParallel`).

    Added by itself wherever there is more than one rank and no technique that averages gradients. Gradients must be
    reduced by a collective, and as many bytes of them as there are, to the byte.

    Gradients are averaged in buckets, each as soon as it is full, while backward goes on: small ones begin earlier,
    large ones take fewer collectives. Gradients are views of the buckets unless `bucket_view=false`, which copies
    them out. With `static_graph=true` DDP takes every backward pass for the same as the first, which averages: it does
    not go with accumulation.

    `hook` says what is sent: `fp16` and `bf16` half of the bytes; `powersgd` two factors of `rank` columns for every
    matrix that they make at most half as large, from the third step on. What the factors leave out is added to the
    gradients of the next step, and kept: as much memory as the gradients once more. On a CPU it has one bucket: gloo
    sends factors from threads of its own, and those of several buckets would meet in another order on each rank.

    Losses may differ by 8 roundings with `fp16` and `bf16`; with `powersgd` they are another trajectory's.
    """

    name: ClassVar[str] = "ddp"
    summary: ClassVar[str] = "data parallel: whole model on every rank, gradients averaged"
    when: ClassVar[str] = "where the model fits into each device and more devices shall share the batch"
    costs: ClassVar[str] = "all gradients go over the network in every step"
    paper: ClassVar[str] = (
        "Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020, "
        "https://arxiv.org/abs/2006.15704; Vogels et al., PowerSGD: Practical Low-Rank Gradient Compression for "
        "Distributed Optimization, NeurIPS 2019, https://arxiv.org/abs/1905.13727"
    )
    examples: ClassVar[tuple[str, ...]] = ("ddp", "ddp:hook=fp16", "ddp:hook=bf16", "ddp:hook=powersgd")
    stage: ClassVar[Stage] = Stage.SHARD
    min_world_size: ClassVar[int] = 2

    bucket_mb: (
        Annotated[int, msgspec.Meta(ge=1, description="MiB of gradients in a bucket; torch's own: 25, of the first 1")]
        | None
    ) = None
    static_graph: Annotated[bool, msgspec.Meta(description="every step is the same as the first")] = False
    bucket_view: Annotated[bool, msgspec.Meta(description="gradients are views of the buckets")] = True
    hook: Annotated[Literal["none", "fp16", "bf16", "powersgd"], msgspec.Meta(description="what is sent")] = "none"
    rank: Annotated[int, msgspec.Meta(ge=1, description="of the factors of `powersgd`")] = 1

    def __post_init__(self) -> None:
        if self.rank != 1 and self.hook != "powersgd":
            raise ValueError("rank belongs to hook=powersgd")

    def plannable(self) -> Plannable:
        if self.hook == "none":
            return Plannable()
        if self.hook == "powersgd":
            return Plannable(Planned.NOT, "what the factors leave out is kept, as many bytes as the gradients")
        # Left out, plain `ddp` takes its place.
        return Plannable(Planned.LEFT_OUT, "planned without its hook: a low bound, without copies in 16 bits")

    def apply(self, state: TrainState) -> TrainState:
        if self.static_graph and state.accumulation * state.microbatches > 1:
            raise UnavailableError(
                "static_graph=true: every backward pass must average gradients, and with accumulation the last does"
            )
        bucket_mb = self.bucket_mb
        if self.hook == "powersgd" and state.device.type == "cpu":
            if bucket_mb is not None:
                raise UnavailableError(
                    "hook=powersgd has one bucket on a CPU, where gloo would meet the factors of several in any order"
                )
            bucket_mb = 1 + sum(parameter.nbytes for parameter in state.model.parameters()) // _MIB
        state = replicate(state, bucket_mb=bucket_mb, static_graph=self.static_graph, bucket_view=self.bucket_view)
        models = {name: model for name, model in state.wrapped.items() if isinstance(model, DistributedDataParallel)}
        if self.hook == "powersgd":
            account = _Account(state.facts)
            for name, model in models.items():
                send_low_rank(model, self.rank, partial(account.add, name))
        elif self.hook != "none":
            for model in models.values():
                send_in_16_bits(model, self.hook)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        trained = [parameter for parameter in state.model.parameters() if parameter.requires_grad]
        # A step of the workload's own may average the gradients of a model more than once.
        relation = Relation.EQUAL if state.workload.step is None else Relation.AT_LEAST
        claims = [averages_gradients(self.name), self._sent(trained, relation)]
        if self.bucket_mb is not None:
            least = fewest_buckets(trained, self.bucket_mb * _MIB)
            statement = f"gradients are reduced in buckets of {self.bucket_mb} MiB"
            claims.append(self._claim(statement, "op_calls:c10d::allreduce_*", Relation.AT_LEAST, float(least)))
        if self.bucket_view:
            claims.append(self._claim("gradients are not copied out of buckets", _COPIED, Relation.EQUAL, 0.0))
        else:
            claims.append(self._claim("gradients are copied out of buckets", _COPIED, Relation.AT_LEAST, 1.0))
        return tuple(claims)

    def _sent(self, trained: list[torch.nn.Parameter], relation: Relation) -> Claim:
        if self.hook == "powersgd":
            factors = float(low_rank_bytes(trained, self.rank))
            return self._claim("factors of the gradients are sent in their place", _SENT, relation, factors)
        if self.hook in HALVES:
            halves = float(HALVES[self.hook].itemsize * sum(parameter.numel() for parameter in trained))
            return self._claim(f"all gradients are sent once, in {self.hook}", _REDUCED, relation, halves)
        return self._claim("all gradients are sent once", _REDUCED, relation, 1.0, "gradient_bytes")

    def parity(self) -> ParityRule:
        if self.hook == "powersgd":
            return ParityRule(relative=None, basis="gradients are approximated by matrices of low rank")
        if self.hook in HALVES:
            relative = _ROUNDINGS * torch.finfo(HALVES[self.hook]).eps
            return ParityRule(relative=relative, basis=f"{_ROUNDINGS} roundings of gradients to {self.hook}")
        return LOSSLESS


class _Account:
    """What was sent for each model the last time; their sum is the fact."""

    def __init__(self, facts: dict[str, float]) -> None:
        self._facts = facts
        self._last: dict[str, int] = {}
        facts[_SENT] = 0.0

    def add(self, model: str, nbytes: int) -> None:
        self._last[model] = nbytes
        self._facts[_SENT] = float(sum(self._last.values()))


def replicate(
    state: TrainState, *, bucket_mb: int | None = None, static_graph: bool = False, bucket_view: bool = True
) -> TrainState:
    """Wrap every model that is trained in DistributedDataParallel."""
    # Buckets that gradients are views of, so that they are not held twice.
    wrapped = {
        name: DistributedDataParallel(
            model, bucket_cap_mb=bucket_mb, static_graph=static_graph, gradient_as_bucket_view=bucket_view
        )
        for name, model in state.models.items()
        if any(parameter.requires_grad for parameter in model.parameters())
    }
    state.wrapped.update(wrapped)
    state.no_sync = lambda: _no_sync(wrapped.values())
    state.gradients_reduced = True
    return state


@contextmanager
def _no_sync(models: Iterable[DistributedDataParallel]) -> Iterator[None]:
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(model.no_sync())
        yield


def fewest_buckets(gradients: Iterable[torch.Tensor], limit: int) -> int:
    """The least number of buckets of so many bytes: DDP closes one with the gradient that reaches the limit."""
    sizes = [each.nbytes for each in gradients]
    return math.ceil(sum(sizes) / (limit + max(sizes, default=0)))


def averages_gradients(technique: str) -> Claim:
    """Gradients are summed over ranks by a collective within backward."""
    return Claim(
        technique=technique,
        statement="gradients are reduced over the ranks",
        fact="op_calls:c10d::allreduce_*",
        relation=Relation.AT_LEAST,
        value=1.0,
    )
