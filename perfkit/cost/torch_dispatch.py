"""torch's dispatcher as Python sees it, without public names: modes, keys, operators and trees of tensors.

All that runs or rehearses a step takes them from here. torch documents them in its notes on extending torch
(https://docs.pytorch.org/docs/stable/notes/extending.html) and has had each since before 2.9, the oldest release that
perfkit supports; nothing is counted or rehearsed without them.
"""

from torch._C import DispatchKey
from torch._C import _current_autograd_node as find_autograd_node
from torch._ops import OpOverload
from torch.library import _scoped_library as open_library
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
    "open_library",  # a context in which kernels of ops can be registered
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
]
