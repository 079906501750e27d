"""What blocks are for by the phases they lived in."""

import pytest

from perfkit.allocations import (
    ACTIVATION,
    BUFFER,
    GRADIENT,
    INPUT,
    OPTIMIZER_STATE,
    RECOMPUTED,
    TEMPORARY,
    UNKNOWN,
    Band,
    FailedRequest,
)
from tests.unit.analysis.memory.recording import Recording

NODE = "autograd::engine::evaluate_function: GeluBackward0"
ACCUMULATE = "torch::autograd::AccumulateGrad"
FAILED = FailedRequest(bytes=1, message="CUDA out of memory")


def test_a_step() -> None:
    r = Recording()
    r.phase("data")
    batch, collated = r.make("aten::clone"), r.make("aten::stack")
    r.free(collated)
    r.phase("forward")
    saved, passing = r.make("aten::gelu"), r.make("aten::mul")
    r.free(passing)
    r.phase("backward")
    of_activation, gradient = r.make("aten::gelu_backward"), r.make("aten::mm")
    r.free(saved, op=NODE)
    r.free(of_activation, op=NODE)
    r.phase("optimizer")
    r.make("")  # the state
    update = r.make("aten::sqrt")
    r.free(update)
    r.free(gradient)
    r.outside()
    r.free(batch)
    assert r.categories() == [INPUT, TEMPORARY, ACTIVATION, TEMPORARY, TEMPORARY, GRADIENT, OPTIMIZER_STATE, TEMPORARY]


def test_what_is_freed_after_its_phase_before_the_next_begins_is_temporary() -> None:
    r = Recording()
    r.phase("forward")
    block = r.make("aten::gelu")
    r.outside()
    r.free(block)
    r.phase("backward")
    assert r.categories() == [TEMPORARY]


def test_gradients_that_are_freed_by_the_next_step() -> None:
    r = Recording()
    gradient = -1
    for _ in range(2):
        r.phase("forward")
        if r.now:
            r.free(gradient)
        r.make("aten::gelu")
        r.phase("backward")
        gradient = r.make("aten::mm")
        r.phase("optimizer")
        r.free(r.make("aten::sqrt"))
    assert [name for name in r.categories() if name != ACTIVATION] == [GRADIENT, TEMPORARY, GRADIENT, TEMPORARY]


def test_gradients_without_an_optimizer_phase() -> None:
    r = Recording()
    r.phase("forward")
    r.phase("backward")
    gradient = r.make("aten::mm")
    r.make("aten::mm")
    r.phase("forward")
    r.free(gradient)
    assert r.categories() == [GRADIENT, GRADIENT]


def test_gradients_of_later_microbatches_are_added_to_the_first() -> None:
    r = Recording()
    r.phase("backward")
    first = r.make("aten::mm")
    r.phase("forward")
    r.phase("backward")
    second = r.make("aten::mm")
    r.free(second, op=ACCUMULATE)
    inside = r.make(ACCUMULATE)
    r.free(inside, op=ACCUMULATE)
    r.phase("optimizer")
    r.free(first)
    assert r.categories() == [GRADIENT, GRADIENT, TEMPORARY]


def test_what_crosses_from_one_microbatch_to_the_next() -> None:
    r = Recording()
    r.phase("backward")
    dropped, reduced = r.make("aten::mm"), r.make("aten::mm")
    r.phase("forward")
    r.free(dropped)
    r.phase("backward")
    r.free(reduced, op="FSDP::post_backward_reduce")
    r.phase("optimizer")
    r.free(r.make("aten::sqrt"))
    assert r.categories() == [TEMPORARY, GRADIENT, TEMPORARY]


def test_an_op_that_takes_the_address_of_a_block_did_not_free_it() -> None:
    r = Recording()
    r.phase("backward")
    block = r.make("aten::mm")
    r.make("aten::sum")
    r.replace(block, op=ACCUMULATE)
    r.phase("optimizer")
    assert r.categories() == [TEMPORARY, GRADIENT, GRADIENT]


