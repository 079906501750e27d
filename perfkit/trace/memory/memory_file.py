"""Result of the readers of memory recordings."""

from dataclasses import dataclass

from perfkit.core.allocations import Allocations
from perfkit.core.note import Note


@dataclass(frozen=True)
class MemoryFile:
    """A memory recording in a file: `kind` describes the file, with one `Allocations` per device.

    `trains` is whether the recorded program computes gradients, None where the file does not tell.
    """

    kind: str
    allocations: tuple[Allocations, ...]
    notes: tuple[Note, ...] = ()
    trains: bool | None = None
