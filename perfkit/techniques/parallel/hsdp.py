"""`hsdp`: hybrid sharding. Parameters are sharded over a few ranks, and these groups are replicas of each other."""

from typing import Annotated, ClassVar

import msgspec
from torch.distributed.device_mesh import DeviceMesh

from perfkit.core.record.claim import Claim, Relation
from perfkit.techniques.base.conflict import Conflict
from perfkit.techniques.base.planning import OF_COLLECTIVES, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import PlanSupport, Purpose, RankRequirement
from perfkit.techniques.parallel.fully_shard import FullyShard
from perfkit.techniques.parallel.mixed_precision import make_precision_conflicts


class Hsdp(FullyShard):
    """FSDP2 (`fully_shard`) on a mesh of two dimensions, of every block and of the rest.

    `shard` neighboring ranks hold a replica in slices, as with `zero3`. A block is gathered within the group and its
    gradients are scattered there; then each rank sums its slice over the replicas. Where a group is a node, only
    slices of gradients leave it.
    """

    name: ClassVar[str] = "hsdp"
    summary: ClassVar[str] = "parameters sharded over a few ranks, and replicated over groups of them (FSDP2 on a mesh)"
    when: ClassVar[str] = "when a few devices of a node hold the model and the inter-node network is slower"
    costs: ClassVar[str] = "zero3's traffic within a group, plus slices of all gradients between groups in every step"
    purpose: ClassVar[Purpose] = Purpose.RANKS
    planning: ClassVar[Planning] = Planning(OF_COLLECTIVES)
    paper: ClassVar[str] = (
        "Zhao et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, section 3.2.2, VLDB 2023, "
        "https://arxiv.org/abs/2304.11277"
    )
    min_world_size: ClassVar[int] = 4
    conflicts: ClassVar[tuple[Conflict, ...]] = make_precision_conflicts()
    _reshard: ClassVar[bool] = True
    _along: ClassVar[str] = "shard"

    shard: Annotated[int, msgspec.Meta(ge=2, description="ranks per replica")] = 2

    def ranks(self) -> RankRequirement:
        return RankRequirement(
            2 * self.shard, self.shard
        )  # in groups of `shard` alone they are one replica, which is zero3

    def plannable(self) -> PlanSupport:
        # The plan knows how many ranks a collective has, and not which.
        return PlanSupport(reason="sums over replicas are timed as within a node: too short where groups are nodes")

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        statement = "the shards' gradients are summed over replicas"
        sent = "collective_bytes:all-reduce:replicate"
        summed = self._make_claim(statement, sent, Relation.AT_LEAST, 1.0, "gradient_bytes")
        return (*super().claims(state), summed)

    def _make_mesh(self, state: TrainState) -> DeviceMesh:
        return state.mesh.divide_dimension("dp", self.shard, ("replicate", "shard"))

    def _count_slices(self, _state: TrainState) -> int:
        return self.shard
