"""torch's fake tensors, which have shapes and no data, of which torch has no public names.

torch has had them since before 2.9, the oldest release that perfkit supports; no step is rehearsed without them. They
take time to import: `perfkit.cost.torch_dispatch` is apart.
"""

from torch._subclasses.fake_impls import op_implementations_dict as fake_kernels
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.fake_tensor import _BypassDispatchCache as BypassDispatchCache

__all__ = [
    "BypassDispatchCache",  # raised where the outputs of an op cannot be cached
    "FakeTensor",
    "FakeTensorMode",  # makes the tensors of its context fake
    "fake_kernels",  # functions by op, for ops whose kernels on the meta device do not suffice
]
