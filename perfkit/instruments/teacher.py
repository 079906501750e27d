"""What a frozen teacher computes and holds beside the model that is trained."""

from contextlib import ExitStack

from perfkit.cost.live_flops import FlopCounter
from perfkit.instruments.around import around
from perfkit.instruments.tensors import category_bytes, trained_blocks
from perfkit.instruments.trained import Trained
from perfkit.techniques.state import TrainState
from perfkit.workloads.workload import Batch


def teacher_facts(state: TrainState, batch: Batch) -> dict[str, float]:
    """Facts of one microbatch's forward and backward pass, which leaves gradients; empty without a teacher."""
    if state.teacher is None:
        return {}
    counter, counting = FlopCounter(), ExitStack()
    with around((state.teacher,), lambda: counting.enter_context(counter), counting.close):
        state.backward(state.loss(batch))
    blocks = trained_blocks(Trained(state.device, {"": state.teacher}, ()))
    return {
        "teacher_flops": counter.build_count().matrix,
        "teacher_bytes": float(category_bytes(blocks, "parameter")),
        "teacher_gradient_bytes": float(category_bytes(blocks, "gradient")),
    }
