"""Experiment trackers by name, for the command line: `tensorboard:DIR`, `wandb`, `mlflow:sqlite:///x.db`."""

from collections.abc import Callable

from perfkit.attach.host.logger import Logger
from perfkit.core.registry import Registry

# Makes a logger of what follows the tracker's name and a colon ("" where nothing does), and of the run's name.
FromText = Callable[[str, str], Logger]

LOGGERS: Registry[FromText] = Registry(
    "logger",
    "perfkit.loggers",
    {
        "tensorboard": "perfkit.integrations.tensorboard:create_logger",
        "wandb": "perfkit.integrations.wandb:create_logger",
        "mlflow": "perfkit.integrations.mlflow:create_logger",
        "prometheus": "perfkit.integrations.prometheus:create_logger",
    },
)


def open_logger(text: str, name: str = "") -> Logger:
    """Open the logger that `TRACKER` or `TRACKER:WHERE` names; `name` is the run's name for the tracker.

    Raises:
        UsageError: an unknown tracker, or a missing place.
        UnavailableError: it needs a package that is not installed.
    """
    tracker, _, argument = text.partition(":")
    return LOGGERS.load(tracker)(argument, name)
