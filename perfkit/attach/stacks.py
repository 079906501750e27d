"""The Python stacks of a loop: its own thread while steps are timed, and its loaders' workers until all is recorded."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perfkit.attach.loader_workers import LoaderWorkers
from perfkit.attach.phases import PhaseMarks
from perfkit.files import write_bytes, write_json
from perfkit.instruments.stacks.sampler import Sampler
from perfkit.store.stack_formats import collapsed, speedscope
from perfkit.store.stacks import COLLAPSED_FILE, LOOP, SPEEDSCOPE_FILE, STACKS_FILE, SampledThread, Stacks


class LoopStacks:
    """Samples `hz` times a second; with 0 nothing is done."""

    def __init__(self, hz: float) -> None:
        self._hz = hz
        self._workers: LoaderWorkers | None = None
        self._first: tuple[Path, tuple[SampledThread, ...]] | None = None

    def begin(self) -> None:
        """Workers that are started from now on sample themselves."""
        if self._hz:
            self._workers = LoaderWorkers(self._hz)

    @contextmanager
    def sampled(self, folder: Path, phases: PhaseMarks, warn: Callable[[str], None]) -> Iterator[None]:
        """Sample the calling thread meanwhile, and write it to `folder`."""
        if not self._hz:
            yield
            return
        sampler = Sampler(threading.get_ident(), self._hz, phase=lambda: phases.current)
        sampler.start()
        try:
            yield
        finally:
            sampler.stop()
            if sampler.failure:
                warn(f"the sampling of Python stacks ended early: {sampler.failure}")
            threads = (sampler.sampled(LOOP),)
            self._first = self._first or (folder, threads)
            write_stacks(folder, threads)

    def end(self) -> None:
        """The workers sample no more; what they have is written to the folder that was sampled first."""
        workers, self._workers = self._workers, None
        if workers is None:
            return
        found = workers.end()
        if found and self._first is not None:
            folder, threads = self._first
            write_stacks(folder, (*threads, *found))


def write_stacks(folder: Path, threads: tuple[SampledThread, ...]) -> None:
    """Write `stacks.json`, and the same for those who draw flame graphs."""
    write_json(folder / STACKS_FILE, Stacks(threads=threads))
    write_bytes(folder / COLLAPSED_FILE, collapsed(threads).encode())
    write_bytes(folder / SPEEDSCOPE_FILE, speedscope(threads))
