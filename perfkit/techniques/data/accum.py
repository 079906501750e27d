"""`accum`: gradient accumulation. The same batch in several microbatches, and one update."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec
import torch

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import BASELINE
from perfkit.techniques.base.batch_dimension import has_time_first
from perfkit.techniques.base.conflict import Conflict
from perfkit.techniques.base.microbatch_losses import find_loss_mismatch
from perfkit.techniques.base.planning import Counted, MemoryPrice, MemorySaving, Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, Purpose, Stage, Technique
from perfkit.workloads.workload import count_samples, draw_first_batch

# Saved bytes of a microbatch beyond its share of the activations, as a share of the whole batch's.
_FIXED = 0.1


class Accum(Technique):
    """Takes every batch in equal microbatches, with one update.

    Unlike `--accumulate`, which trains on more data per update, it trains on the same: its losses are equal (gpt, 4
    microbatches: to 2e-7). Gradients are averaged once over ranks. Losses are not comparable with batch norm, with
    dropout, or if the loss is not a plain mean over samples; a report names what depends on the whole batch.
    """

    name: ClassVar[str] = "accum"
    summary: ClassVar[str] = "gradient accumulation: one update per batch, from several microbatches"
    stage: ClassVar[Stage] = Stage.WORKLOAD  # first, since it measures the unmodified model's losses
    purpose: ClassVar[Purpose] = Purpose.BATCH
    purpose_place: ClassVar[int] = 1
    advice: ClassVar[tuple[str, ...]] = ("comm.exposed",)
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(
        UnknownEffect("the same work in smaller parts takes longer; no time saved"),
        Counted.ALL,
        (MemorySaving(MemoryPrice.MICROBATCHES, tried=("accum",)),),
    )
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("optim_in_backward", "parameters would be updated after every microbatch"),
    )
    when: ClassVar[str] = "when the wanted batch's activations do not fit in memory"
    costs: ClassVar[str] = "time, if a microbatch is too small to fill the device"
    paper: ClassVar[str] = (
        "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, section 2.2, "
        "NeurIPS 2019, https://arxiv.org/abs/1811.06965"
    )
    examples: ClassVar[tuple[str, ...]] = ("accum", "accum:steps=4")
    refusals: ClassVar[Mapping[str, str]] = {
        "Expected more than 1 value per channel when training": "a microbatch of one sample "
        "leaves batch norm one value per channel, which has no variance; use fewer "
        "microbatches, or a larger batch"
    }

    steps: Annotated[int, msgspec.Meta(ge=2, description="microbatches per batch")] = 2

    def count_batch_parts(self, samples: int | None = None, joined: int = 1, ranks: int = 1) -> float:
        return self.steps

    def apply(self, state: TrainState) -> TrainState:
        workload = state.workload
        if workload.step is not None:
            raise UnavailableError(
                f"the workload {workload.name} defines its own step, which takes a whole batch", id="skip.own_step"
            )
        samples = count_samples(draw_first_batch(workload, torch.Generator().manual_seed(0)))
        if samples is None:
            raise UnavailableError(
                f"the tensors of a batch of {workload.name} differ in their first dimension", id="skip.batch_dimension"
            )
        if samples % self.steps:
            raise UnavailableError(
                f"a batch of {samples} cannot be split into {self.steps} equal microbatches; use --batch-size "
                f"{-(-samples // self.steps) * self.steps}, or another number of steps",
                id="skip.indivisible",
            )
        if has_time_first(state):
            raise UnavailableError(
                f"the first dimension of a batch of {workload.name} is time, by its layers with batch_first=False, "
                "and microbatches split samples; give batches with samples first",
                id="skip.batch_dimension",
            )
        state.microbatches = self.steps
        if rule := find_loss_mismatch(state, samples // self.steps):
            state.parity_rules.append(rule)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        passes = "a step runs this many times the baseline's backward passes"
        claims = [self._make_claim(passes, "backward_passes", Relation.EQUAL, float(self.steps), BASELINE)]
        if {*state.applied} <= {self.name, "ddp"}:  # others also change what is saved
            share, saved = "a microbatch saves its share of the batch's saved activations", "saved_tensor_bytes"
            claims.append(self._make_claim(share, saved, Relation.AT_MOST, 1 / self.steps + _FIXED, BASELINE))
        return tuple(claims)
