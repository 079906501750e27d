"""`batch`: another number of samples in a batch, given or the largest that fits in memory."""

from typing import Annotated, ClassVar

import msgspec

from perfkit.record import Claim, ParityRule, Relation
from perfkit.spec import WorkloadSpec
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import Stage, Technique

PARAMETER = "batch_size"


class Batch(Technique):
    name: ClassVar[str] = "batch"
    summary: ClassVar[str] = "another batch size: given, or the largest that fits in memory"
    stage: ClassVar[Stage] = Stage.WORKLOAD
    when: ClassVar[str] = "steps are too short to fill the device, or memory is left"
    paper: ClassVar[str] = "McCandlish et al. 2018, An Empirical Model of Large-Batch Training, arXiv:1812.06162"
    package: ClassVar[str] = ""

    size: Annotated[int, msgspec.Meta(ge=1, description="samples; searched for where it is not given")] | None = None
    auto: Annotated[bool, msgspec.Meta(description="search for the largest, as without size")] = False

    def __post_init__(self) -> None:
        if self.auto and self.size is not None:
            raise ValueError("auto searches for the size: leave out one of the two")

    def resized(self, workload: WorkloadSpec) -> WorkloadSpec:
        return workload if self.size is None else workload.with_params(**{PARAMETER: self.size})

    def apply(self, state: TrainState) -> TrainState:
        return state  # the workload was built with it

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.size is None:
            return ()
        return (
            Claim(
                technique=self.name,
                statement="the batches that are trained on have this many samples",
                fact="batch_size",
                relation=Relation.EQUAL,
                value=float(self.size),
            ),
        )

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis="batches of another size are other data")
