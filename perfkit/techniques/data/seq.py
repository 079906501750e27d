"""`seq`: another length of the sequences."""

from typing import Annotated, ClassVar

import msgspec

from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import WorkloadSpec
from perfkit.techniques.base.planning import UNKNOWN_EFFECT, Counted, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique

PARAMETER = "seq_len"


class Seq(Technique):
    """Sets the length of the sequences, of workloads that have a `seq_len`.

    Several lengths make a variant each: `'seq:len=512|1024|2048'`. Time, throughput and memory are compared per token.
    Losses are not comparable: the data differ.
    """

    name: ClassVar[str] = "seq"
    summary: ClassVar[str] = "another sequence length"
    stage: ClassVar[Stage] = Stage.WORKLOAD
    purpose: ClassVar[Purpose] = Purpose.BATCH
    purpose_place: ClassVar[int] = 2
    planning: ClassVar[Planning] = Planning(UNKNOWN_EFFECT, Counted.ALL)
    when: ClassVar[str] = "to find the cost of a longer context"
    costs: ClassVar[str] = "attention compute grows with the square of the length; without `flash`, so does its memory"
    paper: ClassVar[str] = (
        "Vaswani et al., Attention Is All You Need, section 4, NeurIPS 2017, https://arxiv.org/abs/1706.03762"
    )
    examples: ClassVar[tuple[str, ...]] = ("seq:len=64", "seq:len=128", "seq:len=512")

    len: Annotated[int, msgspec.Meta(ge=1, description="tokens per sequence")] = 512

    def resize_workload(self, workload: WorkloadSpec) -> WorkloadSpec:
        return workload.replace_params(**{PARAMETER: self.len})

    def apply(self, state: TrainState) -> TrainState:
        return state  # the workload was built with it

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        return (
            Claim(
                technique=self.name,
                statement="sequences have the given number of tokens",
                fact="sequence_length",
                relation=Relation.EQUAL,
                value=float(self.len),
            ),
        )

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis="another sequence length trains on other data")
