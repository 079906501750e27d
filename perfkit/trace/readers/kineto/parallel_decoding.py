"""Decodes pieces of a trace in this process and helpers, with the same result as in one."""

from collections import deque
from concurrent.futures import Future

from perfkit.trace.readers.event_table.piece_columns import PieceColumns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.event_table.trace_collector import TraceCollector
from perfkit.trace.readers.kineto.event_columns import ColumnBuilder
from perfkit.trace.readers.kineto.helper import DecodingHelper

_AHEAD = 2  # pieces that wait for each helper; more would only take memory
_HERE = 0


class RefusedPieces(Exception):  # noqa: N818 - a signal, not an error: the text has to be cut elsewhere
    """A piece that was not whole events. `pieces` are it and all later ones: none of them is in the collection."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__("cut elsewhere")
        self.pieces = pieces


class PieceDistributor:
    """Adds pieces to a collection in their order, whoever decodes them."""

    def __init__(self, collection: TraceCollector, helpers: int, names: int) -> None:
        self._collection = collection
        self._builder = ColumnBuilder(TraceTables(names))
        self._helpers = [DecodingHelper(names) for _ in range(helpers)]
        self._waiting: deque[tuple[int, bytes, Future[PieceColumns | None]]] = deque()

    def add(self, piece: bytes) -> None:
        """Take a piece that is probably whole events. `RefusedPieces`, without it, if an earlier one was not."""
        self._collect_parts(wait=False)
        origins = [origin for origin, _, _ in self._waiting]
        busy = [origins.count(helper) for helper in range(1, len(self._helpers) + 1)]
        least = min(range(len(busy)), key=busy.__getitem__)
        if busy[least] < _AHEAD:
            self._waiting.append((least + 1, piece, self._helpers[least].submit_piece(piece)))
            return
        done: Future[PieceColumns | None] = Future()
        done.set_result(self._builder.add(piece))
        self._waiting.append((_HERE, piece, done))

    def collect_all(self) -> None:
        """Wait until all pieces are in the collection. `RefusedPieces` if one was not whole events."""
        self._collect_parts(wait=True)

    def close(self) -> None:
        """End the helpers."""
        for helper in self._helpers:
            helper.close()

    def _collect_parts(self, *, wait: bool) -> None:
        while self._waiting and (wait or self._waiting[0][2].done()):
            origin, _, future = self._waiting[0]
            part = future.result()
            if part is None:
                pieces = [piece for _, piece, _ in self._waiting]
                self._waiting.clear()
                raise RefusedPieces(pieces)
            self._waiting.popleft()
            self._collection.add(part, origin)
