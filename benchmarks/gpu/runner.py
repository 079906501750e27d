"""One run of all parts within a limit of seconds; `run.sh` calls it.

    python -m benchmarks.gpu.runner --device cuda [--limit SECONDS] [--repeat-failed] [--only PART,PART] [--out FOLDER]

Rows are measured in the order of `parts.py`. A row that is saved already is skipped, and one whose planned seconds do
not fit before the limit is not begun; at the limit the row that is being measured is ended. After each row the results
are packed again: into `$OUT/results.tar.gz`, or into OUT/DEVICE without `$OUT`.
"""

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from benchmarks.gpu.archive import ARCHIVE, write_archive
from benchmarks.gpu.packages import ROOT
from benchmarks.gpu.parts import PARTS, Part, PlannedRow, plan_rows
from benchmarks.gpu.rows import DEVICES, Results, Row, describe_machine, measure_in_process, slugify
from benchmarks.gpu.tables import format_end, format_plan

LIMIT_S = 540.0
REPEAT_LIMIT_S = 240.0
# Of the limit: for a row's process to end after it was interrupted, and for the last archive.
END_S = 6.0
ARCHIVE_S = 2.0
# A row that hangs is ended after so many times its planned seconds, before its longest time: minutes are few. Repeated,
# it gets all of its time.
PATIENCE = 3.0
PATIENCE_S = 20.0
BAD = ("failed", "wrong")
INTERRUPTED = 130
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Entry = dict[str, Any]
Measure = Callable[[PlannedRow, float], tuple[Entry, Sequence[str]]]


@dataclass(frozen=True)
class Outcome:
    """How a row of this run ended: a status of its entry, `measured already` or `not begun`."""

    planned: PlannedRow
    status: str
    seconds: float = 0.0
    reason: str = ""


