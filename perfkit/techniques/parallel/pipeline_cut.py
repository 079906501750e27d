"""A model cut at its blocks: each stage of a pipeline calls it as a whole, and computes a part.

A stage enters the model's own forward pass with what it is given in the place of what the block before its first one
returns, and leaves it where the block after its last one is called. So models need not be written for it: what they do
before their first block they do again, on zeros of the right shape, and what they do behind their last one only the
last stage comes to.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.cost.torch_dispatch import TorchDispatchMode, tree_leaves, tree_map
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.call_wrappers import Call, wrap_calls

Forward = Callable[[], torch.Tensor]


class BlockRange(NamedTuple):
    """The blocks of a stage: from `first` to before `end`."""

    first: int
    end: int


def split_blocks(blocks: int, stages: int) -> tuple[BlockRange, ...]:
    """Split the blocks evenly; the first stages get the remaining ones, since the last also has the loss."""
    share, over = divmod(blocks, stages)
    ends = [stage * share + min(stage, over) for stage in range(1, stages + 1)]
    return tuple(BlockRange(first, end) for first, end in zip((0, *ends), ends, strict=False))


@dataclass
class ObservedForward:
    """Record of one forward pass of the whole model.

    Attributes:
        blocks: their names, in the order in which they are called.
        given: to each of them its first argument, of which only the layout counts.
        returned: what each of them returned, with tensors of which only the layout counts.
        before: modules with parameters that are called before the first block, and what they returned.
        called: of modules the blocks from whose call on, until the next one's, they are called, as of parameters below.
        used: by the address of a storage the places of the blocks from whose call on, until the next one's, an op took
            it; what comes before the first block counts as that block's.
    """

    blocks: tuple[str, ...]
    given: list[torch.Tensor] = field(default_factory=list)
    returned: list[Any] = field(default_factory=list)
    before: dict[nn.Module, Any] = field(default_factory=dict)
    called: dict[nn.Module, set[int]] = field(default_factory=dict)
    used: dict[int, set[int]] = field(default_factory=dict)

    @property
    def at(self) -> int:
        """The block that was called last; before the first one that."""
        return max(0, len(self.given) - 1)

    def places(self, tensor: torch.Tensor) -> set[int]:
        """The blocks that a parameter or buffer is used from; of one that is used by nothing the first."""
        return self.used.get(_get_address(tensor)) or {0}


def observe_forward(model: nn.Module, names: Sequence[str], forward: Forward) -> ObservedForward:
    """Observe one forward pass of a model.

    Raises `UnavailableError` where its blocks are not called once each and one after the other, or exchange more than
    one tensor.
    """
    seen = ObservedForward(tuple(names))
    places = {model.get_submodule(name): place for place, name in enumerate(names)}

    def began(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if module in places:
            if places[module] != len(seen.given):
                raise UnavailableError(f"the blocks {', '.join(names)} are not called once each in this order")
            seen.given.append(_strip_contents(_get_activation(names[places[module]], args, kwargs)))
        seen.called.setdefault(module, set()).add(seen.at)

    def ended(module: nn.Module, _args: tuple[Any, ...], returned: Any) -> None:
        if module in places:
            tensors = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
            if len(tensors) != 1:
                raise UnavailableError(f"{names[places[module]]} returns {len(tensors)} tensors; a stage can send one")
            seen.returned.append(tree_map(_strip_contents, returned))
        elif not seen.given and any(True for _ in module.parameters()):
            for inner in module.modules():
                seen.before.pop(inner, None)
            seen.before[module] = tree_map(_strip_contents, returned)

    with ExitStack() as stack:
        for module in model.modules():
            stack.callback(module.register_forward_pre_hook(began, with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(ended).remove)
        stack.enter_context(_UsageRecorder(model, seen))
        forward()
    if len(seen.returned) != len(names):
        raise UnavailableError(f"a forward pass calls only {len(seen.returned)} of the blocks {', '.join(names)}")
    return seen


class _UsageRecorder(TorchDispatchMode):
    """Notes from which block on a parameter or buffer is used."""

    supports_higher_order_operators = True

    def __init__(self, model: nn.Module, seen: ObservedForward) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._own = {_get_address(tensor) for tensor in (*model.parameters(), *model.buffers())}
        self._seen = seen

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(hasattr(kind, "to_local") for kind in types):  # a distributed tensor turns into its local part first
            return NotImplemented
        for leaf in tree_leaves((args, kwargs or {})):
            if isinstance(leaf, torch.Tensor) and (address := _get_address(leaf)) in self._own:
                self._seen.used.setdefault(address, set()).add(self._seen.at)
        return func(*args, **(kwargs or {}))


class CutModel:
    """A model of which `run` computes one stage at a time. Calls outside of `run` are the whole model's."""

    def __init__(
        self, model: nn.Module, seen: ObservedForward, parts: Sequence[BlockRange], device: torch.device
    ) -> None:
        self._model = model
        self._device = device
        self._seen = seen
        self._parts = parts
        self._running: BlockRange | None = None
        self._received: torch.Tensor | None = None

    def install_hooks(self, own: Iterable[int]) -> Callable[[], None]:
        """Have calls of blocks follow `run`, of a rank with these stages; returns what takes it away again.

        The blocks of a rank with one stage are always called, and left as they are.
        """
        own = tuple(own)
        kept = range(*self._parts[own[0]]) if len(own) == 1 else range(0)
        hooks = ExitStack()
        for place, name in enumerate(self._seen.blocks):
            if place not in kept:
                block = self._model.get_submodule(name)
                hooks.callback(wrap_calls(block, lambda call, place=place: self._wrap_block(place, call)))  # type: ignore[misc]
        if any(stage > 0 for stage in own):
            for module, returned in self._seen.before.items():
                hooks.callback(wrap_calls(module, lambda call, returned=returned: self._wrap_prefix(returned, call)))  # type: ignore[misc]
        return hooks.close

    def run(self, stage: int, received: torch.Tensor | None, forward: Forward) -> torch.Tensor:
        """Run a stage and return the tensor to send; the last stage returns the result of `forward`, which calls the
        model."""
        self._running, self._received = self._parts[stage], received
        try:
            return forward()
        except _StageExit as stage_exit:
            return stage_exit.activation
        finally:
            self._running = self._received = None

    def _wrap_block(self, place: int, call: Call) -> Call:
        def called(*args: Any, **kwargs: Any) -> Any:
            running = self._running
            if running is None or running.first <= place < running.end:
                return call(*args, **kwargs)
            if place >= running.end:
                raise _StageExit(_get_activation(self._seen.blocks[place], args, kwargs))
            received = self._received
            return tree_map(
                lambda leaf: received if isinstance(leaf, torch.Tensor) else leaf, self._seen.returned[place]
            )

        return called

    def _wrap_prefix(self, returned: Any, call: Call) -> Call:
        def called(*args: Any, **kwargs: Any) -> Any:
            if self._running is None or self._running.first == 0:
                return call(*args, **kwargs)
            return tree_map(lambda leaf: _make_zeros(leaf, self._device), returned)

        return called


