"""`pp`: pipeline parallelism. Each rank has a part of the layers, and microbatches go through all of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import ProcessGroup
from torch.distributed.tensor import DTensor

from perfkit.core.allocations import OTHER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import BASELINE
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.conflict import SHARDED, Conflict, make_conflicts
from perfkit.techniques.base.mesh import Dimension, RankMesh
from perfkit.techniques.base.microbatch_losses import find_loss_mismatch
from perfkit.techniques.base.planning import UNKNOWN_EFFECT, Planning
from perfkit.techniques.base.rank_sharing import ModelParallel
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanSupport, Purpose, Stage
from perfkit.techniques.base.tensor_parallel import make_exchange_facts
from perfkit.techniques.base.trial import discard_saved_tensors, draw_trial_samples
from perfkit.techniques.parallel.pipeline_cut import (
    BlockRange,
    CutModel,
    ObservedForward,
    disable_randomness,
    keep_only,
    observe_forward,
    split_blocks,
)
from perfkit.techniques.parallel.pipeline_schedules import (
    BUBBLE,
    SCHEDULES,
    explain_schedule_refusal,
    list_microbatch_counts,
)
from perfkit.techniques.parallel.pipeline_split import PipelineSplit, RankStages
from perfkit.techniques.parallel.pipeline_steps import EXPECTED_IN_FLIGHT, IN_FLIGHT, PipelineSteps, SharedParameters
from perfkit.techniques.parallel.zero1 import SLACK
from perfkit.workloads.workload import Batch, count_samples, draw_first_batch

# Facts.
_HELD, _TRAINED, _SENT = "stage_parameter_bytes", "stage_gradient_bytes", "stage_message_bytes"
STAGES, MICROBATCHES = "pipeline_stages", "pipeline_microbatches"
# Microbatches of a step for each stage, where the batch has as many samples.
_MICROBATCHES_A_STAGE = 4


class Pp(ModelParallel):
    """Distributes the blocks over the ranks in stages; batches pass in microbatches (`torch.distributed.pipelining`).

    The ranks of a pipeline take the batch of all of them, so losses are the same. Where `size` leaves ranks, several
    pipelines average their gradients.

    | `schedule` | order |
    |---|---|
    | `gpipe` | all microbatches forward, then all backward |
    | `1f1b` | a backward pass as soon as there is one: fewer microbatches are held |
    | `interleaved`, `bfs` | several stages a rank (`stages`): a shorter bubble, more messages |
    | `zb`, `zbv` | weight gradients separately, where a rank would wait (zero bubble; `zbv` has two stages a rank) |

    The model is cut at the workload's blocks. Blocks that exchange more than one tensor cannot be cut: before training
    all stages run in one process, and their loss must be the model's.
    """

    name: ClassVar[str] = "pp"
    summary: ClassVar[str] = (
        "pipeline parallel: each rank has some of the layers, microbatches pass through all of them"
    )
    when: ClassVar[str] = "when a model is too large for a device, and links are too slow for tp"
    costs: ClassVar[str] = "idle ranks while the pipeline fills and drains (the bubble); less with many microbatches"
    paper: ClassVar[str] = (
        "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, NeurIPS 2019, "
        "https://arxiv.org/abs/1811.06965; Narayanan et al., Efficient Large-Scale Language Model Training on GPU "
        "Clusters Using Megatron-LM, SC 2021, https://arxiv.org/abs/2104.04473; Lamy-Poirier, Breadth-First Pipeline "
        "Parallelism, MLSys 2023, https://arxiv.org/abs/2211.05953; Qi et al., Zero Bubble Pipeline Parallelism, "
        "ICLR 2024, https://arxiv.org/abs/2401.10241"
    )
    examples: ClassVar[tuple[str, ...]] = tuple(f"pp:schedule={name}" for name in SCHEDULES)
    stage: ClassVar[Stage] = Stage.PARALLEL
    purpose: ClassVar[Purpose] = Purpose.RANKS
    purpose_place: ClassVar[int] = 2
    advice: ClassVar[tuple[str, ...]] = ("comm.bubble",)
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(UNKNOWN_EFFECT)
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *make_conflicts(
            ("ddp", *SHARDED, "ep"),
            "a stage leaves the model's forward early, which wrappers around the model do not support",
        ),
        Conflict("accum", "pp splits each batch into microbatches and updates once; use pp:microbatches="),
        Conflict("optim_in_backward", "parameters would be updated after every microbatch"),
        Conflict("amp:dtype=fp16", "each rank would skip updates on its own, with its own scale"),
        Conflict("distill", "every stage would hold and run the whole teacher"),
        *make_conflicts(("lora", "qlora"), "adapters are added to all layers, and a rank has only some"),
        Conflict(
            "compile",
            "torch.compile needs the model's whole forward, and a stage runs part of it; ranks with compiled blocks "
            "hung in every trial",
        ),
    )
    min_world_size: ClassVar[int] = 2
    dimension: ClassVar[Dimension] = "pp"

    schedule: Annotated[
        Literal["gpipe", "1f1b", "interleaved", "bfs", "zb", "zbv"],
        msgspec.Meta(description="order of the stages' work"),
    ] = "1f1b"
    microbatches: (
        Annotated[
            int,
            msgspec.Meta(ge=1, description="microbatches per batch; default up to 4 per stage, dividing the batch"),
        ]
        | None
    ) = None
    stages: Annotated[int, msgspec.Meta(ge=1, description="stages per rank; default 2 for looped schedules")] | None = (
        None
    )

    def __post_init__(self) -> None:
        kind = SCHEDULES[self.schedule]
        if self.stages is None:
            return
        if kind.most == 1 and self.stages > 1:
            raise ValueError("gpipe and 1f1b have one stage per rank; omit stages, or use interleaved or bfs")
        if kind.most is not None and self.stages != kind.most:
            raise ValueError(f"schedule={self.schedule} has {kind.most} stages per rank, got stages={self.stages}")
        if self.stages < kind.stages:
            raise ValueError(
                f"schedule={self.schedule} needs at least {kind.stages} stages per rank, got stages={self.stages}"
            )

    def plannable(self) -> PlanSupport:
        return PlanSupport(
            reason="the plan covers the first rank, which holds the most microbatches; the last has the loss"
        )

    def count_batch_parts(self, samples: int | None = None, joined: int = 1, ranks: int = 1) -> float:
        return 1.0 if samples is None else self._choose_microbatches(samples * joined, ranks) / joined

    def apply(self, state: TrainState) -> TrainState:
        ranks, rank = state.mesh.size("pp"), state.mesh.place("pp")
        names = state.block_names
        first = draw_first_batch(state.workload, torch.Generator().manual_seed(0))
        samples = (count_samples(first) or 0) * len(state.batches_of_ranks)
        parts = split_blocks(len(names), ranks * self._stages)
        self._check_division(state, samples, parts)
        microbatches = self._choose_microbatches(samples, ranks)
        size = samples // microbatches
        if microbatches > 1 and (rule := find_loss_mismatch(state, size)):
            state.parity_rules.append(rule)
        _copy_from_first_rank(state.model)
        with draw_trial_samples(state, size) as batch, discard_saved_tensors():
            seen = observe_forward(state.model, names, partial(state.loss, batch))
            cut = CutModel(state.model, seen, parts, state.device)
            if state.planned_for is None:  # where a plan goes, numbers have no values
                _check_stages(state, cut, len(parts), batch)
        split = PipelineSplit(state.model, seen, parts, SCHEDULES[self.schedule], rank, ranks)
        stages = RankStages(
            name=self.schedule,
            own=split.own,
            total=len(parts),
            rank=rank,
            ranks=ranks,
            boundaries=[seen.given[part.end] for part in parts[:-1]],
            parameters={stage: tuple(split.parameters([stage])) for stage in split.own},
            last=split.get_rank(len(parts) - 1),
            samples=size,
        )
        self._record_facts(state, split, stages, microbatches)
        self._record_exchanges(state, seen, split)
        shared = _find_shared_parameters(state.mesh, split)
        keep_only(state.model, split.is_kept)
        cut.install_hooks(split.own)
        own_blocks = tuple(name for stage in split.own for name in names[slice(*parts[stage])])
        state.workload = replace(state.workload, blocks=lambda _model: own_blocks)
        steps = PipelineSteps(state, cut, stages, shared)
        state.engine, state.own_forward = steps, steps.forward
        state.microbatches = microbatches
        state.gradients_reduced = True
        return state

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        return {OTHER: math.inf}  # torch keeps buffers for messages, by microbatch

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        exactly = partial(self._make_claim, relation=Relation.EQUAL, value=1.0)
        claims = [
            exactly("a rank holds the parameters of its stages", "parameter_bytes", relative_to=_HELD),
            exactly("a rank holds the gradients of its stages", "gradient_bytes", relative_to=_TRAINED),
            self._make_claim(
                "a rank holds at most the optimizer state of the largest part",
                "optimizer_state_bytes",
                Relation.AT_MOST,
                state.parameter_share + SLACK,
                BASELINE,
            ),
            exactly(
                "a rank sends activations and gradients of all microbatches", "collective_bytes:send", relative_to=_SENT
            ),
            exactly("a rank receives as many bytes", "collective_bytes:receive", relative_to=_SENT),
            exactly(
                "a rank holds as many microbatches as its schedule requires",
                IN_FLIGHT,
                relative_to=EXPECTED_IN_FLIGHT,
            ),
        ]
        if state.mesh.size("dp") > 1:
            statement = "gradients are averaged over the pipelines"
            claims.append(exactly(statement, "collective_bytes:all-reduce:dp", relative_to=_TRAINED))
        return tuple(claims)

    @property
    def _stages(self) -> int:
        """Of each rank."""
        return self.stages or SCHEDULES[self.schedule].stages

    def _choose_microbatches(self, samples: int, ranks: int) -> int:
        """Choose the given number; else the largest, up to four per stage, into which the schedule can split the batch.

        If the schedule allows none, the numbers that divide the batch.
        """
        if self.microbatches is not None:
            return self.microbatches
        most = _MICROBATCHES_A_STAGE * ranks * self._stages
        fitting = list_microbatch_counts(self.schedule, ranks, samples) or list_microbatch_counts(
            "gpipe", ranks, samples
        )
        return max((parts for parts in fitting if parts <= most), default=fitting[0])

    def _check_division(self, state: TrainState, samples: int, parts: Sequence[BlockRange]) -> None:
        """Raise `UnavailableError` if the batch or the blocks cannot be divided: on all ranks, before any waits."""
        blocks, stages, ranks = parts[-1].end, len(parts), state.mesh.size("pp")
        if not blocks:
            raise UnavailableError(
                f"the workload {state.workload.name} names no blocks to form stages from; give it "
                'Workload(blocks=lambda model: ("layers.0", "layers.1", ...))',
                id="skip.no_blocks",
            )
        if stages > blocks:
            per_rank = f"{self._stages} stage{'s' if self._stages > 1 else ''} each"
            raise UnavailableError(
                f"{ranks} ranks with {per_rank} have {stages}, and {state.workload.name} has {blocks} blocks; use "
                "fewer ranks or stages",
                id="skip.few_blocks",
            )
        microbatches = self._choose_microbatches(samples, ranks)
        if samples % microbatches:
            raise UnavailableError(
                f"the batches of {len(state.batches_of_ranks)} ranks have {samples} samples, which cannot be "
                f"split into {microbatches} equal microbatches; use another number, or another --batch-size",
                id="skip.indivisible",
            )
        if reason := explain_schedule_refusal(self.schedule, ranks, microbatches * state.accumulation):
            fitting = list_microbatch_counts(self.schedule, ranks, samples, state.accumulation)
            nearest = min(fitting, key=lambda parts: (abs(parts - microbatches), parts), default=None)
            number = "a larger batch (--batch-size)" if nearest is None else f"microbatches={nearest}"
            raise UnavailableError(f"{reason}; use {number}, or schedule=gpipe")

    def _record_facts(self, state: TrainState, split: PipelineSplit, stages: RankStages, microbatches: int) -> None:
        """The facts of this rank, by formula: from the blocks and what uses which parameter."""
        stage_bytes = [split.count_bytes(split.list_stages(rank)) for rank in range(stages.ranks)]
        sent = sum(stages.boundaries[stage].nbytes for stage in split.list_boundaries(stages.rank))
        parts = microbatches * state.accumulation
        kind = SCHEDULES[self.schedule]
        state.parameter_share *= max(stage_bytes) / sum(
            get_local_part(parameter).nbytes for parameter in state.model.parameters()
        )
        state.facts |= {
            _HELD: float(stage_bytes[stages.rank]),
            _TRAINED: float(split.count_bytes(stages.own, trained=True)),
            _SENT: float(sent * parts),
            STAGES: float(self._stages),
            MICROBATCHES: float(parts),
        }
        blocks = ", ".join(str(part.end - part.first) for part in split.parts)
        state.fact_notes[_HELD] = (
            f"blocks per stage: {blocks}; the first stage also has the layers before the blocks, the last those after"
        )
        state.fact_notes[BUBBLE] = (
            f"{kind.source}: {stages.ranks} ranks, {parts} microbatches, stages per rank: {self._stages}"
        )
        bubble = kind.bubble(stages.ranks, self._stages, parts)
        if bubble is not None:
            state.facts[BUBBLE] = bubble

    def _record_exchanges(self, state: TrainState, seen: ObservedForward, split: PipelineSplit) -> None:
        """Record the exchanges of tensor-parallel layers in this rank's stages."""
        if state.exchanges:
            own = {place for stage in split.own for place in range(*split.parts[stage])}
            called = [exchange for exchange in state.exchanges if not seen.called[exchange.layer].isdisjoint(own)]
            state.facts |= make_exchange_facts(called, len(state.batches_of_ranks) * state.accumulation)


