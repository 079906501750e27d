"""Results of all devices, read for `docs/hardware.md`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from benchmarks.gpu.packages import ROOT

RESULTS = ROOT / "benchmarks" / "results"
VARIANTS = "variants.json"


@dataclass(frozen=True)
class Measured:
    """A row that a device has measured: its script, name and entry (status, reason, figures, lines, seconds)."""

    script: str
    row: str
    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.script} {self.row}"


@dataclass(frozen=True)
class DeviceResults:
    """Rows of a device with one torch, and variants that were run without these scripts (`variants.json`)."""

    folder: str
    machine: Mapping[str, Any]
    rows: tuple[Measured, ...]
    variants: tuple[Mapping[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return str(self.machine["device"])

    def match(self, pattern: str) -> list[Measured]:
        """Rows whose `SCRIPT ROW` matches; skipped ones are not measured."""
        return [row for row in self.rows if matches(row.name, pattern) and row.entry["status"] != "skipped"]

    def find(self, name: str) -> Mapping[str, Any] | None:
        """The figures of the row `SCRIPT ROW`, if it was measured to its end."""
        for row in self.rows:
            if row.name == name and row.entry["status"] in ("ok", "wrong"):
                figures: Mapping[str, Any] = row.entry["figures"]
                return figures
        return None


def matches(name: str, pattern: str) -> bool:
    """Whether `SCRIPT ROW` matches a pattern: `*` is anything, `[` a bracket."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def read_devices(results: Path = RESULTS) -> tuple[DeviceResults, ...]:
    """Every folder of `results` with rows of a GPU, by name; those of a CPU are left out."""
    devices = (_read_device(folder) for folder in sorted(results.iterdir()) if folder.is_dir())
    return tuple(device for device in devices if device is not None and device.machine["device"] != "cpu")


def escape_cell(text: str) -> str:
    """A text as a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;").strip()


def format_bytes(size: float) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def _read_device(folder: Path) -> DeviceResults | None:
    machine: Mapping[str, Any] | None = None
    rows: list[Measured] = []
    for path in sorted(folder.glob("*.json")):
        stored = json.loads(path.read_text())
        if isinstance(stored, dict) and "rows" in stored:
            machine = stored["machine"]
            rows += (Measured(path.stem, name, entry) for name, entry in stored["rows"].items())
    if machine is None:
        return None
    variants = folder / VARIANTS
    return DeviceResults(
        folder.name, machine, tuple(rows), tuple(json.loads(variants.read_text())) if variants.exists() else ()
    )
