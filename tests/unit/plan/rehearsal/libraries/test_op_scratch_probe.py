"""What a CPU's library takes, by the one op that takes it."""

import math
from itertools import accumulate
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries import op_scratch_probe
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe, ProbedOp

CONVOLUTION = torch.ops.aten.convolution.default
STRIDE, PADDING, DILATION, NO_PADDING = [1, 1], [1, 1], [1, 1], [0, 0]


def convolution(known: OpScratchProbe) -> int:
    with FakeTensorMode():
        image, weight = torch.empty(2, 3, 32, 32), torch.empty(8, 3, 3, 3)
        args = (image, weight, None, STRIDE, PADDING, DILATION, False, NO_PADDING, 1)
        return known.scratch(CONVOLUTION, args, {}, CONVOLUTION(*args))


def test_ops_that_take_none_are_not_tried() -> None:
    known = OpScratchProbe()
    with FakeTensorMode():
        a = torch.empty(8, 8)
        assert known.scratch(torch.ops.aten.add.Tensor, (a, a), {}, a) == 0
        assert known.scratch(torch.ops.aten.mm.default, (a, a), {}, a) == 0  # fp32 products are MKL's own
    assert not known.untried


def test_each_shape_is_tried_once(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    known, tried = OpScratchProbe(), []
    monkeypatch.setattr(
        op_scratch_probe, "_run_op", lambda op, args, kwargs: tried.append((op, args)) or ProbedOp(640, (1,))
    )
    assert convolution(known) == convolution(known) == 640
    ((op, args),) = tried
    assert op is CONVOLUTION
    assert type(args[0]) is torch.Tensor
    assert args[0].shape == (2, 3, 32, 32)


def test_what_one_plan_has_tried_the_next_one_knows(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    tried: list[object] = []
    monkeypatch.setattr(op_scratch_probe, "_run_op", lambda op, args, kwargs: tried.append(op) or ProbedOp(640, (1,)))
    shared: dict[object, ProbedOp] = {}
    assert convolution(OpScratchProbe(shared)) == convolution(OpScratchProbe(shared)) == 640
    assert len(tried) == 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)  # which have scratch memory each
    convolution(OpScratchProbe(shared))
    assert len(tried) == 2


def test_a_convolution_takes_what_a_real_one_gives_back() -> None:
    image, weight = torch.zeros(2, 3, 32, 32), torch.zeros(8, 3, 3, 3)
    with AllocationProfiler(ops=False) as profiler:
        made = CONVOLUTION(image, weight, None, STRIDE, PADDING, DILATION, False, NO_PADDING, 1)
    held = list(accumulate(event.size for event in profiler.recorded.allocations))
    assert held[-1] == made.nbytes == 2 * 8 * 32 * 32 * 4
    assert convolution(OpScratchProbe()) == max(held) - held[-1]


@pytest.mark.parametrize(
    ("op", "shape", "dtype", "args"),
    [
        (torch.ops.aten._fft_c2r.default, (8, 16, 16, 9), torch.complex64, ([2, 3], 2, 16)),
        (torch.ops.aten._fft_r2c.default, (8, 16, 16), torch.float32, ([1, 2], 0, True)),
        (torch.ops.aten.mean.dim, (8, 16, 16, 16), torch.bfloat16, ([2, 3],)),
    ],
)
def test_copies_of_operands_are_those_of_a_real_op(
    op: Any, shape: tuple[int, ...], dtype: torch.dtype, args: tuple[Any, ...]
) -> None:
    with AllocationProfiler(ops=False) as profiler:
        kept = op(torch.zeros(shape, dtype=dtype), *args)
    held = list(accumulate(event.size for event in profiler.recorded.allocations))
    operand_bytes = math.prod(shape) * dtype.itemsize
    with FakeTensorMode():
        fake = torch.empty(shape, dtype=dtype)
        scratch = OpScratchProbe().scratch(op, (fake, *args), {}, op(fake, *args))
    assert held[-1] == kept.nbytes
    assert scratch == max(0, max(held) - operand_bytes - kept.nbytes)


def test_operands_that_are_too_large_are_said(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(op_scratch_probe, "_MOST_BYTES", 10_000)
    known = OpScratchProbe()
    assert convolution(known) == 0
    assert known.untried == {"aten::convolution"}


def test_results_that_are_too_large_are_not_allocated(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A weight of 256 channels makes 4 GiB of an image of 16 MiB."""
    monkeypatch.setattr(op_scratch_probe, "_run_op", lambda op, args, kwargs: pytest.fail("it was run"))
    known = OpScratchProbe()
    with FakeTensorMode():
        args = (torch.empty(1, 1, 2048, 2048), torch.empty(256, 1, 1, 1), None, STRIDE, NO_PADDING, DILATION)
        made = CONVOLUTION(*args, False, NO_PADDING, 1)
        assert made.nbytes == 2**32
        assert known.scratch(CONVOLUTION, (*args, False, NO_PADDING, 1), {}, made) == 0
    assert known.untried == {"aten::convolution"}


def test_a_recurrent_layer_goes_backward_from_its_own_forward() -> None:
    time, batch, width = 4, 2, 8
    with FakeTensorMode():
        x, state = torch.empty(time, batch, width), torch.empty(1, batch, width)
        weights = [torch.empty(4 * width, width), torch.empty(4 * width, width)]
        biases = [torch.empty(4 * width), torch.empty(4 * width)]
        layer = (x, *weights, *biases, state, state)
        made = (x, state, state)  # output and states, of the same shapes
        options = (False, 2, width, 1, True, True, False, [], False)
        args = (*layer, *made, x, state, state, *options, torch.empty(0, dtype=torch.uint8))
        known = OpScratchProbe()
        tried = known.try_op(torch.ops.aten.mkldnn_rnn_layer_backward.default, args, {}, layer)
    assert tried is not None
    # Gradients of the input, both weights, both biases and both states, in fp32.
    gate = 4 * width
    elements = (time * batch * width, gate * width, gate * width, gate, gate, batch * width, batch * width)
    assert tried.results == tuple(4 * count for count in elements)
    assert not known.untried


@pytest.mark.parametrize("states", [2, 1])
def test_an_update_in_8_bits_works_in_fp32(states: int) -> None:
    """Five tensors at once: of Adam both moments, the gradient, a root and its quotient; of Lion the moment, the
    gradient, two terms and their sum."""
    pytest.importorskip("bitsandbytes")
    count = 4096
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()):
        codes, scales, table = torch.empty(count, dtype=torch.uint8), torch.empty(count // 256), torch.empty(256)
        second = (codes, table, scales) if states == 2 else (None, None, None)
        weight, gradient = torch.empty(count), torch.empty(count)
        memory.begin()
        torch.ops.bitsandbytes.optimizer_update_8bit_blockwise(
            "adam" if states == 2 else "lion",
            *(gradient, weight, codes, second[0]),
            *(0.9, 0.999, 0.0, 0.0, 1e-8, 1, 1e-3),
            *(table, second[1], scales, second[2]),
            *(0.01, 1.0),
        )
    changes = [event.size for event in memory.recorded.allocations]
    assert max(accumulate(changes)) == 5 * 4 * count
    assert sum(changes) == 0
