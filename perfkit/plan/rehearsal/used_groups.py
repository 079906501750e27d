"""Finds the process groups in use: each has a communicator with permanent buffers."""

from collections.abc import Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from perfkit.cost.live_collectives import describe_exchange


class UsedGroups(TorchDispatchMode):
    """Records in `ranks` the number of ranks of each group in use, by name, inside this context."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ranks: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        exchange = describe_exchange(func, args, result)
        if exchange is not None:
            self.ranks[exchange.group] = exchange.ranks
        return result