class _StageExit(BaseException):
    """A stage leaves the model's forward pass with what the next one is to be given.

    No `Exception`, since models may handle those.
    """

    def __init__(self, activation: torch.Tensor) -> None:
        super().__init__("a stage has left the forward pass")
        self.activation = activation


def keep_only(model: nn.Module, keeps: Callable[[torch.Tensor], bool]) -> None:
    """Free the parameters and buffers that are not kept.

    In their places are tensors of their shapes that hold one zero, which no module takes for its own, so that code that
    asks for a shape, dtype or device goes on.
    """
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in [*tensors.items()]:
                if tensor is not None and not keeps(tensor):
                    del tensors[name]
                    module.__dict__[name] = _make_zeros(_strip_contents(tensor), tensor.device)


@contextmanager
def disable_randomness(model: nn.Module) -> Iterator[None]:
    """The model as for evaluation meanwhile."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _get_activation(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    first = args[0] if args else next(iter(kwargs.values()), None)
    if not isinstance(first, torch.Tensor) or not first.is_floating_point():
        raise UnavailableError(f"{name} is called without an activation tensor as its first argument")
    return first


def _strip_contents(leaf: Any) -> Any:
    """A tensor without its contents; anything else as it is."""
    return torch.empty_like(get_local_part(leaf), device="meta") if isinstance(leaf, torch.Tensor) else leaf


def _make_zeros(leaf: Any, device: torch.device) -> Any:
    """A tensor of this layout that is one zero in memory; anything else as it is."""
    return (
        torch.zeros((), dtype=leaf.dtype, device=device).expand(leaf.shape) if isinstance(leaf, torch.Tensor) else leaf
    )


def _get_address(tensor: torch.Tensor) -> int:
    return int(get_local_part(tensor).untyped_storage()._cdata)