def measure_parts(
    rows: Sequence[PlannedRow],
    results: Mapping[str, Results],
    measure: Measure,
    outcomes: list[Outcome],
    *,
    limit_s: float,
    repeat_failed: bool = False,
    bound_s: Callable[[PlannedRow], float] | None = None,
    after_row: Callable[[], object] = lambda: None,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Measure the rows in their order, save each and call `after_row`. `outcomes` grows by one for each.

    `measure` gets the seconds after which it must end the row. With `repeat_failed` only rows whose saved status is
    failed or wrong are measured, the cheapest first. `bound_s` are the most seconds of a row (`bound_first`).
    """
    end = now() + limit_s - END_S - ARCHIVE_S
    if repeat_failed:
        rows = sorted((row for row in rows if _saved_status(row, results) in BAD), key=lambda row: row.estimate.seconds)
    for planned in rows:
        saved = results[planned.part.script]
        if not repeat_failed and saved.has_row(planned.row.name):
            outcomes.append(Outcome(planned, "measured already", reason=str(_saved_status(planned, results))))
            continue
        left = end - now()
        if planned.estimate.seconds > left:
            reason = f"planned {planned.estimate.seconds:.0f} s, {max(left, 0):.0f} s were left"
            outcomes.append(Outcome(planned, "not begun", reason=reason))
            continue
        most = (bound_s or bound_first)(planned)
        print(f"{planned.name}: planned {planned.estimate.seconds:.0f} s, {left:.0f} s left", flush=True)
        begun = now()
        try:
            entry, lines = measure(planned, min(most, left))
        except KeyboardInterrupt:
            reason = "the run was interrupted"
            entry = {"status": "failed", "reason": reason, "figures": {}, "seconds": round(now() - begun, 1)}
            _save(saved, planned.row.name, entry)
            outcomes.append(Outcome(planned, "failed", entry["seconds"], reason))
            raise
        _save(saved, planned.row.name, entry)
        for line in lines:
            print(f"    {line}")
        print(f"{planned.name}: {entry['status']}{entry['reason'] and ': ' + entry['reason']} ({entry['seconds']} s)")
        outcomes.append(Outcome(planned, entry["status"], entry["seconds"], entry["reason"]))
        after_row()


def bound_first(planned: PlannedRow) -> float:
    """The most seconds of a row that is measured first: less than its longest time where it takes far less by plan."""
    return min(planned.row.at_most_s, PATIENCE * planned.estimate.seconds + PATIENCE_S)


def bound_repeated(planned: PlannedRow) -> float:
    """The most seconds of a row that is repeated: its longest time."""
    return planned.row.at_most_s


def leave_unbound(_planned: PlannedRow) -> float:
    """No bound but the limit: on a CPU, since plans and longest times are those of a GPU."""
    return math.inf


def open_results(out: Path, machine: Mapping[str, Any], scripts: Sequence[str]) -> dict[str, Results]:
    """The saved rows of each script in OUT/DEVICE.

    Where that folder holds rows of another torch or number of GPUs, OUT/DEVICE-TORCH is taken: a run on a GPU must not
    end for that.
    """
    device = slugify(machine["device"])
    try:
        return _open_folder(out / device, machine, scripts)
    except ValueError:
        name = slugify(f"{device} torch {machine['torch']} {machine['gpus']}")
        return _open_folder(out / name, machine, scripts)


def run(
    rows: Sequence[PlannedRow], results: Mapping[str, Results], measure: Measure, archive: Path, options: "Options"
) -> int:
    """Measure the rows, pack them, print how each ended; the exit code. An interrupt ends the run, not the packing."""
    outcomes: list[Outcome] = []
    home = next(iter(results.values())).path.parent
    code = 0
    try:
        measure_parts(
            rows, results, measure, outcomes, limit_s=options.limit_s, repeat_failed=options.repeat_failed,
            bound_s=options.bound_s,
            after_row=lambda: write_archive(home, archive),
        )  # fmt: skip
    except KeyboardInterrupt:
        code = INTERRUPTED
    packed = write_archive(home, archive)
    print(format_end(outcomes))
    for name in packed.left_out:
        print(f"too large for the archive: {name}")
    print(f"{archive}: {len(packed.kept)} files, {archive.stat().st_size / 2**10:.0f} KiB")
    if any(outcome.status in BAD for outcome in outcomes):
        print("to repeat the rows that failed: benchmarks/gpu/run.sh --repeat-failed")
    if any(outcome.status == "not begun" for outcome in outcomes):
        print("to measure the rows that were not begun: the same command again")
    return code or int(any(outcome.status in BAD for outcome in outcomes))


@dataclass(frozen=True)
class Options:
    """Seconds that the run may take, whether it repeats failed rows only, and the most seconds of a row."""

    limit_s: float
    repeat_failed: bool = False
    bound_s: Callable[[PlannedRow], float] | None = None


def measure_row(device: str, home: Path, planned: PlannedRow, most_s: float) -> tuple[Entry, Sequence[str]]:
    """Measure a row by a process of its own, ended after `most_s` seconds."""
    script, row = planned.part.script, planned.row
    folder = home / "runs" / script / row.name
    command = [sys.executable, "-m", f"benchmarks.gpu.{script}", "--device", device]
    limited: Row = replace(row, at_most_s=most_s)
    return measure_in_process([*command, "--row", row.name, "--folder", str(folder)], limited, folder, grace_s=END_S)


def _open_folder(home: Path, machine: Mapping[str, Any], scripts: Sequence[str]) -> dict[str, Results]:
    return {script: Results.open(home / f"{script}.json", machine) for script in scripts}


def _saved_status(planned: PlannedRow, results: Mapping[str, Results]) -> str | None:
    entry = results[planned.part.script].rows.get(planned.row.name)
    return None if entry is None else str(entry["status"])


def _save(results: Results, name: str, entry: Entry) -> None:
    """Save an entry; of a failed one that it replaces, keep how it ended."""
    before = results.rows.get(name)
    earlier = []
    if before is not None and before["status"] in BAD:
        ended = {key: before[key] for key in ("status", "reason", "seconds") if key in before}
        earlier = [*before.get("earlier", ()), ended]
    results.save(name, {**entry, **({"earlier": earlier} if earlier else {})})


def _choose_parts(parser: argparse.ArgumentParser, only: str | None) -> tuple[Part, ...]:
    if only is None:
        return PARTS
    groups = only.split(",")
    unknown = set(groups) - {part.group for part in PARTS}
    if unknown:
        known = ", ".join(sorted({part.group for part in PARTS}))
        parser.error(f"--only: no part {', '.join(sorted(unknown))}; there are {known}")
    return tuple(part for part in PARTS if part.group in groups)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the row and the run; further signals must not interrupt that."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks/gpu/run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=DEVICES, default="cuda")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="the run ends by then (540; 240 for a repeat)")
    parser.add_argument("--repeat-failed", action="store_true", help="only rows that failed or are wrong")
    parser.add_argument("--only", metavar="PART,PART", help="these parts: a, b, c, d")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="rows go to OUT/DEVICE/")
    parser.add_argument("--plan", action="store_true", help="print the plan, and measure nothing")
    # Seconds since the epoch: what run.sh did before counts as well.
    parser.add_argument("--started", type=float, default=time.time(), help=argparse.SUPPRESS)
    given = parser.parse_args()
    rows = plan_rows(_choose_parts(parser, given.only))
    print(format_plan(rows), flush=True)
    if given.plan:
        return
    limit_s = given.limit or (REPEAT_LIMIT_S if given.repeat_failed else LIMIT_S)
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    machine = describe_machine(given.device)
    results = open_results(given.out.absolute(), machine, [part.script for part in PARTS])
    home = next(iter(results.values())).path.parent
    archive = Path(os.environ.get("OUT", home)) / ARCHIVE
    print(f"{machine['device']}, torch {machine['torch']}; rows go to {home}")
    bound_s = leave_unbound if given.device == "cpu" else bound_repeated if given.repeat_failed else bound_first
    options = Options(limit_s - (time.time() - given.started), given.repeat_failed, bound_s)
    sys.exit(run(rows, results, lambda row, most: measure_row(given.device, home, row, most), archive, options))


if __name__ == "__main__":
    main()
