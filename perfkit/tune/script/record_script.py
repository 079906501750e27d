"""Records a script's steps as `perfkit run` does, and ends it."""

import subprocess
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.errors import UsageError
from perfkit.core.files import read_json, write_json
from perfkit.measure.launch.rank_processes import end_ranks, start_rank
from perfkit.store.layout import OUTPUT_FILE, SUITE_FILE, get_rank_folder
from perfkit.tune.script.script_rounds import WORKER, make_place, make_spec
from perfkit.tune.script.script_run import NOTES_FILE, ORDER_FILE, ScriptNotes, ScriptOrder

RECORDING = "recording"
_TAIL_LINES = 12
_MORE_S = 60.0  # after its limit, to end at a step and to write


class ScriptFailedError(UsageError):
    """The script as it is does not train."""

    id = "tune.script_failed"


class RecordedScript(NamedTuple):
    """The recorded steps of a script, analyzed, and what its process noted; `folder` is the suite's."""

    folder: Path
    analysis: Analysis
    notes: ScriptNotes


def record_script(place: Path, order: ScriptOrder, folder: Path) -> RecordedScript:
    """Run the script in the folder `place` until its steps are recorded, into the new folder `folder`.

    Raises:
        ScriptFailedError: it failed, or has no steps that hooks see.
    """
    folder.mkdir(parents=True)
    write_json(folder / ORDER_FILE, replace(order, records=True))
    process = start_rank(WORKER, make_spec(order, "cpu").launch, folder, 0, place=make_place(place), obeys=True)
    try:
        process.communicate(timeout=order.limit_s + _MORE_S)
    except subprocess.TimeoutExpired:
        reason = f"no step has ended within {order.limit_s + _MORE_S:.0f} s"
        raise ScriptFailedError(f"{order.script}: {reason}") from None
    finally:
        end_ranks([process])
    if process.returncode or not (folder / NOTES_FILE).is_file():
        raise ScriptFailedError(f"{order.script} ended with exit code {process.returncode}\n{_read_tail(folder)}")
    suite = folder / RECORDING
    if not (suite / SUITE_FILE).is_file():
        raise ScriptFailedError(
            f"{order.script}: no optimizer step was seen; tune a workload function instead (-w FILE.py:FUNCTION)"
        )
    return RecordedScript(suite, analyze_suite(suite), read_json(folder / NOTES_FILE, ScriptNotes))


def _read_tail(folder: Path) -> str:
    log = get_rank_folder(folder, 0) / OUTPUT_FILE
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    return "\n".join(lines[-_TAIL_LINES:])
