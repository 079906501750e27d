"""Counts the attention calls of a step and the parameters that it updates, in all and by fused ops."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim import Optimizer

from perfkit.cost.torch_dispatch import TorchDispatchMode
from perfkit.instruments.training.tensors import has_storage
from perfkit.techniques.activations.paged_optimizer import get_local_optimizer
from perfkit.techniques.activations.paged_tensors import get_local_part

_FUSED_ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_flash_attention_forward",
    "_efficient_attention_forward",
    "flex_attention",  # run uncompiled here, whatever compiles it in a step
)
_BATCHED_PRODUCTS = ("bmm", "baddbmm")
_PRODUCTS = (*_BATCHED_PRODUCTS, "mm", "addmm")
_SOFTMAX = ("_softmax", "_safe_softmax")
_SCORES = -1  # stands for a batched product; other marks are the numbers of softmax calls
_UPDATES = {"_fused_": "fused", "_foreach_": "foreach"}


class FusedCalls(TorchDispatchMode):
    """Counts, while it is entered, attention calls and the parameters that `optimizers` update by fused ops.

    Explicit attention is a softmax of a batched product whose result another batched product takes. Element-wise ops
    may lie between. Torch's math backend is that, too.
    """

    supports_higher_order_operators = True

    def __init__(self, optimizers: Iterable[Optimizer]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        groups = (group for optimizer in optimizers for group in get_local_optimizer(optimizer).param_groups)
        self._parameters = [parameter for group in groups for parameter in group["params"]]
        self._sizes: dict[int, int] = {}  # of parameters, by address
        self._versions: list[tuple[int, int]] = []
        # In-place ops on lists leave versions as they are; others change them.
        self._updated: set[int] = set()
        self._written: dict[str, set[int]] = {how: set() for how in _UPDATES.values()}
        self._fused_attention = 0
        self._explicit_attention: set[int] = set()
        self._softmaxes = 0
        self._marks: dict[int, tuple[StorageWeakRef, int]] = {}

    def __enter__(self) -> Any:
        local = [get_local_part(parameter) for parameter in self._parameters]
        self._sizes = {part.data_ptr(): part.nbytes for part in local if has_storage(part) and part.nbytes}
        self._versions = self._read_versions()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        after = self._read_versions()
        changed = zip(self._parameters, self._versions, after, strict=True)
        self._updated |= {get_local_part(parameter).data_ptr() for parameter, old, new in changed if old != new}
        self._updated &= self._sizes.keys()

    def collect_facts(self) -> dict[str, float]:
        """Collect `all_attention_calls`, `fused_attention_calls`, and `updated_parameter_bytes` in all and by op."""
        updated = {"": self._updated.union(*self._written.values())}
        updated |= {f":{how}": addresses for how, addresses in self._written.items()}
        return {
            "all_attention_calls": float(self._fused_attention + len(self._explicit_attention)),
            "fused_attention_calls": float(self._fused_attention),
            **{
                f"updated_parameter_bytes{how}": float(sum(map(self._sizes.__getitem__, addresses)))
                for how, addresses in updated.items()
            },
        }

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # A distributed tensor first turns into calls on its local part.
        if any(hasattr(kind, "to_local") for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        self._count(getattr(func, "overloadpacket", func).__name__, args, result)  # higher-order ops have no overloads
        return result

    def _count(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        if name in _FUSED_ATTENTION:
            self._fused_attention += 1
        for prefix, how in _UPDATES.items():
            if name.startswith(prefix) and name.endswith("_") and args and isinstance(args[0], list | tuple):
                written = {part.data_ptr() for part in args[0] if isinstance(part, torch.Tensor)}
                self._written[how] |= written & self._sizes.keys()
        marks = [mark for arg in args if isinstance(arg, torch.Tensor) if (mark := self._find_mark(arg)) is not None]
        if name in _BATCHED_PRODUCTS:
            self._explicit_attention.update(mark for mark in marks if mark != _SCORES)
            self._set_mark(result, _SCORES)
        elif name in _SOFTMAX and _SCORES in marks:
            self._softmaxes += 1
            self._set_mark(result, self._softmaxes)
        elif marks and name not in _PRODUCTS:
            for part in result if isinstance(result, list | tuple) else (result,):
                if isinstance(part, torch.Tensor) and part.numel() == args[0].numel():
                    self._set_mark(part, max(marks))

    def _find_mark(self, tensor: torch.Tensor) -> int | None:
        if not has_storage(tensor):
            return None
        known = self._marks.get(tensor.untyped_storage()._cdata)
        return None if known is None or known[0].expired() else known[1]

    def _set_mark(self, tensor: torch.Tensor, mark: int) -> None:
        if has_storage(tensor):
            storage = tensor.untyped_storage()
            self._marks[storage._cdata] = (StorageWeakRef(storage), mark)

    def _read_versions(self) -> list[tuple[int, int]]:
        return [(parameter._version, get_local_part(parameter)._version) for parameter in self._parameters]
