"""What to check and how strictly: `[tool.perfkit.check]` of pyproject.toml, a perfkit.toml, or options."""

from perfkit.analysis.check.thresholds import Threshold
from perfkit.spec import Struct


class Case(Struct):
    """A workload with the variants of it to check, as written: `technique` as `perfkit bench --technique` takes it."""

    workload: str
    technique: str = "baseline"
    batch_size: int | None = None
    seq_len: int | None = None
    dtype: str = "fp32"
    accumulate: int = 1
    world_size: int | None = None
    thresholds: dict[str, Threshold] = {}


class CheckConfig(Struct):
    """A whole configuration. Times in seconds. `thresholds` by quantity hold for every case that sets no other.

    `python_path` are folders, relative to a side's root, from which that side imports its code before all else.
    """

    cases: tuple[Case, ...]
    thresholds: dict[str, Threshold] = {}
    baseline: str = ""
    device: str = "auto"
    threads: int | None = None
    budget_s: float = 180.0
    python_path: tuple[str, ...] = ()
    exit_inconclusive: int = 3
