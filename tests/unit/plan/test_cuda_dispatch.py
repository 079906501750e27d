"""What CUDA's dispatch makes of ops on fake CPU tensors, against what torch says of CUDA."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from perfkit.plan.cuda_dispatch import as_on_cuda
from perfkit.plan.cuda_scratch import ATTENTION, CONVOLUTION, CudaScratch, attention_backward_bytes


@pytest.fixture
def cuda() -> Iterator[None]:
    with as_on_cuda(), FakeTensorMode():
        yield


@pytest.mark.usefixtures("cuda")
def test_autocast_computes_norms_and_softmax_in_fp32() -> None:
    hidden = torch.randn(4, 64)
    with torch.autocast("cpu", torch.bfloat16):
        projected = nn.Linear(64, 64)(hidden)
        assert projected.dtype == torch.bfloat16
        assert nn.LayerNorm(64)(projected).dtype == torch.float32
        assert projected.softmax(-1).dtype == torch.float32
        assert projected.sum().dtype == torch.float32
        assert projected.softmax(-1, dtype=torch.bfloat16).dtype == torch.bfloat16  # as asked for


@pytest.mark.usefixtures("cuda")
def test_without_autocast_nothing_is_cast() -> None:
    assert nn.LayerNorm(64, dtype=torch.bfloat16)(torch.randn(4, 64, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.usefixtures("cuda")
def test_dropout_keeps_a_byte_an_element() -> None:
    kept: list[torch.Tensor] = []
    hidden = torch.randn(4, 64, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        functional.dropout(hidden, 0.1)
    assert [tensor.dtype for tensor in kept] == [torch.bool]


@pytest.mark.usefixtures("cuda")
def test_attention_with_dropout_does_not_keep_the_scores() -> None:
    kept: list[torch.Tensor] = []
    query = torch.randn(2, 4, 128, 32, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        functional.scaled_dot_product_attention(query, query, query, dropout_p=0.1)
    assert max(tensor.numel() for tensor in kept) == query.numel()


class Ops(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.add(func._schema.name)
        return func(*args, **(kwargs or {}))


def updated() -> set[str]:
    with FakeTensorMode(), Ops() as ops:
        layer = nn.Linear(8, 8)
        for parameter in layer.parameters():
            parameter.grad = torch.zeros_like(parameter)
        torch.optim.AdamW(layer.parameters()).step()
    return ops.names


def test_optimizers_update_all_tensors_at_once_as_is_the_default_on_cuda() -> None:
    with as_on_cuda():
        assert "aten::_foreach_sqrt" in updated()
    assert not any("_foreach_" in name for name in updated())  # and nothing of it stays


def test_a_cpu_casts_as_before_afterwards() -> None:
    with as_on_cuda():
        pass
    with FakeTensorMode(), torch.autocast("cpu", torch.bfloat16):
        assert nn.LayerNorm(64)(nn.Linear(64, 64)(torch.randn(4, 64))).dtype == torch.bfloat16


def test_flash_attention_works_in_fp32_sums_of_padded_queries() -> None:
    # 1000 queries are 1024, and widths of 48 are 64: fp32 sums of the gradients, and one number a query.
    query = torch.empty(2, 12, 1000, 48, dtype=torch.bfloat16, device="meta")
    assert attention_backward_bytes(query) == 4 * 2 * 12 * 1024 * (64 + 1)
    assert attention_backward_bytes(query.float()) == 4 * 2 * 12 * 1000


def test_the_most_that_a_library_took_is_kept() -> None:
    scratch = CudaScratch()
    with FakeTensorMode():
        image, weight = torch.empty(8, 3, 32, 32), torch.empty(16, 3, 3, 3)
        query = torch.empty(2, 4, 128, 32, dtype=torch.bfloat16)
    assert scratch.scratch(torch.ops.aten.convolution.default, (image, weight), {}) == 4 * (8 * 3 * 32**2 + 16 * 27)
    assert scratch.scratch(torch.ops.aten.convolution.default, (weight, weight), {}) == 4 * 2 * 16 * 27
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    assert scratch.scratch(backward, (query, query), {}) == 4 * 2 * 4 * 128 * 33
    assert scratch.scratch(torch.ops.aten.mm.default, (weight, weight), {}) == 0
    assert scratch.most == {CONVOLUTION: 4 * (8 * 3 * 32**2 + 16 * 27), ATTENTION: 4 * 2 * 4 * 128 * 33}
