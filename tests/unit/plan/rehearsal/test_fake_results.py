"""Results of ops on fake tensors that were called before."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from perfkit.plan.rehearsal import fake_results
from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe

OPS: dict[str, Callable[[Tensor], Tensor | tuple[Tensor, ...]]] = {
    "product": lambda x: x @ x.t(),
    "transposed view": lambda x: x.t()[1:],
    "view of a product": lambda x: torch.ops.aten._unsafe_view(x * 2, (2, 3, 4)),
    "in place": lambda x: x.add_(1),
    "several results": lambda x: x.max(0),
    "views of parts": lambda x: x.split(2),
    "16 bits": lambda x: x.to(torch.bfloat16),
    "conjugate": lambda x: x.to(torch.complex64).conj() * 2,
    "made from nothing": lambda _x: torch.ones(3, 5),
}


def describe(result: Tensor | tuple[Tensor, ...], x: Tensor) -> list[object]:
    tensors = [result] if isinstance(result, Tensor) else list(result)
    return [
        (
            type(each),
            each.shape,
            each.stride(),
            each.storage_offset(),
            each.dtype,
            each.device,
            each.is_conj(),
            each.untyped_storage().nbytes(),
            each.untyped_storage()._cdata == x.untyped_storage()._cdata,
        )
        for each in tensors
    ]


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_a_second_call_returns_the_like(op: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_results, "_KNOWN", {})
    with FakeTensorMode():
        x = torch.empty(6, 4)
        alone = describe(op(x), x)
    for _ in range(2):
        with FakeTensorMode() as mode, FakeMemory().record_allocations(OpScratchProbe()):
            x = torch.empty(6, 4)
            first, second = op(x), op(x)
            assert describe(first, x) == describe(second, x) == alone
            results = [second] if isinstance(second, FakeTensor) else list(second)
            assert all(each.fake_mode is mode for each in results)


def test_calls_that_differ_in_layout_alone_are_told_apart() -> None:
    with FakeTensorMode(), FakeMemory().record_allocations(OpScratchProbe()):
        rows, columns = torch.empty(4, 4), torch.empty(4, 4).t()
        assert [(each * 2).stride() for each in (rows, columns, rows, columns)] == [(4, 1), (1, 4), (4, 1), (1, 4)]


def test_a_failing_call_fails_again() -> None:
    with FakeTensorMode(), FakeMemory().record_allocations(OpScratchProbe()):
        for _ in range(2):
            with pytest.raises(RuntimeError):
                torch.empty(2, 3) @ torch.empty(2, 3)
