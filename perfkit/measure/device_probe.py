"""Probes this machine as a run would find it: a process started like a rank reports a rank's environment (`python -m
perfkit.measure.device_probe DEVICE`).

This process cannot answer itself, since it uses no GPU and has other variables and threads than a rank.
"""

import os
import subprocess
import sys

import msgspec

from perfkit.core.errors import PerfkitError
from perfkit.core.record.environment import Environment
from perfkit.core.spec import LaunchSpec
from perfkit.devices.machine.device_choice import find_device
from perfkit.devices.machine.machine import count_available_cores
from perfkit.measure.launch.launcher_table import STARTS_HERE
from perfkit.measure.launch.rank_processes import build_rank_variables
from perfkit.store.request import BenchRequest


def bind_request_to_machine(request: BenchRequest) -> BenchRequest:
    """Bind the request to this machine. Raises a `UsageError` if its ranks need a GPU here and there is none."""
    visible = find_device(request.device, here=request.launcher in STARTS_HERE).visible
    return msgspec.structs.replace(request, device_count=visible, cores=count_available_cores())


def probe_environment(launch: LaunchSpec) -> Environment:
    """Probe the environment that rank 0 of such a launch would record.

    A `PerfkitError` where that cannot be found out.
    """
    command = [sys.executable, "-m", "perfkit.measure.device_probe", launch.device, str(launch.threads or "")]
    variables = {**os.environ, **build_rank_variables(launch, 0)}
    answer = subprocess.run(command, capture_output=True, env=variables, check=False)
    if answer.returncode != 0:
        complaints = answer.stderr.decode(errors="replace").strip().splitlines()
        raise PerfkitError(
            f"this machine's devices could not be queried: {complaints[-1] if complaints else 'no reason given'}"
        )
    return msgspec.json.decode(answer.stdout.splitlines()[-1], type=Environment)


def main() -> None:
    """Entry point of that process."""
    import torch

    from perfkit.instruments.environment import read_environment

    device, threads = sys.argv[1:]
    if threads:
        torch.set_num_threads(int(threads))
    print(msgspec.json.encode(read_environment(torch.device(device))).decode())


if __name__ == "__main__":
    main()