def test_an_optimizer_within_backward_takes_its_gradients() -> None:
    r = Recording()
    r.phase("backward")
    gradient = r.make("aten::mm")
    update = r.make("aten::sqrt")
    r.free(update, op=ACCUMULATE.replace("AccumulateGrad", "Hook"))
    r.free(gradient, op=ACCUMULATE)
    assert r.categories() == [GRADIENT, TEMPORARY]


def test_state_of_the_optimizer_and_what_its_steps_leave_for_a_while() -> None:
    r = Recording()
    replaced = -1
    for step in range(3):
        r.phase("optimizer")
        if step == 0:
            r.make("")
        else:
            r.free(replaced)
        replaced = r.make("aten::add", size=32)
        norm = r.make("aten::linalg_vector_norm", size=8)
        r.phase("forward")
        if step < 2:
            r.free(norm)
    found = r.categories()
    assert found[0] == OPTIMIZER_STATE
    assert found[1:] == [OPTIMIZER_STATE, TEMPORARY, OPTIMIZER_STATE, TEMPORARY, OPTIMIZER_STATE, TEMPORARY]


def test_the_norm_that_is_alive_when_the_recording_ends_is_as_those_before() -> None:
    r = Recording()
    norm = -1
    for step in range(3):
        r.phase("forward")
        if step:
            r.free(norm)
        r.phase("optimizer")
        norm = r.make("aten::linalg_vector_norm", size=8)
        r.free(r.make("aten::sqrt"))
    assert r.categories() == [TEMPORARY] * 6


def test_a_cache_that_forward_makes_once_is_a_buffer() -> None:
    r = Recording()
    for step in range(3):
        r.phase("forward")
        if step == 0:
            r.make("aten::cos", module="rotary")
        block = r.make("aten::cos", module="head")
        r.phase("backward")
        r.free(block, op=NODE)
        r.phase("optimizer")
        r.free(r.make("aten::sqrt"))
    assert [name for name in r.categories() if name != TEMPORARY] == [BUFFER, ACTIVATION, ACTIVATION, ACTIVATION]


def test_what_every_step_leaves_is_no_cache() -> None:
    r = Recording()
    for _ in range(3):
        r.phase("forward")
        r.make("aten::div")  # losses in a list
        r.phase("optimizer")
        r.free(r.make("aten::sqrt"))
    assert [name for name in r.categories() if name != TEMPORARY] == [ACTIVATION] * 3


def test_outputs_held_until_the_next_forward_are_activations() -> None:
    r = Recording()
    logits = None
    for step in range(3):
        r.phase("forward")
        new = r.make("aten::addmm", size=100 + step)
        if logits is not None:
            r.free(logits)
        logits = new
        r.phase("optimizer")
        r.free(r.make("aten::sqrt"))
    assert [name for name in r.categories() if name != TEMPORARY] == [ACTIVATION] * 3


def test_outside_of_phases() -> None:
    r = Recording()
    r.phase("forward")
    r.outside()
    passing, staying = r.make("aten::add"), r.make("aten::add")
    r.free(passing)
    r.phase("backward")
    r.free(staying)
    assert r.categories() == [TEMPORARY, UNKNOWN]


def test_without_phases_only_what_ops_tell() -> None:
    r = Recording()
    within = r.make("aten::convolution")
    r.free(within, op="aten::convolution")
    saved = r.make("aten::gelu")
    gradient = r.make("aten::mm")
    other = r.make("aten::mul")
    r.make("aten::mul")
    r.free(saved, op=NODE)
    r.free(gradient, op="Optimizer.zero_grad#SGD.zero_grad")
    r.free(other, op=NODE)
    assert r.categories() == [TEMPORARY, ACTIVATION, GRADIENT, UNKNOWN, UNKNOWN]


