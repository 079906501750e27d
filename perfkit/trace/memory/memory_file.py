"""Result of the readers of memory recordings."""

from dataclasses import dataclass

from perfkit.allocations import Allocations
from perfkit.note import Note


@dataclass(frozen=True)
class MemoryFile:
    """A recording of memory in a file: `kind` says in words what the file is, with one `Allocations` per device."""

    kind: str
    allocations: tuple[Allocations, ...]
    notes: tuple[Note, ...] = ()