def _copy_from_first_rank(model: nn.Module) -> None:
    """Copy parameters from the first rank, as DDP does, the baseline of several ranks. Tensor parallelism has already
    copied split layers."""
    for tensor in (*model.parameters(), *model.buffers()):
        if not isinstance(tensor, DTensor):
            dist.broadcast(tensor.detach(), src=0)


def _find_shared_parameters(mesh: RankMesh, split: PipelineSplit) -> list[SharedParameters]:
    """Find the parameters that this rank shares with others of its pipeline."""
    line = mesh.lines["pp"]
    shared = []
    for places, parameters in sorted(split.find_shared().items()):
        ranks = [line[place] for place in places]
        if mesh.rank in ranks:
            group = (
                mesh.group("pp") if len(ranks) == len(line) else dist.new_group(ranks, use_local_synchronization=True)
            )
            assert isinstance(group, ProcessGroup), "this rank is one of them"
            shared.append(SharedParameters(group, parameters))
    return shared


def _check_stages(state: TrainState, cut: CutModel, stages: int, batch: Batch) -> None:
    """`UnavailableError` where the loss of all stages, one after the other, is not the model's."""
    # Dropout before the first block would draw other numbers for every stage.
    with disable_randomness(state.model):
        whole = state.loss(batch).item()
        take_away = cut.install_hooks(range(stages))
        received: torch.Tensor | None = None
        try:
            for stage in range(stages):
                received = cut.run(stage, received, partial(state.loss, batch)).detach().requires_grad_()
        finally:
            take_away()
    assert received is not None, "there are stages"
    if not math.isclose(received.item(), whole, rel_tol=LOSSLESS.relative or 0.0):
        raise UnavailableError(
            f"the model of {state.workload.name} cannot be cut at its blocks: its loss is {whole:.7g}, but "
            f"{received.item():.7g} if each stage sees only the result of the block before it"
        )
