"""Models that come with contents lose them, and stay what they are otherwise."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from perfkit.plan.rehearsal.strip_tensor_data import strip_tensor_data


def test_shapes_strides_dtypes_and_what_is_shared_stay() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4))
    model[1].weight = model[0].weight
    model[1].bias.requires_grad_(False)
    model[0].bias.data = torch.zeros(8, dtype=torch.bfloat16)[::2]
    for _ in range(2):  # a second variant finds what the first has left
        mode = FakeTensorMode()
        with mode:
            assert strip_tensor_data(model, mode) is model
        tensors = [*model.parameters(), *model.buffers()]
        assert all(isinstance(tensor, FakeTensor) and tensor.fake_mode is mode for tensor in tensors)
        assert model[1].weight is model[0].weight
        assert not model[1].bias.requires_grad
        assert (model[0].bias.stride(), model[0].bias.dtype) == ((2,), torch.bfloat16)
        assert model[2].num_batches_tracked.dtype == torch.int64
