"""Results of a variant's instrumented passes: its facts, its memory, and where its time went."""

from dataclasses import dataclass

from perfkit.analysis.model.fleet import Fleet, Pipeline
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.roofline.fact_bounds import Facts
from perfkit.analysis.trace.work.ops_by_step import OpsByStep


@dataclass(frozen=True)
class PassResults:
    """Facts of every rank, recorded and derived; the account with the highest peak; the traces, fully analyzed.

    Of the many ranks of a bench, which do the same, the first with a traced step is analyzed wholly. Of a loop that
    perfkit was attached to all are: it has nothing to be compared with, so that its traces must say why it is slow.
    `fleet` says of both who waits for whom, `pipeline` is a step of all ranks where they are those of one. `by_step`
    are the ops of `trace`, where they were asked for.
    """

    facts: tuple[Facts, ...] = ()
    account: MemoryAccount | None = None
    traces: tuple[RankTrace, ...] = ()
    fleet: Fleet | None = None
    by_step: OpsByStep | None = None
    pipeline: Pipeline | None = None

    @property
    def trace(self) -> RankTrace | None:
        """The first with a step, else the first."""
        return next((trace for trace in self.traces if trace.steps), next(iter(self.traces), None))
