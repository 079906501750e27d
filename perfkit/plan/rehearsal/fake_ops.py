"""Fake kernels of ops that torch's own do not support on a CPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch._meta_registrations import mkldnn_rnn_layer
from torch._subclasses.fake_impls import op_implementations_dict as known
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from perfkit.plan.rehearsal.op_scratch_probe import OpScratchProbe


def _infer_grouped_mm(
    mode: FakeTensorMode, _func: Any, a: FakeTensor, b: FakeTensor, offsets: Any = None, **_: Any
) -> Any:
    """Products of the groups of experts; the fake kernel takes bf16 alone, where a CPU takes fp32 too.

    (rows, k) x (groups, k, n) is (rows, n), and so the other way round; two batches make a batch; of two matrices that
    are cut along k each group's product is one of its own.
    """
    rows, columns = a.shape[-2], b.shape[-1]
    if a.dim() == b.dim():
        shape: tuple[int, ...] = (a.shape[0] if a.dim() == 3 else offsets.shape[0], rows, columns)
    else:
        shape = (rows, columns)
    with mode:
        return torch.empty(shape, dtype=a.dtype, device=a.device)


def _infer_recurrent_layer(alone: OpScratchProbe, mode: FakeTensorMode, func: Any, *args: Any, **kwargs: Any) -> Any:
    """oneDNN's layer of an LSTM: output, hidden and cell state, and what it keeps for backward.

    The last one's size is the library's affair: the fake kernel leaves it empty, as this does for a layer that is too
    large to be tried.
    """
    with mode:
        *states, _ = mkldnn_rnn_layer(*args, **kwargs)
    tried = alone.try_op(func, args, kwargs, states)
    with mode:
        return *states, torch.empty(0 if tried is None else tried.results[-1], dtype=torch.uint8)


@contextmanager
def register_fake_ops(alone: OpScratchProbe) -> Iterator[None]:
    """Register the fake kernels of this file inside this context."""
    more = {
        torch.ops.aten._grouped_mm.default: _infer_grouped_mm,
        torch.ops.aten.mkldnn_rnn_layer.default: partial(_infer_recurrent_layer, alone),
    }
    with patch.dict(known, more):
        yield
