"""Describes the collectives of a running program by the arguments of c10d's ops."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch._C._distributed_c10d import _resolve_process_group
from torch.distributed import ProcessGroup
from torch.distributed.distributed_c10d import get_process_group_ranks

from perfkit.cost.calls.collective import CollectiveType, Message, classify_collective, make_message_of_size
from perfkit.cost.formulas.free_ops import COLLECTIVES
from perfkit.cost.torch_dispatch import tree_leaves

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import GroupName  # since torch 2.10: a string


class CollectiveExchange(NamedTuple):
    """The message between the ranks of the `group` of this name.

    `functional` are collectives whose result is awaited as soon as it is asked for.
    """

    message: Message
    ranks: int
    functional: bool
    group: str


_NAMESPACES = frozenset(name.removesuffix("::") for name in COLLECTIVES if name.endswith("::"))


def describe_exchange(func: Any, args: Sequence[Any], result: Any) -> CollectiveExchange | None:
    """The message of an op call with output `result`; None for other ops, and for waits."""
    if func.namespace not in _NAMESPACES:
        return None
    name: str = func._schema.name
    kind = classify_collective(name.partition("::")[2])
    if kind is None:
        return None
    group = _get_group(func._schema, args)
    ranks = group.size()
    sides = (*args, *result) if isinstance(result, tuple) else (*args, result)
    nbytes = 0 if kind is CollectiveType.BARRIER else max(map(count_tensor_bytes, sides))
    return CollectiveExchange(
        make_message_of_size(kind, nbytes, ranks), ranks, name.startswith("_c10d_functional"), group.group_name
    )


def get_group_ranks(group: str) -> tuple[int, ...]:
    """The ranks of a process group, in its order."""
    return tuple(get_process_group_ranks(_resolve_process_group(cast("GroupName", group))))


def count_tensor_bytes(tree: Any) -> int:
    """Bytes of all tensors in a value of nested containers; of a sparse one, those of its indices and values."""
    return sum(_count_bytes(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _count_bytes(tensor: torch.Tensor) -> int:
    if tensor.layout is torch.sparse_coo:
        return tensor._indices().nbytes + tensor._values().nbytes
    return tensor.nbytes


def _get_group(schema: Any, args: Sequence[Any]) -> ProcessGroup:
    """The group of a collective: an argument of c10d's ops, a name for functional ones."""
    at = next(
        index for index, argument in enumerate(schema.arguments) if argument.name in ("process_group", "group_name")
    )
    group = args[at]
    if isinstance(group, torch.ScriptObject):
        group = ProcessGroup.unbox(group)
    elif isinstance(group, str):
        group = _resolve_process_group(cast("GroupName", group))
    assert isinstance(group, ProcessGroup)
    return group
