"""Counts the bytes that ranks exchange in a step, where the program requests it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from perfkit.cost.calls.collective import CollectiveType
from perfkit.cost.live_collectives import describe_exchange, get_group_ranks
from perfkit.cost.torch_dispatch import TorchDispatchMode

# Also counted as zero, so that a claim about them can fail.
_ALWAYS = (
    CollectiveType.ALL_REDUCE,
    CollectiveType.ALL_GATHER,
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.ALL_TO_ALL,
    CollectiveType.SEND,
    CollectiveType.RECEIVE,
)


class ExchangedBytes(TorchDispatchMode):
    """Counts the messages of all collectives requested while it is entered, with bytes counted as by nccl-tests.

    `lines` are this rank's lines of ranks, by the dimension of the mesh they lie along.

    It sees requests of this thread and its backward passes, not those of a gloo thread when a collective ends: torch's
    PowerSGD sends its factors from there.
    """

    supports_higher_order_operators = True

    def __init__(self, lines: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._lines = lines
        self._bytes: Counter[str] = Counter(dict.fromkeys(_ALWAYS, 0))
        self._bytes.update({f"{kind}:{dimension}": 0 for kind in _ALWAYS for dimension in lines})
        self._carried: Counter[CollectiveType] = Counter(dict.fromkeys(_ALWAYS, 0))

    def collect_facts(self, steps: int = 1) -> dict[str, float]:
        """Collect the bytes exchanged in a step, per kind of collective.

        The facts are `collective_bytes:<kind>`, also by dimension (`collective_bytes:<kind>:<dimension>`), and
        `collective_volume:<kind>`.
        """
        asked = {f"collective_bytes:{kind}": size / steps for kind, size in self._bytes.items()}
        return asked | {f"collective_volume:{kind}": size / steps for kind, size in self._carried.items()}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # A distributed tensor first turns into calls on its local part, and into collectives.
        if any(hasattr(kind, "to_local") for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        exchange = describe_exchange(func, args, result)
        if exchange is not None:
            message, size = exchange.message, int(exchange.message.bytes)
            self._bytes[message.kind] += size
            self._carried[message.kind] += round(message.bus_factor * message.bytes)
            ranks = get_group_ranks(exchange.group)
            self._bytes.update({f"{message.kind}:{name}": size for name, line in self._lines.items() if line == ranks})
        return result
