"""`accum`: gradient accumulation. The same batch in several microbatches, and one update."""

from typing import Annotated, ClassVar

import msgspec
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from perfkit.errors import UnavailableError
from perfkit.record import Claim, ParityRule, Relation
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import Stage, Technique
from perfkit.workloads.workload import samples_of

# What a microbatch saves for backward beside its share of the activations, as a share of the whole batch's.
_FIXED = 0.1


class Accum(Technique):
    """Every batch is taken in equal microbatches, one after the other.

    Their gradients add up to the batch's, and there is one update. Where there are several ranks, gradients are
    averaged once. Unlike `--accumulate`, which trains on more data per update, it trains on the same: its steps are
    compared with the baseline's as they are, and its losses are equal (gpt, 4 microbatches: to 2e-7). With batch norm,
    which takes the statistics of each microbatch, and with dropout, whose masks are others, losses are not comparable.
    """

    name: ClassVar[str] = "accum"
    summary: ClassVar[str] = "gradient accumulation: the same batch in several microbatches, and one update"
    stage: ClassVar[Stage] = Stage.STEP
    when: ClassVar[str] = "where the activations of the batch that is wanted do not fit in memory"
    costs: ClassVar[str] = "time, where a microbatch is too small to fill the device"
    paper: ClassVar[str] = (
        "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, section 2.2, "
        "NeurIPS 2019, https://arxiv.org/abs/1811.06965"
    )
    examples: ClassVar[tuple[str, ...]] = ("accum", "accum:steps=4")

    steps: Annotated[int, msgspec.Meta(ge=2, description="microbatches of a batch")] = 2

    def apply(self, state: TrainState) -> TrainState:
        workload = state.workload
        if workload.step is not None:
            raise UnavailableError(f"the workload {workload.name} has a step of its own, which takes a whole batch")
        samples = samples_of(workload.make_batch(torch.Generator().manual_seed(0)))
        if samples is None:
            raise UnavailableError(f"the tensors of a batch of {workload.name} do not share their first dimension")
        if samples % self.steps:
            raise UnavailableError(
                f"a batch of {samples} does not divide into {self.steps} equal microbatches: use --batch-size "
                f"{-(-samples // self.steps) * self.steps}, or another number of steps"
            )
        state.microbatches = self.steps
        if any(isinstance(module, _BatchNorm) for module in state.model.modules()):
            basis = "batch norm takes the statistics of each microbatch in place of the batch's"
            state.parity_rules.append(ParityRule(relative=None, basis=basis))
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        claims = [
            Claim(
                technique=self.name,
                statement="a step has this many times the baseline's backward passes",
                fact="backward_passes",
                relation=Relation.EQUAL,
                value=float(self.steps),
                relative_to="baseline",
            )
        ]
        if {*state.applied} <= {self.name, "ddp"}:  # others change what is saved, too
            claims.append(
                Claim(
                    technique=self.name,
                    statement="a microbatch saves its share of what the batch saves for backward",
                    fact="saved_tensor_bytes",
                    relation=Relation.AT_MOST,
                    value=1 / self.steps + _FIXED,
                    relative_to="reference_saved_tensor_bytes",
                )
            )
        return tuple(claims)
