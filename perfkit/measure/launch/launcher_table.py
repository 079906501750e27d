"""Launchers that may start the ranks of a run: `--launcher`."""

from perfkit.core.registry import Registry
from perfkit.measure.launch.launcher import Launcher

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

# Their ranks see this process's GPUs. Those of others run on other machines, or in their own tasks.
STARTS_HERE = ("process", "torchrun")
