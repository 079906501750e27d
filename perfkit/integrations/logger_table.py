"""Experiment trackers by name, for the command line: `tensorboard:DIR`, `wandb`, `mlflow:sqlite:///x.db`."""

from collections.abc import Callable

from perfkit.attach.logger import Logger
from perfkit.registry import Registry

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
    """The logger that `TRACKER` or `TRACKER:WHERE` names. `name` is what the run is called where the tracker asks.

    Raises:
        UsageError: an unknown tracker, or a place that it cannot do without.
        UnavailableError: it needs a package that is not installed.
    """
    tracker, _, argument = text.partition(":")
    return LOGGERS.load(tracker)(argument, name)
