"""A model takes the dtype that is asked for, except for its complex tensors."""

import pytest
import torch
from torch import nn

from perfkit.workloads.workload import cast_model


class Filter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(3, 2, dtype=torch.complex64))
        self.linear = nn.Linear(2, 2)
        self.tied = self.linear.weight
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_complex_and_integer_tensors_keep_their_dtype(dtype: torch.dtype) -> None:
    model = Filter()
    before = model.filter.detach().clone()
    assert cast_model(model, dtype) is model
    assert torch.equal(model.filter, before)
    assert model.linear.weight.dtype == dtype
    assert model.tied is model.linear.weight
    assert model.get_buffer("count").dtype == torch.int64
