"""Whether the thread that asks had to wait for the interpreter's lock when it woke up: somebody held it."""

from perfkit.store.stacks import FREE, HELD, UNTOLD

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


class LockWaits:
    """Counts how often the calling thread gave its core away by itself: once for a sleep, once more where it woke up
    and the lock was taken.

    How long it took to wake up tells nothing: on a busy machine a thread also waits for a core. Only Linux counts that
    for a single thread.
    """

    def __init__(self) -> None:
        self._who = getattr(resource, "RUSAGE_THREAD", None)
        self._before = 0

    def look(self) -> None:
        """A sleep begins."""
        if self._who is not None:
            self._before = resource.getrusage(self._who).ru_nvcsw

    def told(self) -> str:
        """The sleep has ended, and the thread has the lock."""
        if self._who is None:
            return UNTOLD
        changes = resource.getrusage(self._who).ru_nvcsw - self._before
        if not changes:  # it did not sleep: it was late
            return UNTOLD
        return HELD if changes > 1 else FREE
