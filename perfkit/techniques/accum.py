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
    name: ClassVar[str] = "accum"
    summary: ClassVar[str] = "gradient accumulation: the same batch in several microbatches, and one update"
    stage: ClassVar[Stage] = Stage.STEP
    when: ClassVar[str] = "the activations of the batch do not fit in memory"
    paper: ClassVar[str] = "Huang et al. 2019, GPipe, section 2.2, arXiv:1811.06965"
    package: ClassVar[str] = ""

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
