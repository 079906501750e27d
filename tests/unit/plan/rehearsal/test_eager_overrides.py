"""What eager code does with real tensors and not with fake ones, counted by hand."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.plan.rehearsal.eager_overrides import patch_linear, patch_transformers
from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.op_scratch_probe import OpScratchProbe

BATCH, TIME, WIDTH, OUT = 2, 3, 5, 7


def made(x: torch.Tensor, bias: bool = True) -> list[int]:
    """What a linear layer makes of (batch, time, width) features, whatever order these are in."""
    memory = FakeMemory()
    with memory.record_allocations(OpScratchProbe()):
        weight, offset = torch.empty(OUT, WIDTH, requires_grad=True), torch.empty(OUT, requires_grad=True)
        x = x + 0
        memory.begin()
        y = F.linear(x, weight, offset if bias else None)
    assert y.shape == (*x.shape[:-1], OUT)
    assert y.requires_grad
    return [event.size for event in memory.recorded.allocations if event.size > 0]


def features() -> torch.Tensor:
    return torch.empty(TIME, BATCH, WIDTH).transpose(0, 1)


COPIED, PRODUCT = BATCH * TIME * WIDTH * 4, BATCH * TIME * OUT * 4  # of features, and what the layer returns


def test_a_bias_is_added_in_place_to_features_that_are_not_contiguous() -> None:
    with FakeTensorMode():
        assert made(features()) == [COPIED, PRODUCT, PRODUCT]  # the sum is another tensor, as for any subclass
        with patch_linear():
            assert made(features()) == [COPIED, PRODUCT]
        assert made(features()) == [COPIED, PRODUCT, PRODUCT]


def test_others_are_as_they_were() -> None:
    with FakeTensorMode(), patch_linear():
        for x in (features().contiguous(), torch.empty(WIDTH, BATCH * TIME).t()):
            assert made(x) == made(x, bias=False) == [PRODUCT]
        assert made(features(), bias=False) == [COPIED, PRODUCT]


def test_autocast_casts_all_three_first() -> None:
    weight = OUT * WIDTH * 4
    with FakeTensorMode(), patch_linear(), torch.autocast("cpu", torch.bfloat16):
        in_16_bits = sorted(2 * size for size in made(features()))
    assert in_16_bits == sorted([COPIED, weight, OUT * 4, COPIED, PRODUCT])


def test_transformers_takes_no_fake_tensor_for_a_traced_one() -> None:
    library = pytest.importorskip("transformers.utils.import_utils")
    with FakeTensorMode():
        mask = torch.ones(2, 2)
    with patch_transformers():
        assert not library.is_tracing(mask)
    assert library.is_tracing(mask)
