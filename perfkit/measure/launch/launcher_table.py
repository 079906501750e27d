"""Launchers that may start the ranks of a run: `--launcher`."""

from perfkit.measure.launch.launcher import Launcher
from perfkit.registry import Registry

LAUNCHERS: Registry[Launcher] = Registry(
    "launcher",
    "perfkit.launchers",
    {
        "process": "perfkit.measure.launch.process_launcher:PROCESS",
        "torchrun": "perfkit.measure.launch.torchrun_launcher:TORCHRUN",
        "slurm": "perfkit.measure.launch.slurm_launcher:SLURM",
        "ray": "perfkit.measure.launch.ray_launcher:RAY",
    },
)

# Their ranks see the GPUs that this process sees. Those of others run on other machines, or in tasks of their own.
STARTS_HERE = ("process", "torchrun")
