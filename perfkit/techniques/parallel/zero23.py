"""`zero2`, `zero3`: optimizer state, gradients and parameters are sharded over the ranks, by one of three engines.

ZeRO stages of arXiv 1910.02054, section 5. `zero2` gathers the parameters once a step and keeps them from forward to
backward, `zero3` frees them after each block's forward and gathers them again.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch

from perfkit.core.record.claim import Claim
from perfkit.techniques.base.conflict import OTHER_STAGE, Conflict, make_conflicts
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import OF_COLLECTIVES, Counted, MemoryPrice, MemorySaving, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import PlanSupport, Purpose
from perfkit.techniques.parallel.deepspeed_zero import (
    PLANNED,
    UNLIMITED,
    get_package,
    make_deepspeed_conflicts,
    make_sharding_claims,
    shard_with_deepspeed,
)
from perfkit.techniques.parallel.fsdp1 import FSDP1, make_flat_claims, make_fsdp1_conflicts, shard_with_fsdp1
from perfkit.techniques.parallel.fsdp1 import PLANNED as PLANNED_WITH_FSDP1
from perfkit.techniques.parallel.fully_shard import FullyShard
from perfkit.techniques.parallel.mixed_precision import check_parameters, make_policies, make_precision_conflicts

_PLANNED = {"deepspeed": PLANNED, FSDP1: PLANNED_WITH_FSDP1}
_NAMES = {"deepspeed": "DeepSpeed", FSDP1: "FSDP1"}


class _Zero(FullyShard):
    # Without a docstring: the page of each is what FullyShard says.

    engine: Literal["torch", "deepspeed", "fsdp1"] = "torch"

    def __post_init__(self) -> None:
        if self.engine == "deepspeed" and (self.param_dtype is not None or self.reduce_dtype is not None):
            raise ValueError("param_dtype and reduce_dtype are of FSDP2; use engine=torch")

    def package(self) -> Package | None:
        return get_package(self.engine) if self.engine == "deepspeed" else None

    def unavailable(self, device: torch.device) -> str | None:
        if self.engine != "torch" and self._offloads:
            return f"offload=cpu needs FSDP2; it has not been tried with {_NAMES[self.engine]}"
        return super().unavailable(device)

    def plannable(self) -> PlanSupport:
        return _PLANNED.get(self.engine) or super().plannable()

    def apply(self, state: TrainState) -> TrainState:
        if self.engine == "deepspeed":
            return shard_with_deepspeed(state, self.planning.zero_stage)
        if self.engine == FSDP1:
            check_parameters(self.name, self.param_dtype, state)
            state.compute_dtype = self.computes_in(state.compute_dtype)
            return shard_with_fsdp1(state, make_policies(self.param_dtype, self.reduce_dtype), reshard=self._reshard)
        return super().apply(state)

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.engine == "deepspeed":
            return make_sharding_claims(self.name, self.planning.zero_stage, state)
        if self.engine == FSDP1:
            return tuple(make_flat_claims(self.name, state, reshard=self._reshard))
        return super().claims(state)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        return UNLIMITED if self.engine == "deepspeed" else super().count_kept_bytes(state)


class Zero2(_Zero):
    name: ClassVar[str] = "zero2"
    summary: ClassVar[str] = "optimizer state and gradients sharded over the ranks (FSDP2 or DeepSpeed)"
    when: ClassVar[str] = "when optimizer state and gradients fill the memory of each of several ranks"
    costs: ClassVar[str] = "one gather of the parameters per step; they stay whole from forward to backward"
    purpose: ClassVar[Purpose] = Purpose.RANKS
    advice: ClassVar[tuple[str, ...]] = ("memory.gradients",)
    planning: ClassVar[Planning] = Planning(
        OF_COLLECTIVES,
        Counted.ALL,
        (
            MemorySaving(MemoryPrice.SHARDS, tried=("zero2",), searched=("zero2",)),
            MemorySaving(
                MemoryPrice.ROUNDED_OPERANDS, tried=("zero2:param_dtype=bf16",), searched=("zero2:param_dtype=bf16",)
            ),
        ),
        zero_stage=2,
    )
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *make_conflicts(("zero3", "hsdp"), OTHER_STAGE),
        *make_deepspeed_conflicts(),
        *make_fsdp1_conflicts(),
        *make_precision_conflicts(),
    )
    examples: ClassVar[tuple[str, ...]] = (
        "zero2",
        "zero2:param_dtype=bf16",
        "zero2:engine=deepspeed",
        "zero2:engine=fsdp1",
    )
    _reshard: ClassVar[bool] = False


class Zero3(_Zero):
    name: ClassVar[str] = "zero3"
    summary: ClassVar[str] = "optimizer state, gradients and parameters sharded over the ranks (FSDP2 or DeepSpeed)"
    when: ClassVar[str] = "when even the parameters do not fit in one device's memory"
    costs: ClassVar[str] = "two gathers of the parameters per step, block by block: 1.5 times the traffic of ddp"
    purpose: ClassVar[Purpose] = Purpose.RANKS
    advice: ClassVar[tuple[str, ...]] = ("memory.parameters", "memory.unsharded_parameters", "memory.autocast_copies")
    planning: ClassVar[Planning] = Planning(
        OF_COLLECTIVES,
        Counted.ALL,
        (
            MemorySaving(MemoryPrice.SHARDS, tried=("zero3",), searched=("zero3",)),
            MemorySaving(
                MemoryPrice.ROUNDED_OPERANDS, tried=("zero3:param_dtype=bf16",), searched=("zero3:param_dtype=bf16",)
            ),
        ),
        zero_stage=3,
    )
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("hsdp", OTHER_STAGE),
        *make_deepspeed_conflicts(),
        *make_fsdp1_conflicts(),
        *make_precision_conflicts(),
    )
    examples: ClassVar[tuple[str, ...]] = (
        "zero3",
        "zero3:param_dtype=bf16",
        "zero3:engine=deepspeed",
        "zero3:engine=fsdp1",
    )
    _reshard: ClassVar[bool] = True
