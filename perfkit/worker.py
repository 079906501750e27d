"""One rank of one run: `python -m perfkit.worker RUN_FOLDER`, started by `perfkit.launch`.

Reads `spec.json`, runs the passes, and writes `rank<k>/record.json` after each. Standard output carries
progress, one line a pass, to the parent; what the program itself prints goes to `rank<k>/output.log`.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from perfkit.files import read_json
from perfkit.record import Status
from perfkit.spec import RunSpec
from perfkit.store.layout import OUTPUT_FILE, SPEC_FILE, rank_folder


def main() -> None:
    """Entry point of the worker process."""
    _end_with_parent()
    folder = Path(sys.argv[1]).resolve()
    rank = int(os.environ.get("RANK", "0"))
    report = _progress_channel(rank_folder(folder, rank) / OUTPUT_FILE)
    spec = read_json(folder / SPEC_FILE, RunSpec)
    if spec.launch.memory_limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (spec.launch.memory_limit_bytes,) * 2)
    report("importing torch")
    from perfkit.capture.rank import run_rank  # after the limit, so that it holds for torch too

    status = run_rank(spec, folder, rank=rank, local_rank=int(os.environ.get("LOCAL_RANK", "0")), report=report)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of a process group whose other ranks are gone would keep a failed process alive.
    os._exit(0 if status in (Status.OK, Status.SKIPPED) else 1)


def _end_with_parent() -> None:
    """Have the system end this process when the parent dies, which could otherwise not tell it to (Linux)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG, prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _progress_channel(log: Path) -> Callable[[str], None]:
    """Keep standard output for progress and send everything that is printed from now on to the log."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    return lambda text: print(text, file=channel)


if __name__ == "__main__":
    main()
