"""A stored baseline: the figures that a check compares with, in a file made to be read in a diff."""

from perfkit.record import Environment
from perfkit.spec import Struct

BASELINE_VERSION = 1
BASELINE_FILE = "perfkit-baseline.json"


class StoredVariant(Struct):
    """One variant's figures, as a check names its quantities.

    `exact` holds what every process counts alike; `processes` one figure a process of what varies; `losses` those of
    the first steps.
    """

    exact: dict[str, float] = {}
    processes: dict[str, tuple[float, ...]] = {}
    losses: tuple[float, ...] = ()


class Baseline(Struct):
    """The figures of one revision on one machine: `variants` by workload, then by variant."""

    schema_version: int = BASELINE_VERSION
    perfkit: str
    environment: Environment
    variants: dict[str, dict[str, StoredVariant]]
