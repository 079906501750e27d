"""What CUDA's dispatch makes of ops on fake CPU tensors, against what torch says of CUDA."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.devices.ceilings.peak import Fp32Settings
from perfkit.devices.machine.fp32_precision import read_fp32_settings
from perfkit.plan.rehearsal.cuda_dispatch import patch_cuda_dispatch
from perfkit.plan.rehearsal.libraries.cuda_scratch import (
    ATTENTION,
    CONVOLUTION,
    CudaScratch,
    count_attention_backward_bytes,
)

H100 = resolve_entry("h100-sxm")


@pytest.fixture
def cuda() -> Iterator[None]:
    with patch_cuda_dispatch(H100), FakeTensorMode():
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
def test_cross_entropy_of_logits_in_bf16_keeps_a_log_softmax_in_bf16() -> None:
    """Live on an H200 were the log-softmax in bf16 and a copy of it in fp32, of which autograd keeps the first."""
    kept: list[torch.Tensor] = []
    logits = torch.randn(32, 100, dtype=torch.bfloat16, requires_grad=True)
    keep = torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor)
    with torch.autocast("cpu", torch.bfloat16), keep:
        functional.cross_entropy(logits, torch.zeros(32, dtype=torch.int64))
    of_logits = {tensor.dtype for tensor in kept if tensor.shape == logits.shape}
    assert of_logits == {torch.bfloat16, torch.float32}


def test_the_cpus_autocast_is_its_own_again_afterwards() -> None:
    def dtype() -> torch.dtype:
        with torch.autocast("cpu", torch.bfloat16):
            return functional.cross_entropy(torch.randn(4, 9).bfloat16(), torch.zeros(4, dtype=torch.int64)).dtype

    before = dtype()
    with patch_cuda_dispatch(H100), FakeTensorMode():
        pass
    assert dtype() == before == torch.float32


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


def kept_of_attention(
    queries: int, keys: int, dtype: torch.dtype, mask: bool = False, width: int = 32, dropout: float = 0.0
) -> list[torch.Tensor]:
    """What causal attention with so many heads keeps for backward, each storage once."""
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    query, key, value = (
        torch.randn(2, heads, 128, width, dtype=dtype, requires_grad=True) for heads in (queries, keys, keys)
    )
    seen = torch.ones(128, 128, dtype=torch.bool) if mask else None
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        found = functional.scaled_dot_product_attention(
            query, key, value, seen, dropout, is_causal=not mask, enable_gqa=queries != keys
        )
    found.sum().backward()
    assert key.grad is not None
    assert key.grad.shape == key.shape
    return [*kept.values()]


@pytest.mark.parametrize(
    ("gpu", "dtype", "mask", "copied"),
    [
        ("a100-40g", torch.float32, False, True),  # memory-efficient: batch, length, heads, width
        ("a100-40g", torch.bfloat16, True, True),  # so too with a mask
        ("a100-40g", torch.bfloat16, False, False),  # flash: as the queries
        ("v100-16g", torch.float16, False, True),  # no flash before Ampere
        ("h100-80g", torch.bfloat16, True, False),  # cuDNN comes first on Hopper, with a mask too
    ],
)
def test_the_output_of_attention_has_the_layout_of_its_kernel(
    gpu: str, dtype: torch.dtype, mask: bool, copied: bool
) -> None:
    """Queries with the length first, as `nn.MultiheadAttention` makes them: one kernel's output is copied back."""
    with patch_cuda_dispatch(resolve_entry(gpu)), FakeTensorMode():
        length_first = torch.randn(96, 3, 5, 16, dtype=dtype)  # length, batch, heads, width
        query = length_first.permute(1, 2, 0, 3)
        seen = torch.ones(96, 96, dtype=torch.bool) if mask else None
        output = functional.scaled_dot_product_attention(query, query, query, seen)
        assert output.shape == query.shape
        assert output.permute(2, 0, 1, 3).is_contiguous() == (not copied)


def has_scores(kept: list[torch.Tensor]) -> bool:
    return any(tensor.numel() == 2 * 8 * 128 * 128 for tensor in kept)


