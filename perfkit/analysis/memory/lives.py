"""The lives of blocks: replayed allocation events."""

from dataclasses import dataclass

from perfkit.allocations import Ints

AT_START = -1


@dataclass(frozen=True)
class Lives:
    """Blocks from birth to death, one row each, in the order of birth; alive after event i if `born <= i < died`.

    Attributes:
        size: bytes.
        born: the event that allocated it, AT_START for one that was alive before the first event.
        died: the event that freed it, the number of events for one that is alive after the last.
        known: index into `Allocations.known`, NONE for one that is not known from there.
    """

    size: Ints
    born: Ints
    died: Ints
    known: Ints

    def __len__(self) -> int:
        return len(self.size)
