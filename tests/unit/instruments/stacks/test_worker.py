"""What a loader's worker runs, in this process."""

import pickle
import time
from pathlib import Path

import pytest

from perfkit.files import decode_json
from perfkit.instruments.stacks.worker import MOST_WORKERS, SampledWorker
from perfkit.store.stacks import WORKER, SampledThread


def loop(seconds: float) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))
    return "done"


def test_it_writes_where_it_was(tmp_path: Path) -> None:
    assert SampledWorker(loop, str(tmp_path), 500.0)(0.15) == "done"
    [file] = tmp_path.iterdir()
    found = decode_json(file, file.read_bytes(), SampledThread)
    assert found.thread == WORKER
    outermost = {found.functions[list(found.stack(taken.node))[-1].function].name for taken in found.taken}
    assert "loop" in outermost
    assert outermost <= {"loop", "Thread.start"}  # of its own sampler; nothing of what started the worker


def test_what_fails_in_it_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        SampledWorker(lambda: 1 // 0, str(tmp_path), 100.0)()


def test_nothing_is_sampled_when_nobody_wants_it(tmp_path: Path) -> None:
    assert SampledWorker(loop, str(tmp_path / "gone"), 100.0)(0.0) == "done"
    for number in range(MOST_WORKERS):
        (tmp_path / f"{number}.json").touch()
    assert SampledWorker(loop, str(tmp_path), 100.0)(0.0) == "done"
    assert len(list(tmp_path.iterdir())) == MOST_WORKERS


def test_a_spawned_worker_runs_torchs_own_loop(tmp_path: Path) -> None:
    from torch.utils.data._utils import worker

    made = pickle.loads(pickle.dumps(SampledWorker(lambda: None, str(tmp_path), 100.0)))
    assert made == SampledWorker(worker._worker_loop, str(tmp_path), 100.0)
