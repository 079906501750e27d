"""Where things lie in a suite's folder.

<suite>/suite.json                  Suite: the variants and their runs, written after every run
<suite>/ceilings.json               DeviceCeilings used by the analysis
<suite>/<variant>/<repeat>/         one run: one launch of one variant
    spec.json  run.json
    rank<k>/record.json  rank<k>/trace.json.gz  rank<k>/memory.json.gz  rank<k>/output.log
<suite>/report.html, report.json, ... what `perfkit report` renders
"""

import re
from pathlib import Path

from perfkit.spec import Struct

SUITE_VERSION = 1
SUITE_FILE = "suite.json"
CEILINGS_FILE = "ceilings.json"
SPEC_FILE = "spec.json"
RUN_FILE = "run.json"
RECORD_FILE = "record.json"
TRACE_FILE = "trace.json.gz"
MEMORY_FILE = "memory.json.gz"
OUTPUT_FILE = "output.log"


class SuiteRun(Struct):
    """One launch within a suite: `path` is relative to the suite's folder."""

    variant: str
    repeat: int
    path: str


class Suite(Struct):
    """A set of runs made to be compared. `baselines` maps a variant to the variant it is compared with."""

    schema_version: int = SUITE_VERSION
    created_at: str
    perfkit: str
    command: str
    variants: tuple[str, ...]
    baselines: dict[str, str]
    runs: tuple[SuiteRun, ...] = ()
    warnings: tuple[str, ...] = ()


def run_path(variant: str, repeat: int) -> str:
    """The run's folder relative to the suite, with characters that some file systems refuse replaced."""
    return f"{re.sub(r'[^A-Za-z0-9+@._-]', '_', variant)[:100]}/{repeat}"


def rank_folder(run: Path, rank: int) -> Path:
    return run / f"rank{rank}"