def recomputing(r: Recording, *, module: str = "") -> tuple[int, ...]:
    """A backward phase in which a forward runs again; its blocks, of which the third passes."""
    r.phase("backward")
    begin = r.now
    gelu = r.make("aten::gelu", module=module)
    copy = r.make("aten::clone", module=module)
    passing = r.make("aten::mul", module=module)
    r.free(passing)
    r.make("aten::native_layer_norm", module=module)
    end = r.now
    r.bands += [Band(kind="phase", name="backward", start_ns=begin, end_ns=end + 9)]
    if module:
        r.bands += [Band(kind="module", name=module, start_ns=begin, end_ns=end)]
    of_activation = r.make("aten::gelu_backward", module=module)
    neutral = r.make("aten::clone", module=module)
    for block in (neutral, of_activation, copy, gelu, passing + 1):
        r.make("aten::mm")
        r.free(block, op=NODE)
    return gelu, copy, passing, passing + 1, of_activation, neutral


def test_recomputation_told_by_the_bands_of_modules() -> None:
    r = Recording()
    blocks = recomputing(r, module="blocks.0")
    found = r.categories()
    assert [found[block] for block in blocks] == [RECOMPUTED, RECOMPUTED, TEMPORARY, RECOMPUTED, TEMPORARY, TEMPORARY]


def test_recomputation_told_by_ops_alone() -> None:
    r = Recording()
    blocks = recomputing(r)
    found = r.categories()
    assert [found[block] for block in blocks] == [RECOMPUTED, TEMPORARY, TEMPORARY, RECOMPUTED, TEMPORARY, TEMPORARY]


def test_recomputation_told_by_the_module_where_ops_are_not_known() -> None:
    r = Recording()
    r.phase("backward")
    inside, of_other_op, outside = r.make(module="blocks.0"), r.make("aten::mm", module="blocks.0"), r.make()
    for block in (inside, of_other_op, outside):
        r.free(block)
    assert r.categories() == [RECOMPUTED, TEMPORARY, TEMPORARY]


def test_a_module_marked_around_its_hooks_is_not_recomputed() -> None:
    r = Recording()
    r.phase("backward")
    r.bands += [Band(kind="module", name="blocks.0", start_ns=0, end_ns=9)]
    block = r.make("aten::cat")
    r.make("aten::mm")
    r.free(block)
    assert r.categories() == [TEMPORARY, GRADIENT]


def test_forward_within_a_band_is_no_recomputation() -> None:
    r = Recording()
    r.phase("forward")
    r.bands += [Band(kind="module", name="blocks.0", start_ns=0, end_ns=9)]
    block = r.make("aten::gelu")
    r.make("aten::mul")
    r.free(block)
    assert r.categories() == [TEMPORARY, ACTIVATION]


def step_that_fails_in_backward(*, told: str = "") -> Recording:
    r = Recording()
    r.failed = FAILED
    r.phase("forward")
    r.make("aten::gelu")
    r.phase("backward")
    r.make("aten::mm", category=told)
    r.make("aten::mm")
    r.make("aten::gelu")
    return r


@pytest.mark.parametrize(("told", "rest"), [("", UNKNOWN), (GRADIENT, TEMPORARY)])
def test_of_a_backward_that_failed_gradients_are_known_only_if_told(told: str, rest: str) -> None:
    found = step_that_fails_in_backward(told=told).categories()
    assert found == [ACTIVATION, told or UNKNOWN, rest, RECOMPUTED]


def test_of_a_failed_phase_blocks_are_as_their_like_in_steps_before() -> None:
    r = Recording()
    r.failed = FAILED
    for step in range(2):
        r.phase("backward")
        passing, gradient = r.make("aten::mm", module="a"), r.make("aten::mm", module="b")
        if step == 0:
            r.free(passing, op=NODE)
            r.phase("optimizer")
            r.free(gradient)
    assert r.categories() == [TEMPORARY, GRADIENT, TEMPORARY, GRADIENT]


def test_a_regular_end_in_backward_leaves_gradients() -> None:
    r = Recording()
    for step in range(2):
        r.phase("backward")
        passing = r.make("aten::mm")
        gradient = r.make("aten::mm")
        r.make("aten::sum")
        r.free(passing, op=NODE)
        if step == 0:
            r.phase("forward")
            r.free(gradient)
    assert r.categories() == [TEMPORARY, GRADIENT, GRADIENT, TEMPORARY, GRADIENT, GRADIENT]
