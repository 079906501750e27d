"""Objects found by their types among all that Python holds."""

import torch
from torch import nn

from perfkit.instruments.training.live_objects import find_instances


class Kind(nn.Module):
    pass


class Proxy:
    """Answers for what it stands for, and must not be asked."""

    @property
    def __class__(self) -> type:
        raise AssertionError("a proxy was asked")


def test_objects_of_types_and_what_is_derived_from_them() -> None:
    proxy, module, parameter = Proxy(), Kind(), nn.Parameter(torch.ones(2))
    found = find_instances(nn.Module, torch.Tensor)
    assert any(item is module for item in found)
    assert any(item is parameter for item in found)
    assert not any(item is proxy for item in found)
    assert all(issubclass(type(item), nn.Module | torch.Tensor) for item in found)
