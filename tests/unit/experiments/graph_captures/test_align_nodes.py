"""Nodes of a capture and of a replay, one to one as far as that is certain."""

import numpy as np
import pytest

from perfkit.experiments.graph_captures.align_nodes import NodeAlignment, align_nodes
from perfkit.trace.graphs.node_tokens import NodeToken
from perfkit.trace.model import NONE, Category

KERNEL, FILL = Category.KERNEL, Category.FILL
PRODUCT = "sm90_xmma_gemm_bf16"


def named(*kernels: str) -> list[NodeToken]:
    return [NodeToken(FILL if kernel == "fill" else KERNEL, kernel, b"") for kernel in kernels]


def of_ops(*ops: str) -> list[NodeToken]:
    return [NodeToken(FILL, "", b"", "aten::fill_") if op == "fill" else NodeToken(KERNEL, "", b"", op) for op in ops]


def aligned(
    captured: list[NodeToken],
    replayed: list[NodeToken],
    content: list[str] | None = None,
    stream: list[int] | None = None,
    *,
    in_order: bool = True,
) -> list[int] | None:
    """`content` is the kernel of each node where it is not given."""
    found: NodeAlignment | None = align_nodes(
        captured,
        content or [token.kernel or token.op for token in captured],
        replayed,
        np.asarray(stream or [7] * len(replayed)),
        in_order=in_order,
    )
    return None if found is None else found.node.tolist()


def test_as_many_that_agree_are_joined_node_by_node() -> None:
    assert aligned(named("a", "b", "a"), named("a", "b", "a")) == [0, 1, 2]
    assert aligned(of_ops("aten::mm", "mine::x", "fill"), named(PRODUCT, "y", "fill")) == [0, 1, 2]


@pytest.mark.parametrize(
    ("captured", "replayed"),
    [
        (of_ops("aten::mm", "aten::add"), named("void at::native::elementwise_kernel", PRODUCT)),
        (of_ops("mine::x", "mine::y"), named("a", "b")),
        (of_ops("aten::mm", *["mine::x"] * 4), named(PRODUCT, "a", "b", "c", "d")),
        (of_ops("aten::mm", "aten::mm"), named(PRODUCT)),  # without names nothing tells which is missing
        (named("a", "b", "c", "d"), named("e", "f", "g", "h")),
        ([], named("a")),
    ],
    ids=["other order", "no evidence", "little evidence", "other count", "other kernels", "nothing captured"],
)
def test_what_contradicts_or_says_nothing_does_not_fit(captured: list[NodeToken], replayed: list[NodeToken]) -> None:
    assert aligned(captured, replayed) is None


def test_fills_that_made_no_node_leave_the_kernels() -> None:
    assert aligned(of_ops("fill", "aten::mm", "mine::x"), named(PRODUCT, "y")) == [1, 2]
    captured, ran = of_ops("fill", "aten::mm", "fill", "aten::mm"), named(PRODUCT, "fill", PRODUCT)
    assert aligned(captured, ran) == [1, 2, 3]


def test_a_lost_kernel_is_passed_over_by_names() -> None:
    assert aligned(named("a", "b", "c", "d"), named("a", "c", "d")) == [0, 2, 3]
    assert aligned(named("a", "c", "d"), named("a", "b", "c", "d")) == [0, NONE, 1, 2]


def test_of_equal_kernels_with_unlike_calls_the_lost_one_is_not_guessed() -> None:
    captured, replayed = named("a", "b", "b", "c"), named("a", "b", "c")
    assert aligned(captured, replayed, ["a", "b large", "b small", "c"]) == [0, NONE, 3]
    joined = aligned(captured, replayed, ["a", "b", "b", "c"])
    assert joined is not None
    assert joined[1] in (1, 2)


def test_unnamed_launches_between_named_ones_are_joined_where_there_are_as_many() -> None:
    captured = [*named("a", "b"), *of_ops("mine::x"), *named("c", "d")]
    assert aligned(captured, named("b", "y", "c", "d")) == [1, 2, 3, 4]
    assert aligned(captured, named("b", "y", "z", "c", "d")) == [1, NONE, NONE, 3, 4]


def test_streams_without_numbers_are_joined_by_names_that_are_certain() -> None:
    captured = named("a", "b", "c", "b")
    assert aligned(captured, named("c", "a", "b", "b"), stream=[9, 7, 7, 7], in_order=False) == [2, 0, 1, 3]
    unlike = ["a", "b large", "c", "b small"]
    ran = named("a", "c", "b", "b")
    assert aligned(captured, ran, unlike, stream=[7, 9, 7, 7], in_order=False) == [0, 2, 1, 3]
    assert aligned(captured, ran, unlike, stream=[7, 9, 7, 9], in_order=False) == [0, 2, NONE, NONE]


def test_streams_without_numbers_and_names_do_not_fit() -> None:
    captured = of_ops("aten::mm", "aten::mm")
    assert aligned(captured, named(PRODUCT, PRODUCT), stream=[7, 9], in_order=False) is None


def test_grids_may_differ_for_few_nodes_only() -> None:
    def on(grid: int) -> list[NodeToken]:
        return [NodeToken(KERNEL, f"k{at}", b"[%d]" % (grid if at < 3 else 1)) for at in range(20)]

    assert aligned(on(8), on(8)) == list(range(20))
    assert aligned(on(8), on(16)) is None
