"""`batch`: another number of samples in a batch, given or the largest that fits in memory."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec
import torch

from perfkit.core.errors import UsageError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import ParamValue, WorkloadSpec
from perfkit.techniques.base.planning import UNKNOWN_EFFECT, Counted, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import PlanMode, PlanSupport, Purpose, Stage, Technique

PARAMETER = "batch_size"


class Batch(Technique):
    """Sets the number of samples in a batch (of one microbatch of one rank).

    Several sizes make a variant each: `'batch:size=4|8|16'`. `batch:auto` searches for the largest batch that fits
    before the suite begins: the planned size, else the workload's, is doubled until one does not fit, then bisected. A
    trial is a few steps in new processes; it fits if 10 % of the memory stays free (of the device, on a CPU of
    `--memory-limit`, else of what is available).

    Time, throughput and memory are compared per token or sample. Losses are not comparable: the data differ.
    """

    name: ClassVar[str] = "batch"
    summary: ClassVar[str] = "another batch size: given, or the largest that fits in memory"
    stage: ClassVar[Stage] = Stage.WORKLOAD
    purpose: ClassVar[Purpose] = Purpose.BATCH
    planning: ClassVar[Planning] = Planning(UNKNOWN_EFFECT, Counted.ALL)
    when: ClassVar[str] = "when steps are too short to fill the device, and memory is free"
    costs: ClassVar[str] = "activation memory in proportion to the size; beyond a certain size, progress per sample"
    paper: ClassVar[str] = (
        "McCandlish et al., An Empirical Model of Large-Batch Training, 2018, https://arxiv.org/abs/1812.06162"
    )
    examples: ClassVar[tuple[str, ...]] = ("batch:size=3", "batch:size=6", "batch:size=12")

    size: Annotated[int, msgspec.Meta(ge=1, description="samples; found by a search if not given")] | None = None
    auto: Annotated[bool, msgspec.Meta(description="search for the largest, as without size")] = False
    most: Annotated[int, msgspec.Meta(ge=1, description="largest size to try")] = 1024

    def __post_init__(self) -> None:
        if self.auto and self.size is not None:
            raise ValueError("auto searches for the size; omit one of the two")

    def resize_workload(self, workload: WorkloadSpec) -> WorkloadSpec:
        return workload if self.size is None else workload.replace_params(**{PARAMETER: self.size})

    def propose_settings(self, device: torch.device) -> Mapping[str, tuple[ParamValue, ...]]:
        if self.size is None:
            return {}
        return {"size": (2 * self.size, max(1, self.size // 2))}

    def describe_open_params(self) -> str:
        return "" if self.size is not None else "its size"

    def plannable(self) -> PlanSupport:
        if self.size is not None:
            return PlanSupport()
        return PlanSupport(PlanMode.NOT, "the size is found by running; in a plan, search with --max batch_size")

    def apply(self, state: TrainState) -> TrainState:
        if self.size is None:
            raise UsageError(
                "batch without a size starts a search, which needs `perfkit bench`; give a size, such as batch:size=8"
            )
        return state  # the workload was built with it

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.size is None:
            return ()
        return (
            Claim(
                technique=self.name,
                statement="batches have the given number of samples",
                fact="batch_size",
                relation=Relation.EQUAL,
                value=float(self.size),
            ),
        )

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis="another batch size trains on other data")
