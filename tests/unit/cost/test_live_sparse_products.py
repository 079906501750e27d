"""Products of sparse tensors count 2 FLOPs for each stored element and each line of the dense factor."""

from collections.abc import Callable

import pytest
import torch

from perfkit.cost.live_flops import count_flops


def chain(size: int) -> torch.Tensor:
    """A matrix with `size` - 1 stored elements."""
    return torch.diag(torch.ones(size - 1), 1).to_sparse()


DENSE, VECTOR = torch.randn(30, 7), torch.randn(30)


@pytest.mark.parametrize(
    ("product", "flops"),
    [
        (lambda: chain(30) @ DENSE, 2 * 29 * 7),
        (lambda: chain(30).to_sparse_csr() @ DENSE, 2 * 29 * 7),
        (lambda: torch.sparse.mm(chain(30), DENSE), 2 * 29 * 7),
        (lambda: torch.sparse.addmm(DENSE, chain(30), DENSE), 2 * 29 * 7),
        (lambda: torch.mm(DENSE.t(), chain(30).to_sparse_csr()), 2 * 29 * 7),
        (lambda: chain(30) @ VECTOR, 2 * 29),
        (lambda: torch.bmm(torch.stack([chain(30)] * 3), torch.stack([DENSE] * 3)), 3 * 2 * 29 * 7),
    ],
    ids=["coo", "csr", "sparse.mm", "sparse.addmm", "second", "vector", "batch"],
)
def test_stored_elements_count(product: Callable[[], torch.Tensor], flops: int) -> None:
    assert count_flops(product).matrix == flops


def test_forward_and_backward_of_a_graph_layer() -> None:
    weight = torch.randn(7, 5, requires_grad=True)
    found = count_flops(lambda: torch.sparse.mm(chain(30), DENSE @ weight).sum().backward())
    assert found.matrix == 2 * (2 * 30 * 7 * 5) + 2 * (2 * 29 * 5)  # of the dense product no gradient of its input


def test_two_sparse_factors_are_not_counted() -> None:
    found = count_flops(lambda: torch.sparse.mm(chain(30), chain(30)))
    assert found.matrix == 0
    assert found.uncounted
