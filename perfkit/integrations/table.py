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
        "tensorboard": "perfkit.integrations.tensorboard:from_text",
        "wandb": "perfkit.integrations.wandb:from_text",
        "mlflow": "perfkit.integrations.mlflow:from_text",
        "prometheus": "perfkit.integrations.prometheus:from_text",
    },
)


def logger_for(text: str, name: str = "") -> Logger:
    """The logger that `TRACKER` or `TRACKER:WHERE` names. `name` is what the run is called where the tracker asks.

    Raises:
        UsageError: an unknown tracker, or a place that it cannot do without.
        UnavailableError: it needs a package that is not installed.
    """
    tracker, _, argument = text.partition(":")
    return LOGGERS.load(tracker)(argument, name)
