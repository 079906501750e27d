"""`ddp`: every rank holds the whole model; gradients are averaged. What a run of several ranks does by default."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar

from torch.nn.parallel import DistributedDataParallel

from perfkit.record import Claim, Relation
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import Stage, Technique


class Ddp(Technique):
    """Every rank holds the whole model and gradients are averaged over ranks (`DistributedDataParallel`).

    Added by itself wherever there is more than one rank and no technique that averages gradients. Gradients must be
    reduced by a collective.
    """

    name: ClassVar[str] = "ddp"
    summary: ClassVar[str] = "data parallel: whole model on every rank, gradients averaged"
    when: ClassVar[str] = "where the model fits into each device and more devices shall share the batch"
    costs: ClassVar[str] = "all gradients go over the network in every step"
    paper: ClassVar[str] = (
        "Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020, "
        "https://arxiv.org/abs/2006.15704"
    )
    stage: ClassVar[Stage] = Stage.SHARD
    min_world_size: ClassVar[int] = 2

    def apply(self, state: TrainState) -> TrainState:
        return replicate(state)

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        return (averages_gradients(self.name),)


def replicate(state: TrainState) -> TrainState:
    """Wrap every model that is trained in DistributedDataParallel."""
    # Buckets are views into one buffer, so that gradients are not held twice.
    wrapped = {
        name: DistributedDataParallel(model, gradient_as_bucket_view=True)
        for name, model in state.models.items()
        if any(parameter.requires_grad for parameter in model.parameters())
    }
    state.wrapped.update(wrapped)
    state.no_sync = lambda: _no_sync(wrapped.values())
    state.gradients_reduced = True
    return state


@contextmanager
def _no_sync(models: Iterable[DistributedDataParallel]) -> Iterator[None]:
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(model.no_sync())
        yield


def averages_gradients(technique: str) -> Claim:
    """Gradients are summed over ranks by a collective within backward."""
    return Claim(
        technique=technique,
        statement="gradients are reduced over the ranks",
        fact="op_calls:c10d::allreduce_*",
        relation=Relation.AT_LEAST,
        value=1.0,
    )
