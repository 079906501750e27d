"""A backward pass on fake tensors takes what a real one does, to the byte."""

from collections.abc import Callable
from itertools import accumulate

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.instruments.memory.profiler_events import ProfiledAllocation
from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.inplace_gradients import add_gradients_in_place
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe

ROWS, WIDTH = 96, 250
SCALARS = 100  # bytes: a real loss is a copy of a fake one
Model = Callable[[Tensor], Tensor]
PICKED = ROWS // 4


def rows() -> Tensor:
    return torch.arange(PICKED)


def columns(h: Tensor) -> Tensor:
    return torch.zeros(ROWS, 5, dtype=torch.int64)


class Kept(torch.autograd.Function):
    """A copy whose gradient a program keeps."""

    gradients: list[Tensor] = []

    @staticmethod
    def forward(_ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_ctx: object, gradient: Tensor) -> Tensor:
        Kept.gradients.append(gradient * 2)
        return Kept.gradients[-1]


def keep(h: Tensor) -> Tensor:
    return Kept.apply(h)  # type: ignore[no-untyped-call,no-any-return]


def retain(h: Tensor) -> Tensor:
    h.retain_grad()
    return h


def recompute(h: Tensor, *, reentrant: bool) -> Tensor:
    called = checkpoint(lambda x: x.sin() + x.cos() + x.exp(), h, use_reentrant=reentrant, preserve_rng_state=False)
    assert isinstance(called, Tensor)
    return called


MODELS: dict[str, Model] = {
    "two uses": lambda h: h.sin() + h.cos(),
    "four uses": lambda h: h.sin() + h.cos() + h.exp() + h.tanh(),
    "twice in one op": lambda h: (h * h).sin(),
    "passed on as it is": lambda h: (h + (h + 1)) * 3,
    "broadcast": lambda h: h.sum(0).expand(ROWS, WIDTH) + h.sum(0).expand(ROWS, WIDTH) + h,
    "transposed": lambda h: h.t().sin().t() + h.t().cos().t() + h.t().exp().t(),
    "slices in a loop": lambda h: torch.stack([h[:, t].sin() for t in range(6)]),
    "parts in a loop": lambda h: torch.cat([h[t : t + 7] * 2 for t in range(0, 70, 7)]),
    "index_select": lambda h: h.index_select(0, rows()).sin(),
    "index": lambda h: h[rows()].sin(),
    "gather": lambda h: h.gather(1, columns(h)).sin(),
    "topk": lambda h: h.topk(7).values.sin(),
    "largest": lambda h: h.max(1).values.sin(),
    "diagonal": lambda h: h.diagonal().sin() + h.diagonal().cos(),
    "kept by the program": lambda h: keep(h) + keep(h) + keep(h),
    "retained": lambda h: retain(h.exp()).sin() + h.cos(),
    "recomputed": lambda h: recompute(h, reentrant=False) + h.sin(),
    "recomputed by reentrant": lambda h: recompute(h, reentrant=True) + h.sin(),
    "masked": lambda h: h.masked_fill(torch.zeros(ROWS, WIDTH, dtype=torch.bool), 0.0) + h.clamp(0, 1) + h.relu(),
    "norm": lambda h: h.norm(p=1) + h.norm() + h.var(),
}


def compute_loss(model: Model) -> Tensor:
    leaf = torch.ones(ROWS, WIDTH, requires_grad=True)
    return model(leaf * 2).sum()


def rehearse(model: Model) -> list[ProfiledAllocation]:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()), add_gradients_in_place():
        compute_loss(model).backward()
        return memory.recorded.allocations


def measure(model: Model) -> list[int]:
    with AllocationProfiler(ops=False) as profiler:
        compute_loss(model).backward()
    return [event.size for event in profiler.recorded.allocations]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_all_that_is_allocated_is_what_a_real_pass_allocates(model: Model) -> None:
    planned, measured = [event.size for event in rehearse(model)], measure(model)
    Kept.gradients.clear()
    assert max(accumulate(planned)) == pytest.approx(max(accumulate(measured)), abs=SCALARS)
    assert list_large(planned) == list_large(measured)


def list_large(sizes: list[int]) -> list[int]:
    return sorted(size for size in sizes if size > SCALARS)


@pytest.mark.parametrize(
    ("weighted", "made"),
    [
        (False, ["aten::sigmoid"]),
        # pos_weight * target; that plus 1, of which the target, the sigmoid's product and the former are subtracted
        (True, ["aten::mul", "aten::add", "aten::sigmoid"]),
    ],
)
def test_cross_entropy_of_logits_writes_into_what_it_made(weighted: bool, made: list[str]) -> None:
    def model(h: Tensor) -> Tensor:
        targets = torch.zeros(ROWS, WIDTH)
        of_classes = torch.ones(WIDTH) if weighted else None
        return F.binary_cross_entropy_with_logits(h, targets, pos_weight=of_classes)

    node = "BinaryCrossEntropyWithLogitsBackward0"
    assert [event.op for event in rehearse(model) if event.node == node and event.size > 0] == made


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_of_logits_takes_as_much_in_between(reduction: str, weighted: bool) -> None:
    def model(h: Tensor) -> Tensor:
        of_classes = torch.ones(WIDTH) if weighted else None
        return F.binary_cross_entropy_with_logits(h, torch.zeros_like(h), pos_weight=of_classes, reduction=reduction)

    planned = max(accumulate(event.size for event in rehearse(model)))
    assert planned == pytest.approx(max(accumulate(measure(model))), abs=4 * WIDTH + SCALARS)


def test_a_sum_for_a_second_derivative_is_a_tensor_of_its_own() -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()), add_gradients_in_place():
        leaf = torch.ones(ROWS, WIDTH, requires_grad=True)
        h = leaf * 2
        memory.begin()
        torch.autograd.grad((h.exp() + h.tan()).sum(), leaf, create_graph=True)
        sums = [event.op for event in memory.recorded.allocations if event.op == "aten::add" and event.node]
    assert sums == ["aten::add", "aten::add"]
