"""Lets Adam update the shards of distributed tensors directly, which are all that a rank computes.

Its ops are element-wise. Of a list of distributed tensors torch first derives the placements of each result, which
takes longer than the rest of an update on fake tensors.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from torch.distributed.tensor import DTensor, Partial
from torch.optim import adam

_UPDATES = ("_single_tensor_adam", "_multi_tensor_adam", "_fused_adam")
_LISTS = 5  # of parameters, gradients, and their moments: the first arguments; amsgrad's is empty otherwise


@contextmanager
def update_shards() -> Iterator[None]:
    """Make `Adam` and `AdamW` compute on the local shards inside this context."""
    with ExitStack() as stack:
        for name in _UPDATES:
            stack.enter_context(patch.object(adam, name, partial(_update, getattr(adam, name))))
        yield


def _update(update: Callable[..., None], *lists: Any, **options: Any) -> None:
    sharded, others = lists[:_LISTS], lists[_LISTS:]
    if _are_alike(sharded):
        sharded = tuple([tensor._local_tensor for tensor in tensors] for tensors in sharded)
    update(*sharded, *others, **options)


def _are_alike(lists: tuple[list[Any], ...]) -> bool:
    """True if all are distributed tensors over the same ranks, and those of each parameter are cut alike.

    A rank may update none, as with ZeRO-1 more ranks than parameters.
    """
    parameters, *others = lists[0], *(tensors for tensors in lists[1:] if tensors)
    if not parameters or not all(type(tensor) is DTensor for tensors in lists for tensor in tensors):
        return False
    meshes = {tensor.device_mesh for tensors in lists for tensor in tensors}
    return len(meshes) == 1 and all(
        tensor.placements == parameter.placements and not any(isinstance(each, Partial) for each in tensor.placements)
        for tensors in others
        for parameter, tensor in zip(parameters, tensors, strict=True)
    )
