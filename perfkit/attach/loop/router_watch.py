"""Looks at routers of a loop's models during one step: how evenly they deal tokens to experts, and how many they drop.

A router is known by what it returns, not by its name or class, beside at least one tensor of floating numbers:

- the experts of each token, whole numbers of `[tokens, k]`, of which there are as many as columns in the logits beside
  them or rows in the module's own weight (Mixtral, Qwen-MoE, DeepSeek and others of Transformers 5);
- a row for each token with a one at its expert, `[..., experts]`, without one where the expert had no room (Switch).

Its calls are wrapped as those of models are: compiled code knows nothing of it, and routers inside are not seen.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from perfkit.core.record.rank_record import ExpertLoad
from perfkit.instruments.autograd_state import is_in_backward
from perfkit.instruments.compile_exclusion import call_uncompiled, exclude_from_compile, is_compiling
from perfkit.techniques.base.call_wrappers import Call, wrap_calls

_STOCK = "torch."


class SeenRouting(NamedTuple):
    """A router's call: the tokens that were to go to each expert, those that did, and those without one."""

    routed: torch.Tensor
    accepted: torch.Tensor
    tokens: int
    dropped: torch.Tensor


class RouterWatch:
    """The routers that training forward passes call between `begin` and `end`; of several calls each one's first."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenRouting] = {}
        self._undo: list[Callable[[], None]] = []

    def begin(self, roots: Iterable[nn.Module], guard: Callable[..., None]) -> None:
        """Watch the modules in `roots` that are not torch's own; `guard` calls what looks at their output."""
        for root in roots:
            for name, module in root.named_modules():
                if name and not type(module).__module__.startswith(_STOCK):
                    self._undo.append(wrap_calls(module, self._make_wrapper(name, module, guard)))

    def end(self) -> tuple[ExpertLoad, ...]:
        """Stop watching; the loads of the routers seen, in the order of their calls. Waits for the device, if any."""
        while self._undo:
            self._undo.pop()()
        seen, self._seen = self._seen, {}
        return tuple(_build_load(name, each) for name, each in seen.items())

    def _make_wrapper(self, name: str, module: nn.Module, guard: Callable[..., None]) -> Callable[[Call], Call]:
        def wrap(original: Call) -> Call:
            @exclude_from_compile
            def watched(*args: Any, **kwargs: Any) -> Any:
                output = original(*args, **kwargs)
                if name not in self._seen and isinstance(output, tuple | list) and not is_compiling():
                    call_uncompiled(guard, self._look, name, module, output)
                return output

            return watched

        return wrap

    def _look(self, name: str, module: nn.Module, output: Iterable[Any]) -> None:
        if not module.training or is_in_backward() or not torch.is_grad_enabled():
            return
        with torch.no_grad():
            found = read_routing(output, _list_rows(module))
        if found is not None:
            self._seen[name] = found


def read_routing(output: Iterable[Any], rows: Iterable[int] = ()) -> SeenRouting | None:
    """The tokens of each expert by what a router returned; None where `output` is no router's.

    Args:
        output: what the module returned.
        rows: the first dimensions of the module's own two-dimensional weights: one may be that of its experts.
    """
    tensors = [each for each in output if isinstance(each, torch.Tensor) and each.dim() in (2, 3)]
    whole = [each for each in tensors if each.dtype in (torch.int64, torch.int32)]
    if len(whole) != 1 or not whole[0].numel():
        return None
    chosen = whole[0]
    columns = chosen.shape[-1]
    tokens = chosen.numel() // columns
    floats = [each for each in tensors if each.is_floating_point() and each.numel() == tokens * each.shape[-1]]
    alike = [each for each in floats if each.shape == chosen.shape]
    experts = max((count for count in (*(each.shape[-1] for each in floats), *rows) if count > columns), default=0)
    if not alike:
        return None
    if experts:
        if int(chosen.min()) < 0 or int(chosen.max()) >= experts:
            return None
        routed = torch.bincount(chosen.flatten(), minlength=experts)
        return SeenRouting(routed, routed, tokens, routed.new_zeros(()))
    rows_of_tokens = chosen.reshape(tokens, columns)
    if columns < 2 or not bool(((chosen == 0) | (chosen == 1)).all()) or int(rows_of_tokens.sum(-1).max()) > 1:
        return None
    wanted = torch.bincount(alike[-1].reshape(tokens, columns).argmax(-1), minlength=columns)
    return SeenRouting(wanted, rows_of_tokens.sum(0), tokens, (rows_of_tokens.sum(-1) == 0).sum())


def _list_rows(module: nn.Module) -> Iterator[int]:
    return (parameter.shape[0] for parameter in module.parameters() if parameter.dim() == 2)


def _build_load(name: str, seen: SeenRouting) -> ExpertLoad:
    return ExpertLoad(
        layer=name.rpartition(".")[0] or name,
        tokens=seen.tokens,
        routed_tokens=tuple(seen.routed.tolist()),
        accepted_tokens=tuple(seen.accepted.tolist()),
        dropped_tokens=int(seen.dropped),
    )
