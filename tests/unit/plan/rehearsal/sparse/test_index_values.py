"""Values of a batch's integers follow views, sums and joins; those of other tensors stay unknown."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.sparse.index_values import IndexValues, has_sparse_gradients
from perfkit.plan.rehearsal.sparse.sparse_gradients import SparseGradients


def count_rows(real: torch.Tensor, *, is_known: bool = True) -> tuple[int, bool]:
    """Distinct rows of the gradient of a table of 50 rows for these indices and those one above, and if guessed."""
    values = IndexValues()
    sparse = SparseGradients(values, on_gpu=False)
    with FakeTensorMode(), FakeMemory().record_allocations(OpScratchProbe(), sparse=sparse):
        ids = torch.zeros(real.shape, dtype=torch.int64)
        if is_known:
            values.add_batch({"ids": ids}, {"ids": real})
        table = torch.nn.Embedding(50, 2, sparse=True)
        table(torch.cat([ids[:, 0], ids.clone().view(-1) + 1])).sum().backward()
        assert table.weight.grad is not None
        rows = table.weight.grad.coalesce()._nnz()
    return rows, bool(values.list_notes())


def test_values_follow_the_ops_of_a_model() -> None:
    assert count_rows(torch.tensor([[3, 3], [3, 7]])) == (3, False)  # 3 and 3; 4, 4, 4 and 8


def test_unknown_rows_are_all_different() -> None:
    assert count_rows(torch.zeros(2, 3), is_known=False) == (8, True)
    assert count_rows(torch.zeros(50, 3), is_known=False) == (50, True)  # the table has no more


def test_a_tensor_that_an_op_writes_to_is_unknown_from_there_on() -> None:
    values, real = IndexValues(), torch.zeros(4, dtype=torch.int64)
    with (
        FakeTensorMode(),
        FakeMemory().record_allocations(OpScratchProbe(), sparse=SparseGradients(values, on_gpu=False)),
    ):
        ids, table = torch.zeros(4, dtype=torch.int64), torch.nn.Embedding(50, 2, sparse=True)
        values.add_batch({"ids": ids}, {"ids": real})
        ids.copy_(torch.ones(4))
        table(ids).sum().backward()
        assert table.weight.grad is not None
        assert table.weight.grad.coalesce()._nnz() == 4


def test_a_model_with_a_sparse_table_is_found() -> None:
    assert has_sparse_gradients(torch.nn.Sequential(torch.nn.EmbeddingBag(3, 2, sparse=True)))
    assert not has_sparse_gradients(torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.Linear(2, 2)))