def test_flash_keeps_the_heads_of_keys_and_values_that_there_are() -> None:
    """Queries and output of 8 heads, keys and values of 2, in bf16, and a number for each query and head in fp32."""
    with patch_cuda_dispatch(H100), FakeTensorMode():
        kept = kept_of_attention(8, 2, torch.bfloat16)
    assert sum(tensor.nbytes for tensor in kept) == 2 * 2 * 128 * 32 * (2 * 8 + 2 * 2) + 4 * 2 * 8 * 128


@pytest.mark.parametrize(
    ("gpu", "keys", "dtype", "mask", "explicit"),
    [
        ("a100-40g", 2, torch.bfloat16, False, False),  # flash
        ("a100-40g", 2, torch.float32, False, True),  # flash knows no fp32, and the memory-efficient kernels no groups
        ("a100-40g", 8, torch.float32, False, False),  # memory-efficient
        ("a100-40g", 2, torch.bfloat16, True, True),  # flash takes no mask
        ("h100-80g", 2, torch.bfloat16, True, False),  # cuDNN, which comes first on Hopper
        ("v100-32g", 2, torch.float16, False, True),
        ("v100-32g", 8, torch.float16, False, False),
        ("mi300x", 2, torch.bfloat16, False, False),
        ("mi355x", 8, torch.float32, False, False),
        ("mi210", 8, torch.bfloat16, False, False),
        ("mi100", 8, torch.bfloat16, False, True),  # of the same capability, and without kernels
        ("rx-7900-xtx", 8, torch.bfloat16, False, True),  # experimental
    ],
)
def test_scores_are_kept_where_cuda_has_no_kernel_without(
    gpu: str, keys: int, dtype: torch.dtype, mask: bool, explicit: bool
) -> None:
    with patch_cuda_dispatch(resolve_entry(gpu)), FakeTensorMode():
        assert has_scores(kept_of_attention(8, keys, dtype, mask)) == explicit


@pytest.mark.parametrize(
    ("gpu", "dtype", "width", "dropout", "mask", "explicit"),
    [
        ("rtx-4090", torch.bfloat16, 192, 0.0, False, False),
        ("rtx-4090", torch.bfloat16, 208, 0.0, False, True),  # flash has no backward for it
        ("rtx-5090", torch.bfloat16, 256, 0.0, False, False),
        ("rtx-5090", torch.bfloat16, 256, 0.1, False, True),
        ("a100-40g", torch.bfloat16, 208, 0.1, False, False),
        ("h100-80g", torch.bfloat16, 256, 0.0, True, False),  # cuDNN, which takes a mask
        ("b200", torch.bfloat16, 256, 0.0, True, True),
    ],
)
def test_fewer_heads_of_keys_keep_the_scores_where_the_width_is_too_much(
    gpu: str, dtype: torch.dtype, width: int, dropout: float, mask: bool, explicit: bool
) -> None:
    with patch_cuda_dispatch(resolve_entry(gpu)), FakeTensorMode():
        assert has_scores(kept_of_attention(8, 2, dtype, mask, width, dropout)) == explicit


@pytest.mark.parametrize(("gpu", "explicit"), [("v100-32g", False), ("t4", False), ("a100-40g", True)])
def test_fp32_of_any_width_is_fused_before_ampere(gpu: str, explicit: bool) -> None:
    with patch_cuda_dispatch(resolve_entry(gpu)), FakeTensorMode():
        assert has_scores(kept_of_attention(8, 8, torch.float32, width=30)) == explicit


