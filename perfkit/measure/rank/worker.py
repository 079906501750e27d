"""One rank of one run: `python -m perfkit.measure.rank.worker RUN_FOLDER`, started by `perfkit.measure.launch`.

Reads `spec.json`, runs the passes, and writes `rank<k>/record.json` after each. Standard output carries
progress, one line a pass, to the parent; what the program itself prints goes to `rank<k>/output.log`.
"""

import gc
import os
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import RunSpec
from perfkit.devices.accelerator import get_accelerator
from perfkit.devices.machine.mig import build_instance_variables
from perfkit.measure.launch.channel import end_with_parent, open_progress_channel
from perfkit.store.layout import OUTPUT_FILE, SPEC_FILE, get_rank_folder

if TYPE_CHECKING:
    from perfkit.measure.rank.run_rank import Pass


def main() -> None:
    """Entry point of the worker process."""
    run_worker(lambda _report: None, first_alone=True)


def run_worker(
    passes: Callable[[Callable[[str], None]], "Mapping[str, Pass] | None"], *, first_alone: bool = False
) -> None:
    """Run this rank and end the process. `passes` are given what reports progress; None: those of the spec.

    `first_alone`: no rank but 0 reports anything, since ranks may have one channel in common.
    """
    end_with_parent()
    folder = Path(sys.argv[1]).resolve()
    rank = int(os.environ.get("RANK", "0"))
    report = open_progress_channel(get_rank_folder(folder, rank) / OUTPUT_FILE)
    spec = read_json(folder / SPEC_FILE, RunSpec)
    if first_alone and rank:
        report = _ignore_progress
    if spec.launch.memory_limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (spec.launch.memory_limit_bytes,) * 2)
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if get_accelerator(spec.launch.device).has_nvml:
        os.environ.update(
            build_instance_variables(local_rank)
        )  # before CUDA reads it; torchrun gives all ranks the same
    report("importing torch")
    # Importing torch makes a million objects that stay: looking through them for garbage is a sixth of the time.
    gc.disable()
    from perfkit.measure.rank.cpp_abort import report_on_cpp_abort
    from perfkit.measure.rank.run_rank import run_rank  # after the limit, so that it holds for torch too
    from perfkit.measure.rank.termination import report_on_termination

    gc.collect()
    gc.enable()
    report_on_termination(get_rank_folder(folder, rank), ranks=spec.launch.world_size)
    if spec.launch.world_size > 1:
        report_on_cpp_abort(get_rank_folder(folder, rank))
    status = run_rank(spec, folder, rank=rank, local_rank=local_rank, report=report, chosen=passes(report))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of a process group whose other ranks are gone would keep a failed process alive.
    os._exit(0 if status in (RunStatus.OK, RunStatus.SKIPPED) else 1)


def _ignore_progress(_report: str) -> None:
    pass


if __name__ == "__main__":
    main()
