"""The results of the benchmark, kept after each script."""

import os
import platform
from pathlib import Path

import torch

from benchmarks.tune.lockstep import TrueGain
from benchmarks.tune.recorded_findings import FindingsOfRun
from benchmarks.tune.tuned_script import TunedRun
from perfkit.core.files import read_json, write_json
from perfkit.core.spec import Struct

RESULTS = "tune_faults.json"


class Results(Struct, frozen=False):
    """By fault: its gain, its findings, and what a search made of it; by twin: the same of the clean program."""

    machine: dict[str, str] = {}
    gains: dict[str, TrueGain] = {}
    faulty: dict[str, FindingsOfRun] = {}
    clean: dict[str, FindingsOfRun] = {}
    tuned: dict[str, TunedRun] = {}
    tuned_clean: dict[str, TunedRun] = {}


def describe_machine() -> dict[str, str]:
    """What the figures hold for."""
    return {
        "platform": platform.platform(),
        "cpus": str(os.cpu_count()),
        "threads": "1",
        "torch": str(torch.__version__),
    }


def read_results(path: Path) -> Results:
    """Read what was measured so far."""
    return read_json(path, Results, remedy="delete it") if path.exists() else Results()


def write_results(path: Path, results: Results) -> None:
    """Write what was measured so far."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, results)
