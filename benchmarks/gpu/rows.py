"""Rows: the measurements of a script of this folder, each saved as soon as it has ended.

Every row is measured by a process of its own, so that a crash, a hang or a context on a GPU ends with it. Rows are
saved in `OUT/DEVICE/SCRIPT.json`; a second call skips the rows that are saved there. This file and `packages.py` need
neither torch nor perfkit, so that they can name missing packages.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.gpu.packages import ROOT, find_missing

BUDGET_S = 540.0
GRACE_S = 20.0  # `perfkit bench` still reports what it measured when it is interrupted
KEPT_BYTES = 2**20  # a larger file of a row is deleted
TAIL = 1500  # characters of the output of a row that failed
DEVICES = ("cpu", "cuda")

# Run by a process of its own, because these calls may create a context on the GPU.
_MACHINE = """
import json, torch
gpu = torch.cuda.is_available()
print(json.dumps({
    "device": torch.cuda.get_device_name(0) if gpu else None, "gpus": torch.cuda.device_count(),
    "torch": torch.__version__, "cuda": torch.version.cuda or torch.version.hip,
}))
"""


class Skipped(Exception):  # noqa: N818 - no error
    """A row that cannot be measured here, with the reason."""


@dataclass(frozen=True)
class Found:
    """Result of a row: `figures` and printed `lines` are saved; each of `wrong` contradicts an expectation."""

    figures: Mapping[str, Any]
    lines: Sequence[str] = ()
    wrong: Sequence[str] = ()


@dataclass(frozen=True)
class Setting:
    """Setting of a row: its device (`cpu` or `cuda`) and the folder that it may write to."""

    device: str
    folder: Path

    @property
    def home(self) -> Path:
        """OUT/DEVICE, of which `folder` is `runs/SCRIPT/ROW`: the place of files to keep."""
        return self.folder.parents[2]

    def needs_gpu(self) -> None:
        if self.device != "cuda":
            raise Skipped("needs a GPU")

    def needs_perfkit(self, *more: str) -> None:
        """Skip the row where a dependency of perfkit, or one of `more`, is not installed."""
        absent = find_missing(*more)
        if absent:
            raise Skipped(f"needs {', '.join(absent)}: see 'Carry wheels' in benchmarks/gpu/README.md")


@dataclass(frozen=True)
class Bench:
    """The bench of a row, as `plan_minutes` plans it: each of `variants` runs `steps` steps in each of its processes.

    `workload` are arguments of `perfkit plan`; `steps` counts warm-up, timed, traced and memory steps together.
    `setup_s` is the set-up of a process, where the script has measured its own.
    """

    workload: tuple[str, ...]
    variants: tuple[str, ...]
    steps: int
    processes: int = 1
    setup_s: float | None = None


@dataclass(frozen=True)
class Row:
    """`measure` is ended after `at_most_s` seconds.

    `planned_s` is the expected time on a GPU, in seconds, and `basis` says where that is from. With `bench` the time is
    computed from the plan of a step instead (`plan_minutes`).
    """

    name: str
    measure: Callable[[Setting], Found]
    at_most_s: float
    planned_s: float | None = None
    basis: str = ""
    bench: Bench | None = None


@dataclass
class Results:
    """The rows of a script on a device; saved after each."""

    path: Path
    machine: Mapping[str, Any]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, machine: Mapping[str, Any]) -> "Results":
        """The rows that an earlier call saved. A file of another machine or torch is a ValueError."""
        if not path.exists():
            return cls(path, machine)
        stored = json.loads(path.read_text())
        if stored["machine"] != dict(machine):
            raise ValueError(f"{path} holds rows of {stored['machine']}, this is {dict(machine)}: name another --out")
        return cls(path, machine, stored["rows"])

    def save(self, name: str, entry: dict[str, Any]) -> None:
        self.rows[name] = entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"machine": self.machine, "rows": self.rows}, indent=1) + "\n")
        temporary.replace(self.path)

    def has_row(self, name: str) -> bool:
        """Whether a row has been measured. A skipped row has not: it is tried again, which costs nothing."""
        return name in self.rows and self.rows[name]["status"] != "skipped"


def measure_rows(
    rows: Sequence[Row],
    results: Results,
    measure: Callable[[Row], tuple[dict[str, Any], Sequence[str]]],
    *,
    budget_s: float,
    again: bool = False,
    now: Callable[[], float] = time.monotonic,
) -> bool:
    """Measure the rows that `results` lacks (`again`: all), and save each; whether none is left to measure.

    A row that might not end within the budget is not begun. The first one always is, so that every call makes progress.
    """
    end = now() + budget_s
    begun = False
    for row in rows:
        if not again and results.has_row(row.name):
            print(f"{row.name}: measured already ({results.rows[row.name]['status']})")
            continue
        if begun and now() + row.at_most_s > end:
            print(f"{row.name}: may take {row.at_most_s:.0f} s, more than the rest of the budget: call again")
            return False
        begun = True
        print(f"{row.name}: at most {row.at_most_s:.0f} s", flush=True)
        entry, lines = measure(row)
        results.save(row.name, entry)
        for line in lines:
            print(f"    {line}")
        print(f"{row.name}: {entry['status']}{entry['reason'] and ': ' + entry['reason']} ({entry['seconds']} s)")
    return True


def measure_in_process(
    command: Sequence[str], row: Row, folder: Path, *, grace_s: float = GRACE_S
) -> tuple[dict[str, Any], Sequence[str]]:
    """The entry and lines of a row, measured by `command`, which writes them to `folder`.

    After `row.at_most_s` seconds the process is interrupted, and killed `grace_s` seconds later.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    with (folder / "output.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, env=build_environment(),
            start_new_session=True,
            # A process in the background ignores SIGINT, and its children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        try:
            code: int | None = process.wait(row.at_most_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process, grace_s)
    seconds = round(time.monotonic() - start, 1)
    answer = folder / "row.json"
    if code == 0 and answer.exists():
        entry = json.loads(answer.read_text())
        lines = entry["lines"]
    else:
        reason = f"not done after {row.at_most_s:.0f} s" if code is None else f"exit code {code}"
        tail = (folder / "output.log").read_text(errors="replace")[-TAIL:]
        entry = {"status": "failed", "reason": reason, "figures": {}, "lines": [], "output": tail}
        lines = [] if code is None else tail.splitlines()
    _drop_large(folder)
    return {**entry, "seconds": seconds, "at": datetime.now(UTC).isoformat(timespec="seconds")}, lines


def build_environment() -> dict[str, str]:
    """This process's environment, in which children import perfkit from its sources in any folder."""
    paths = [str(ROOT), str(ROOT / "cli"), str(ROOT / "reports")]
    paths += [str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def perfkit(*arguments: str) -> list[str]:
    """The command line of perfkit."""
    return [sys.executable, "-m", "perfkit_cli", *arguments]


def slugify(name: str) -> str:
    """`NVIDIA H200` -> `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End a row's process and its children. It is interrupted first, because a bench then ends its workers, which are
    in sessions of their own."""
    for number, patience in ((signal.SIGINT, grace_s), (signal.SIGKILL, None)):
        with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
            if process.poll() is None or number == signal.SIGKILL:
                os.killpg(process.pid, number)
            process.wait(patience)


def _drop_large(folder: Path) -> None:
    """Delete traces and reports of megabytes: their figures are saved, and can be measured again."""
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size > KEPT_BYTES:
            path.unlink()


def _measure(row: Row, setting: Setting) -> dict[str, Any]:
    """Measure a row in this process, for the one that started it."""
    try:
        outcome = row.measure(setting)
    except Skipped as reason:
        return {"status": "skipped", "reason": str(reason), "figures": {}, "lines": []}
    status = "wrong" if outcome.wrong else "ok"
    return {
        "status": status,
        "reason": "; ".join(outcome.wrong),
        "figures": outcome.figures,
        "lines": list(outcome.lines),
    }


def describe_machine(device: str) -> dict[str, Any]:
    """Device, number of GPUs, torch and CUDA: the key under which rows are comparable."""
    if importlib.util.find_spec("torch") is None:
        sys.exit("torch is not installed")
    asked = subprocess.run([sys.executable, "-c", _MACHINE], stdout=subprocess.PIPE, check=True, text=True)
    machine: dict[str, Any] = json.loads(asked.stdout)
    if device == "cpu":
        return {**machine, "device": "cpu", "gpus": 0}
    if machine["device"] is None:
        sys.exit("--device cuda: torch finds no CUDA device")
    return machine


def main(
    script: str, doc: str | None, table: Sequence[Row], options: Mapping[str, Sequence[Row]] = MappingProxyType({})
) -> None:
    """Run the command line of `benchmarks.gpu.SCRIPT`. `options` are switches, each with the rows that it adds.

    Exits 1 if a row of this call failed or found something wrong. A row that was skipped, or left for another call, is
    no failure.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.gpu.{script}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=DEVICES, required=True)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="rows go to OUT/DEVICE/")
    parser.add_argument("--only", metavar="ROW,ROW", help="measure these rows, also if they are saved already")
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS", help="time for all rows (540)")
    for name, rows in options.items():
        parser.add_argument(f"--{name}", action="store_true", help=f"also {', '.join(row.name for row in rows)}")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    known = {row.name: row for row in (*table, *(row for rows in options.values() for row in rows))}
    if given.row:
        answer = _measure(known[given.row], Setting(given.device, given.folder))
        (given.folder / "row.json").write_text(json.dumps(answer))
        return
    chosen = [
        *table,
        *(row for name, rows in options.items() if getattr(given, name.replace("-", "_")) for row in rows),
    ]
    if given.only:
        unknown = set(given.only.split(",")) - set(known)
        if unknown:
            parser.error(f"--only: no row {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        chosen = [known[name] for name in given.only.split(",")]
    machine = describe_machine(given.device)
    home = given.out.absolute() / slugify(machine["device"])
    results = Results.open(home / f"{script}.json", machine)
    before = dict(results.rows)

    def measure(row: Row) -> tuple[dict[str, Any], Sequence[str]]:
        folder = home / "runs" / script / row.name
        command = [sys.executable, "-m", f"benchmarks.gpu.{script}", "--device", given.device]
        return measure_in_process([*command, "--row", row.name, "--folder", str(folder)], row, folder)

    measure_rows(chosen, results, measure, budget_s=given.budget, again=bool(given.only))
    print(f"rows are in {results.path}")
    new = [entry for name, entry in results.rows.items() if before.get(name) is not entry]
    sys.exit(any(entry["status"] in ("failed", "wrong") for entry in new))
