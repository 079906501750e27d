"""The worker processes of the program's DataLoaders, each of which samples its own stack."""

import shutil
import tempfile
from pathlib import Path

from torch.utils.data._utils import worker

from perfkit.files import decode_json
from perfkit.instruments.stacks.worker import SampledWorker
from perfkit.store.stacks import SampledThread


class LoaderWorkers:
    """Has workers that are started from now on sample themselves, until `end`."""

    def __init__(self, hz: float) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="perfkit-stacks-"))
        self._original = worker._worker_loop
        self._sampled = SampledWorker(self._original, str(self._folder), hz)
        worker._worker_loop = self._sampled

    def end(self) -> tuple[SampledThread, ...]:
        """What the workers have written; they sample no more."""
        if worker._worker_loop is self._sampled:
            worker._worker_loop = self._original
        try:
            files = sorted(self._folder.glob("*.json"))
            return tuple(decode_json(path, path.read_bytes(), SampledThread) for path in files)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
