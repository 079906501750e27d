"""A loader's worker process that samples itself, and writes what it has once a second.

The folder that it writes to is what the watched process and it share: a worker that is forked and one that is spawned
know it alike. It is gone when nobody wants any more, and then the worker ends its sampling.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from perfkit.instruments.stacks.sampler import Sampler
from perfkit.store.stacks import WORKER

# Workers that are made anew for each epoch leave a file each; those after so many are like those before.
MOST_WORKERS = 64


@dataclass(frozen=True)
class SampledWorker:
    """What a worker process runs in place of `run`, which it calls; a spawned process runs torch's own.

    Attributes:
        run: the loop of a worker.
        folder: where it writes `PID.json`.
        hz: how many samples a second.
    """

    run: Callable[..., Any]
    folder: str
    hz: float

    def __reduce__(self) -> tuple[Callable[[str, float], "SampledWorker"], tuple[str, float]]:
        # By name: a function that something stands in place of cannot be pickled itself.
        return _spawned, (self.folder, self.hz)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        sampler = self._begin()
        try:
            return self.run(*args, **kwargs)
        finally:
            if sampler is not None:
                sampler.stop()
                self._write(sampler)

    def _begin(self) -> Sampler | None:
        try:
            if len(list(Path(self.folder).iterdir())) >= MOST_WORKERS:
                return None
        except OSError:
            return None  # nobody wants it
        sampler = Sampler(
            threading.get_ident(), self.hz, outermost=SampledWorker.__call__.__code__, each_second=self._write
        )
        sampler.start()
        return sampler

    def _write(self, sampler: Sampler) -> bool:
        """Whether anybody wants it."""
        path = Path(self.folder, f"{os.getpid()}.json")
        temporary = path.with_suffix(".tmp")
        try:
            temporary.write_bytes(msgspec.json.encode(sampler.sampled(WORKER)))
            temporary.replace(path)
        except OSError:
            return False
        return True


def _spawned(folder: str, hz: float) -> SampledWorker:
    from torch.utils.data._utils.worker import _worker_loop

    return SampledWorker(_worker_loop, folder, hz)
