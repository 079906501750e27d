"""Finishes a recording: writes its report, and notifies loggers."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from perfkit.attach.host.delivery import Delivery
from perfkit.attach.host.guard import LOG
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.devices.ceilings.ceiling import Ceiling
from perfkit.store.layout import RECORD_FILE, REPORT_JSON, get_rank_folder

# The time that rank 0 waits for the other ranks' records, and for loggers.
PATIENCE_S = 20.0
_POLL_S = 0.1


def wait_for_ranks(run: Path, world_size: int) -> None:
    """Wait until all ranks have written how they ended, up to a limit: a killed rank never does."""
    deadline = time.monotonic() + PATIENCE_S
    for rank in range(world_size):
        path = get_rank_folder(run, rank) / RECORD_FILE
        while time.monotonic() < deadline and not _has_ended(path):
            time.sleep(_POLL_S)


def write_report(folder: Path) -> bool:
    """Write the report of a run's folder; whether that went well. What did not is logged."""
    process = run_report_command(folder, "--quiet")
    if process.returncode:
        LOG.warning("perfkit could not write the report; try `perfkit report %s`: %s", folder, process.stderr.strip())
    return process.returncode == 0


def run_report_command(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `perfkit report` in its own process: an analysis takes memory and time that belong to the program.

    With `-P` no module of the program's, in the folder that it runs in, is taken for another.
    """
    command = [sys.executable, "-P", "-m", "perfkit_cli", "report", str(folder), *options]
    alone = os.environ | {"CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1"}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False, env=alone
    )


class _Ceilings(msgspec.Struct):
    ceilings: tuple[Ceiling, ...] = ()


class _Report(msgspec.Struct):
    """The fields of a report's data used here."""

    ceilings: _Ceilings | None = None


def find_refuted_ceilings(folder: Path) -> tuple[Ceiling, ...]:
    """The measured ceilings that a report found its steps to be faster than."""
    known = msgspec.json.decode((folder / REPORT_JSON).read_bytes(), type=_Report).ceilings
    return () if known is None else tuple(ceiling for ceiling in known.ceilings if ceiling.exceeded_by)


def send_report(deliveries: Sequence[Delivery], report: Path | None) -> None:
    """Send the finished folder, if any, to all loggers, and close them."""
    for delivery in deliveries:
        delivery.close(PATIENCE_S, report)


def _has_ended(path: Path) -> bool:
    return path.is_file() and read_json(path, RankRecord).status != RunStatus.CRASHED
