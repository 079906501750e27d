"""The table as a whole, and what lies outside of it."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import flop_registry, register_flop_formula

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, TensorArg
from perfkit.cost.formula_table import OPS, cost_op
from perfkit.cost.formulas.free_ops import COMPOSITES, FREE

X = TensorArg((6, 10), (10, 1), "fp32")
_DEVICES = ("CPU", "CUDA", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "Meta")


def overloads(name: str) -> list[str]:
    namespace, _, op = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), op, None)
    names = packet.overloads() if packet is not None else []
    full = [name if each == "default" else f"{name}.{each}" for each in names]
    return [each for each in full if torch._C._dispatch_has_kernel(each)]  # some exist for TorchScript only


def is_composition(name: str) -> bool:
    """Whether autograd splits every variant of the op, so that it never runs as one."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    known = [
        each for each in overloads(name) if any(has(each, key) for key in (*_DEVICES, "CompositeImplicitAutograd"))
    ]
    return bool(known) and all(
        has(each, "CompositeImplicitAutograd") and not any(has(each, key) for key in _DEVICES) for each in known
    )


def test_formulas_are_for_ops_that_run_as_one() -> None:
    compositions = [name for name in OPS if name.startswith("aten::") and is_composition(name)]
    # One kernel on CUDA, a composition elsewhere; and what torch 2.9 composes.
    assert set(compositions) <= {"aten::_fused_rms_norm", "aten::ldexp", "aten::ldexp_"}


def test_the_lists_do_not_overlap() -> None:
    assert not OPS.keys() & FREE
    assert not OPS.keys() & COMPOSITES
    assert not FREE & COMPOSITES


def test_compositions_are_split_by_autograd() -> None:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    others = {
        name
        for name in COMPOSITES
        if (known := overloads(name)) and not any(has(each, "CompositeImplicitAutograd") for each in known)
    }
    assert others == set()


def test_every_formula_survives_lost_arguments() -> None:
    """Damaged traces give any arguments: a formula answers, or says that it cannot; it never raises."""
    lists: tuple[Any, ...] = ((X, X), (X,), ())
    shapes: list[tuple[Any, ...]] = [
        (),
        (None,),
        (X,),
        (X, X),
        (X, X, X, X),
        (X, None, X, None, 3),
        (X, *[(1, 1)] * 10),
    ]
    shapes += [(X, 0, X), (3, 4, 5), lists, (X, -7, True), (X, 7, True), (TensorArg((), (), "fp32"),) * 12]
    shapes += [
        (TensorArg((0, 3), (3, 1), ""),) * 12,
        (*[TensorArg((2, 3, 4, 5), (60, 20, 5, 1), "bf16")] * 4, (0,) * 3),
    ]
    for name in OPS:
        for args in shapes:
            cost = cost_op(OpCall(name, args))
            assert cost is None or cost.bytes is None or cost.bytes >= 0


def test_ops_outside_the_table_take_shapes_from_meta_kernels() -> None:
    # An element-wise op without a count: bytes are known, FLOPs are not.
    cost = cost_op(OpCall("aten::special_bessel_y0", (X,)))
    assert cost is not None
    assert cost.flops is None
    assert cost.bytes == 2 * 240
    assert cost.source == "meta kernel"
    assert cost_op(OpCall("aten::no_such_op", (X,))) is None
    assert cost_op(OpCall("nobody::knows", (X,))) is None


@pytest.fixture
def registered_op() -> Iterator[None]:
    library = torch.library.Library("perfkit_test", "DEF")
    library.define("pairs(Tensor x, Tensor y) -> Tensor")
    library.impl("pairs", lambda x, y: x.new_empty(x.shape[0], y.shape[0]), "Meta")
    packet = torch.ops.perfkit_test.pairs
    register_flop_formula(packet)(lambda x, y, out_shape=None, **_: 7 * out_shape[0] * out_shape[1])
    yield
    del flop_registry[packet]
    cost_op.cache_clear()


@pytest.mark.usefixtures("registered_op")
def test_formulas_that_others_register_with_torch_are_used() -> None:
    cost = cost_op(OpCall("perfkit_test::pairs", (X, TensorArg((3, 10), (10, 1), "fp32"))))
    assert cost is not None
    assert cost.flops == 7 * 6 * 3
    assert cost.bytes == 4 * (60 + 30 + 18)
    assert cost.unit is ComputeUnit.MATRIX