@pytest.mark.parametrize(
    ("gpu", "backend", "keys", "dtype"),
    [
        ("h100-80g", SDPBackend.CUDNN_ATTENTION, 8, torch.float32),
        ("h100-80g", SDPBackend.FLASH_ATTENTION, 8, torch.float32),
        ("h100-80g", SDPBackend.EFFICIENT_ATTENTION, 2, torch.bfloat16),
        ("v100-32g", SDPBackend.FLASH_ATTENTION, 8, torch.float16),
        ("mi300x", SDPBackend.CUDNN_ATTENTION, 8, torch.bfloat16),
    ],
)
def test_a_backend_that_cannot_says_so(gpu: str, backend: SDPBackend, keys: int, dtype: torch.dtype) -> None:
    with (
        patch_cuda_dispatch(resolve_entry(gpu)),
        FakeTensorMode(),
        sdpa_kernel(backend),
        pytest.raises(RuntimeError, match="kernel"),
    ):
        kept_of_attention(8, keys, dtype)


@pytest.mark.parametrize("backend", [SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION])
def test_a_backend_that_can_keeps_no_scores(backend: SDPBackend) -> None:
    with patch_cuda_dispatch(resolve_entry("a100-40g")), FakeTensorMode(), sdpa_kernel(backend):
        assert not has_scores(kept_of_attention(8, 8, torch.bfloat16))


def test_torch_tells_the_gpu_that_is_planned_for() -> None:
    cuda = torch.device("cuda")
    with patch_cuda_dispatch(H100):
        assert torch.cuda.get_device_capability(cuda) == (9, 0)
        assert not torch.cuda.is_available()
        assert read_fp32_settings(cuda) == Fp32Settings(matmul="ieee", conv="tf32", rnn="tf32", has_tf32=True)
    for gpu in ("v100-32g", "mi300x"):
        with patch_cuda_dispatch(resolve_entry(gpu)):
            assert read_fp32_settings(cuda) == Fp32Settings("ieee", "ieee", "ieee")
    assert torch.version.hip is None


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
    with patch_cuda_dispatch(H100):
        assert "aten::_foreach_sqrt" in updated()
    assert not any("_foreach_" in name for name in updated())  # and nothing of it stays


def test_a_cpu_casts_as_before_afterwards() -> None:
    with patch_cuda_dispatch(H100):
        pass
    with FakeTensorMode(), torch.autocast("cpu", torch.bfloat16):
        assert nn.LayerNorm(64)(nn.Linear(64, 64)(torch.randn(4, 64))).dtype == torch.bfloat16


def test_flash_attention_works_in_fp32_sums_of_padded_queries() -> None:
    # 1000 queries are 1024, and widths of 48 are 64: fp32 sums of the gradients, and one number a query.
    query = torch.empty(2, 12, 1000, 48, dtype=torch.bfloat16, device="meta")
    assert count_attention_backward_bytes(query, query) == 4 * 2 * 12 * 1024 * (64 + 1)
    assert count_attention_backward_bytes(query.float(), query.float()) == 4 * 2 * 12 * 1000


def test_gradients_of_shared_keys_and_values_are_made_for_each_head_of_the_queries() -> None:
    query, key = (torch.empty(2, heads, 128, 32, dtype=torch.bfloat16, device="meta") for heads in (8, 2))
    alone = count_attention_backward_bytes(query, query)
    assert count_attention_backward_bytes(query, key) == alone + 2 * (2 * 2 * 8 * 128 * 32)


def test_the_most_that_a_library_took_is_kept() -> None:
    scratch = CudaScratch()
    with FakeTensorMode():
        image, weight = torch.empty(8, 3, 32, 32), torch.empty(16, 3, 3, 3)
        query = torch.empty(2, 4, 128, 32, dtype=torch.bfloat16)
    convolution = torch.ops.aten.convolution.default
    assert scratch.scratch(convolution, (image, weight), {}, None) == 4 * (8 * 3 * 32**2 + 16 * 27)
    assert scratch.scratch(convolution, (weight, weight), {}, None) == 4 * 2 * 16 * 27
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    assert scratch.scratch(backward, (query, query, query), {}, None) == 4 * 2 * 4 * 128 * 33
    assert scratch.scratch(torch.ops.aten.mm.default, (weight, weight), {}, None) == 0
    assert scratch.most == {CONVOLUTION: 4 * (8 * 3 * 32**2 + 16 * 27), ATTENTION: 4 * 2 * 4 * 128 * 33}
