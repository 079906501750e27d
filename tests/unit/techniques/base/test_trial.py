"""What a technique tries on the unmodified model takes no memory that grows with the model's depth."""

import gc
from dataclasses import replace
from functools import partial
from itertools import accumulate

import pytest

from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.techniques.base.trial import draw_trial_microbatch
from perfkit.workloads.workload import Workload
from tests.unit.techniques.tiny import BATCH, TIME, WIDTH, WORKLOAD, TinyModel, applied, new_state

SHALLOW, DEEP = 4, 16
INPUT = 4 * BATCH * TIME * WIDTH  # bytes between two blocks; each of them saves several times as much


def make_workload(blocks: int) -> Workload:
    names = tuple(f"blocks.{number}" for number in range(blocks))
    return replace(WORKLOAD, build_model=partial(TinyModel, blocks), blocks=lambda _model: names)


def measure_setup(variant: str, blocks: int) -> int:
    """The most bytes held at once while techniques are applied."""
    state = new_state(make_workload(blocks))
    gc.collect()
    with AllocationProfiler(ops=False) as profiler:
        applied(variant, state)
    return max(accumulate((event.size for event in profiler.recorded.allocations), initial=0))


@pytest.mark.parametrize("variant", ["ckpt:every=2", "flash", "flash:window=5", "accum", "accum+flash"])
def test_a_deeper_model_takes_no_more(variant: str) -> None:
    assert measure_setup(variant, DEEP) - measure_setup(variant, SHALLOW) < INPUT


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_microbatch_is_what_one_forward_pass_takes(parts: int) -> None:
    state = new_state(WORKLOAD)
    state.microbatches = parts
    with draw_trial_microbatch(state) as batch:
        assert {len(tensor) for tensor in batch.values()} == {BATCH // parts}
