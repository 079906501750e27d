"""What fake tensors do as real ones do: conversions and copies, and eager code, counted by hand."""

import copy
import weakref
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.fake_overrides import convert_fakes, copy_fakes, patch_linear, patch_transformers
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe


def test_a_module_is_converted_in_place() -> None:
    with FakeTensorMode(), convert_fakes():
        layer = nn.Linear(2, 3)
        weight = layer.weight
        watched = weakref.ref(weight)
        layer.to(torch.bfloat16)
    assert layer.weight is weight is watched()
    assert layer.weight.dtype == torch.bfloat16


def test_a_copy_is_of_the_same_mode_and_has_storages_of_its_own() -> None:
    with FakeTensorMode() as mode, copy_fakes():
        layer = nn.Linear(2, 3)
        copied = copy.deepcopy(layer)
    for ours, theirs in zip(layer.parameters(), copied.parameters(), strict=True):
        assert isinstance(theirs, FakeTensor)
        assert isinstance(theirs, nn.Parameter)
        assert theirs.requires_grad
        assert theirs.fake_mode is mode
        assert theirs.untyped_storage()._cdata != ours.untyped_storage()._cdata


def test_what_is_tied_stays_tied_in_a_copy() -> None:
    with FakeTensorMode(), copy_fakes():
        layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        layers[1].weight = layers[0].weight
        copied = copy.deepcopy(layers)
    assert copied[1].weight is copied[0].weight is not layers[0].weight


def test_a_buffer_that_is_a_constant_is_copied_with_its_value() -> None:
    """Batch norm counts its batches in one."""
    with FakeTensorMode(), copy_fakes():
        norm = nn.BatchNorm1d(2)
        copied = copy.deepcopy(norm)
        norm.num_batches_tracked.add_(1)
        counted = copied.num_batches_tracked
        assert counted is not None
        assert counted.item() == 0


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


@pytest.mark.parametrize("refused", [False, True])
def test_linear_is_torchs_own_again_afterwards(refused: bool) -> None:
    """Else code that is compiled later in the process computes no gradients of its parameters."""
    linear, key = torch.ops.aten.linear.default, torch._C.DispatchKey.AutogradCPU
    linear._dispatch_cache.clear()  # `_get_dispatch` is for what is not in it
    with pytest.raises(ValueError, match="on purpose") if refused else nullcontext(), patch_linear():
        assert linear._get_dispatch(key) is key
        if refused:
            raise ValueError("on purpose")
    assert linear._get_dispatch(key) is torch._C.DispatchKey.CompositeImplicitAutograd
