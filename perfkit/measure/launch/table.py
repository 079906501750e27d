"""What may start the ranks of a run: `--launcher`."""

from perfkit.measure.launch.launcher import Launcher
from perfkit.registry import Registry

LAUNCHERS: Registry[Launcher] = Registry(
    "launcher",
    "perfkit.launchers",
    {
        "process": "perfkit.measure.launch.process:PROCESS",
        "torchrun": "perfkit.measure.launch.torchrun:TORCHRUN",
        "slurm": "perfkit.measure.launch.slurm:SLURM",
        "ray": "perfkit.measure.launch.ray:RAY",
    },
)

# Their ranks see the GPUs that this process sees. Those of others run on other machines, or in tasks of their own.
STARTS_HERE = ("process", "torchrun")
