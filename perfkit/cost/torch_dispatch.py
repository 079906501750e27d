"""torch's dispatcher as Python sees it, without public names: modes, keys, operators and trees of tensors.

All that runs or rehearses a step takes them from here. torch documents them in its notes on extending torch
(https://docs.pytorch.org/docs/stable/notes/extending.html) and has had each since before 2.9, the oldest release that
perfkit supports; nothing is counted or rehearsed without them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._C import DispatchKey
from torch._C import _current_autograd_node as find_autograd_node
from torch._ops import OpOverload
from torch.library import Library, _scoped_library
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes as disable_modes
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as list_modes
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only

__all__ = [
    "DispatchKey",
    "OpOverload",
    "TorchDispatchMode",  # sees every op that runs inside its context
    "disable_modes",  # a context without any of them
    "find_autograd_node",  # the node whose backward runs in this thread
    "list_modes",  # those that are active, the innermost last
    "no_dispatch",  # a context in which subclasses of tensors are plain ones
    "replace_kernels",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
]


@contextmanager
def replace_kernels(namespace: str) -> Iterator[Library]:
    """Yield a library with which kernels of a namespace's ops can be replaced inside this context.

    torch keeps which kernel a call from Python took, and would go on to take the one that is gone: what is compiled
    later in the process would have no gradients behind such an op.
    """
    names: set[str] = set()
    try:
        with _scoped_library(namespace, "IMPL") as library:
            try:
                yield library
            finally:
                names = {registered.split("/")[1] for registered in library._op_impls}
    finally:  # also where a step is refused halfway
        for name in names:
            packet = getattr(getattr(torch.ops, namespace), name.partition(".")[0])
            for overload in packet.overloads():
                getattr(packet, overload)._dispatch_cache.clear()
