"""Measures the FLOPs and memory of a frozen teacher."""

from contextlib import ExitStack

from perfkit.cost.live_flops import FlopCounter
from perfkit.instruments.training.module_hooks import watch_forward_passes
from perfkit.instruments.training.tensors import list_trained_blocks, sum_category_bytes
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.techniques.base.state import TrainState
from perfkit.workloads.workload import Batch


def measure_teacher_facts(state: TrainState, batch: Batch) -> dict[str, float]:
    """Facts of one microbatch's forward and backward pass, which leaves gradients; empty without a teacher."""
    if state.teacher is None:
        return {}
    counter, counting = FlopCounter(), ExitStack()
    with watch_forward_passes((state.teacher,), lambda: counting.enter_context(counter), counting.close):
        state.backward(state.loss(batch))
    blocks = list_trained_blocks(TrainedModels(state.device, {"": state.teacher}, ()))
    return {
        "teacher_flops": counter.build_count().matrix,
        "teacher_bytes": float(sum_category_bytes(blocks, "parameter")),
        "teacher_gradient_bytes": float(sum_category_bytes(blocks, "gradient")),
    }
