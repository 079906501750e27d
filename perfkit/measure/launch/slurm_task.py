"""A task of a job step, which is one rank: `python -m perfkit.measure.launch.slurm_task FOLDER`, started by srun.

The rank is a separate process. This one reports its end on standard output, which srun carries to the launcher: Slurm
itself reports it only in srun's messages and in its accounting, which not every cluster has.
"""

import os
import signal
import sys
from pathlib import Path

from perfkit.core.files import read_json
from perfkit.core.spec import RunSpec
from perfkit.measure.launch.network import build_gloo_variables
from perfkit.measure.launch.process_output import Deadline, read_lines
from perfkit.measure.launch.rank_processes import RankPlace, end_ranks, start_rank
from perfkit.measure.launch.slurm_allocation import find_other_node
from perfkit.store.layout import SPEC_FILE

# First words of its messages: the number of the step; a pass that rank 0 enters; a rank, and its exit code.
STEP, PASS, EXIT = "perfkit-step", "perfkit-pass", "perfkit-exit"

_LONGER_S = 60.0  # than the launcher waits, who ends what takes too long


def main() -> None:
    """Entry point of the task's process."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # the rank, which has it too, ends first
    folder = Path(sys.argv[1])
    launch = read_json(folder / SPEC_FILE, RunSpec).launch
    number = int(os.environ["SLURM_PROCID"])
    if number == 0:
        _print_message(STEP, os.environ["SLURM_STEP_ID"])
    os.environ.pop("MASTER_PORT", None)  # of the user's own script
    environment = {"MASTER_ADDR": os.environ["SLURMD_NODENAME"]}
    if other := find_other_node():
        environment |= build_gloo_variables(other)
    place = RankPlace(environment=environment)
    rank = start_rank("perfkit.measure.rank.worker", launch, folder, number, place=place)
    for _, line in read_lines([rank], Deadline(launch.timeout_s + _LONGER_S)):
        if line is not None:
            _print_message(PASS, line)
    end_ranks([rank])
    _print_message(EXIT, f"{number} {rank.returncode}")
    sys.exit(0 if rank.returncode == 0 else 1)


def _print_message(word: str, text: str) -> None:
    print(word, text, flush=True)


if __name__ == "__main__":
    main()
