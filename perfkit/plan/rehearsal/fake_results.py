"""Caches the results of ops on fake tensors: a second call with equal arguments makes them without torch's modes.

torch has such a cache (`FakeTensorMode._cached_dispatch_impl`) below all dispatch modes, whose keys take longer than
most fake kernels. It decides here, too, which calls can be cached and what they return.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch._subclasses._fake_tensor_utils import _CacheKeyState
from torch._subclasses.fake_tensor import (
    TensorMetadata,
    _DispatchCacheEntryOutputInfo,
    _DispatchCacheValidEntry,
    extract_tensor_metadata,
)

from perfkit.cost.torch_dispatch import OpOverload, disable_modes
from perfkit.cost.torch_fakes import BypassDispatchCache, FakeTensor, FakeTensorMode
from perfkit.instruments.training.tensors import get_address, has_storage

_SCALARS = frozenset(
    {int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
)

_UNSAFE_VIEW = torch.ops.aten._unsafe_view.default  # after every product of a linear layer; torch's cache leaves it out

# Shared by all rehearsals of a process: plans of one workload have the same shapes. None: not cached by torch.
_KNOWN: dict[Hashable, _DispatchCacheValidEntry | None] = {}


class FakeArgument(NamedTuple):
    """A fake tensor that an op takes or returns, and the address and bytes of its storage."""

    tensor: FakeTensor
    address: int
    nbytes: int
    shape: torch.Size
    dtype: torch.dtype


class FakeCall:
    """A call of an op on fake tensors, and those that it is `given`, in order."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.given: list[FakeArgument] = []
        self._key: list[Any] = [func, torch.get_default_dtype(), torch.is_inference_mode_enabled()]
        self._mode: FakeTensorMode | None = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
        self._is_known = isinstance(func, OpOverload)
        self._describe(args)
        for name, value in kwargs.items():
            self._key.append(name)
            self._describe((value,))

    def run(self) -> Any:
        """The op's results, from the cache if it has them."""
        mode = self._mode
        if not self._is_known or mode is None or mode.shape_env is not None:
            return self.func(*self.args, **self.kwargs)
        key = tuple(self._key)
        if key not in _KNOWN:
            return self._learn(mode, key)
        entry = _KNOWN[key]
        return self.func(*self.args, **self.kwargs) if entry is None else _make_results(mode, entry, self.args)

    def _learn(self, mode: FakeTensorMode, key: Hashable) -> Any:
        """The op's results, which the cache has from here on if torch's has them."""
        own_key = _get_key_of_torch(mode, self.func, self.args, self.kwargs)  # before the op changes its arguments
        result = self.func(*self.args, **self.kwargs)
        if self.func is _UNSAFE_VIEW and own_key is not None:
            entry: Any = _describe_view(result)
        else:
            entry = None if own_key is None else FakeTensorMode.cache.get(own_key)
        _KNOWN[key] = entry if isinstance(entry, _DispatchCacheValidEntry) and _is_plain(entry) else None
        return result

    def _describe(self, values: Sequence[Any]) -> None:
        key = self._key
        key.append(len(values))
        for value in values:
            kind = type(value)
            if kind in _SCALARS:
                key.append(kind)
                key.append(value)
            elif isinstance(value, FakeTensor):
                self._describe_tensor(value)
            elif isinstance(value, list | tuple):
                self._describe(value)
            else:
                self._is_known = False

    def _describe_tensor(self, tensor: FakeTensor) -> None:
        if not has_storage(tensor):
            self._is_known = False
            return
        argument = describe_tensor(tensor)
        self.given.append(argument)
        if tensor.constant is not None or tensor.fake_mode is not self._mode:
            self._is_known = False
        self._key += (
            argument.dtype,
            argument.shape,
            tensor.stride(),
            tensor.storage_offset(),
            argument.nbytes,
            tensor.requires_grad,
            tensor.fake_device,
            torch._C._dispatch_keys(tensor).raw_repr(),  # a conjugate, negative, quantized or inference tensor
        )


def list_results(result: Any) -> list[FakeArgument]:
    """The fake tensors in memory in an op's result, in order."""
    if isinstance(result, FakeTensor):
        return [describe_tensor(result)] if has_storage(result) and result.device.type != "meta" else []
    if isinstance(result, list | tuple):
        return [argument for each in result for argument in list_results(each)]
    return []


def describe_tensor(tensor: FakeTensor) -> FakeArgument:
    """A fake tensor that has a storage."""
    storage = tensor.untyped_storage()
    return FakeArgument(tensor, get_address(storage), storage.nbytes(), tensor.shape, tensor.dtype)


def _get_key_of_torch(mode: FakeTensorMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The key of a call in torch's cache before it is called; None if it has none."""
    try:
        return mode._cache_key(_CacheKeyState(None), func, args, kwargs)
    except BypassDispatchCache:
        return None


def _describe_view(result: FakeTensor) -> _DispatchCacheValidEntry:
    """The entry of an op whose result is a view of its first argument."""
    info = _DispatchCacheEntryOutputInfo(inplace_idx=None, metadata=extract_tensor_metadata(result), view_idx=0)
    return _DispatchCacheValidEntry((info,))


def _is_plain(entry: _DispatchCacheValidEntry) -> bool:
    return all(info.metadata is None or _is_plain_tensor(info.metadata) for info in entry.output_infos)


def _is_plain_tensor(metadata: TensorMetadata) -> bool:
    return metadata.layout is torch.strided and not (
        metadata.requires_grad or metadata.is_conj or metadata.is_neg or metadata.is_quantized
    )


def _make_results(mode: FakeTensorMode, entry: _DispatchCacheValidEntry, args: Sequence[Any]) -> Any:
    if not entry.is_output_tuple:
        return _make_result(mode, entry.output_infos[0], args)
    return tuple([_make_result(mode, info, args) for info in entry.output_infos])


def _make_result(mode: FakeTensorMode, info: _DispatchCacheEntryOutputInfo, args: Sequence[Any]) -> Any:
    """As `FakeTensorMode._get_output_tensor_from_cache_entry` does."""
    if info.inplace_idx is not None:
        return args[info.inplace_idx]
    made: Any = info.metadata
    if made is None:
        return info.constant_value
    storage = None if info.view_idx is None else args[info.view_idx].untyped_storage()
    with torch._C._DisableTorchDispatch():
        if storage is None:
            empty = torch.empty_strided(made.shape, made.stride, dtype=made.dtype, device="meta")
        else:
            empty = torch.empty((0,), dtype=made.dtype, device="meta")
            empty.set_(storage, made.storage_offset, made.shape, made.stride)
        fake = torch.Tensor._make_subclass(
            FakeTensor, empty, False, dispatch_device=True, device_for_backend_keys=made.device
        )
    if mode._allow_unsafe_data_ptr_access:
        torch._C._set_warn_deprecated_on_mutable_data_ptr(fake)
    else:
        torch._C._set_throw_on_mutable_data_ptr(fake)
    vars(fake).update(_list_attributes(made.device))
    fake.fake_mode = mode
    return fake


@lru_cache(maxsize=8)
def _list_attributes(device: torch.device) -> dict[str, Any]:
    """The attributes of a new fake tensor on a device, without its mode: `FakeTensor.__new__` sets them one by one."""
    with disable_modes():
        attributes = vars(FakeTensor(FakeTensorMode(), torch.empty(0, device="meta"), device))
    del attributes["fake_mode"]
    return attributes
