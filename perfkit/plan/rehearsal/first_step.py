"""Rehearses the first step, which makes the optimizer state: it often needs less than those after it."""

from collections.abc import Callable
from contextlib import nullcontext

from perfkit.core.allocations import Allocations, InitialBlock
from perfkit.instruments.memory.memory_recording import label_recording
from perfkit.instruments.memory.module_marks import mark_modules
from perfkit.instruments.memory.training_state import find_owners, watch_gradients
from perfkit.instruments.training.tensors import list_known_blocks
from perfkit.instruments.training.trained_models import get_trained_models
from perfkit.plan.rehearsal.batches import Batches
from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.techniques.base.state import TrainState

SOURCE = "every storage of the first step on fake tensors"


def rehearse_first_step(
    step: Callable[[int], None], state: TrainState, memory: FakeMemory, data: Batches, *, compiled: bool
) -> Callable[[], Allocations]:
    """Rehearse step 0 in the recording that `memory` has just begun; the result labels it.

    The modules of a step that is compiled are not marked: marks would be a part of what is compiled.
    """
    trained = get_trained_models(state)
    known: list[InitialBlock] = [*list_known_blocks(state)]
    known = [block for block in known if block.address not in memory.host]
    known += memory.list_other_blocks(data.addresses() | {block.address for block in known})
    owned = find_owners(trained)
    marks = nullcontext() if compiled else mark_modules(trained)
    with marks, watch_gradients(trained, memory.now) as gradients:
        step(0)
    recorded = memory.recorded

    def label() -> Allocations:
        recorded.ranges.sort(key=lambda mark: (mark.start_ns, -mark.end_ns))
        return label_recording(recorded, state.device, known, owned, gradients, source=SOURCE)

    return label
