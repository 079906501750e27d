"""Write `docs/hardware.md` from its template and the results in `benchmarks/results/`.

    python -m benchmarks.gpu.hardware_page [--check]

`--check` writes nothing, and exits 1 if the page is not what the script would write. The hand-written text is in
`hardware_template.md`, the list of paths in `hardware_paths.py`; all that the results know comes from them.
"""

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.gpu.hardware_findings import list_findings
from benchmarks.gpu.hardware_paths import PATHS, CodePath
from benchmarks.gpu.hardware_results import DeviceResults, escape_cell, matches, read_devices
from benchmarks.gpu.packages import ROOT
from benchmarks.gpu.parts import PARTS

PAGE = ROOT / "docs" / "hardware.md"
TEMPLATE = Path(__file__).parent / "hardware_template.md"
# Scripts with rows, in the order of the page: first those of a run.
SCRIPTS = tuple(dict.fromkeys([*(part.script for part in PARTS), "ceilings", "techniques", "attach"]))
NO = "no"


def write_page(devices: Sequence[DeviceResults], template: str, known: Sequence[str]) -> str:
    """The page; `known` are the names `SCRIPT ROW` of all rows."""
    sections = {
        "devices": [_describe_device(device) for device in devices],
        "paths": list(_format_paths(devices, known)),
        "findings": list(_format_findings(devices)),
        "rows": list(_format_rows(devices)),
        "unmeasured": list(_format_unmeasured(devices, known)),
    }
    page = template
    for name, lines in sections.items():
        mark = f"<!-- {name} -->"
        if mark not in page:
            raise ValueError(f"{TEMPLATE.name} has no line {mark}")
        page = page.replace(mark, "\n".join(lines))
    return page


def list_known_rows() -> list[str]:
    """`SCRIPT ROW` of every row of every script."""
    tables = ((script, importlib.import_module(f"benchmarks.gpu.{script}").ROWS) for script in SCRIPTS)
    return [f"{script} {row.name}" for script, rows in tables for row in rows]


def describe_status(path: CodePath, device: DeviceResults, known: Sequence[str]) -> str:
    """How the rows of a path ended on a device; empty where none was measured."""
    rows = {row.name: row.entry["status"] for pattern in path.rows for row in device.match(pattern)}
    if not rows:
        return ""
    deciding = {name for name in known if any(matches(name, pattern) for pattern in path.rows)} | set(rows)
    good = sum(status == "ok" for status in rows.values())
    text = "yes" if good == len(deciding) else f"{good} of {len(deciding)} rows"
    for status in ("wrong", "failed"):
        names = [f"`{name}`" for name, ended in rows.items() if ended == status]
        if names:
            text += f"; {status}: {', '.join(names)}"
    return text


def _describe_device(device: DeviceResults) -> str:
    """Name, torch and CUDA; driver and CUPTI where `stands versions` was measured."""
    versions = device.find("stands versions") or {}
    parts = [f"torch {device.machine['torch']}", f"CUDA {device.machine['cuda']}"]
    if versions.get("nvml"):
        parts.append(f"driver {versions['nvml']['driver']}")
    if versions.get("cupti"):
        parts.append(f"CUPTI {versions['cupti']['api_version']}")
    return f"- {device.name}: {', '.join(parts)}"


def _format_paths(devices: Sequence[DeviceResults], known: Sequence[str]) -> Iterator[str]:
    yield "| path | CPU | recorded | fakes | GPU |"
    yield "|---|---|---|---|---|"
    for path in PATHS:
        seen = []
        for device in devices:
            status = describe_status(path, device, known)
            finding = path.finding(device) if path.finding else None
            if status:
                seen.append(f"{_short_name(device)}: {status}{f' ({finding})' if finding else ''}")
        if path.noted:
            seen.append(path.noted)
        cells = (path.name, path.cpu, path.recorded, path.fakes, "; ".join(dict.fromkeys(seen)) or NO)
        yield f"| {' | '.join(cells)} |"


def _format_findings(devices: Sequence[DeviceResults]) -> Iterator[str]:
    yield "| device | subject | finding |"
    yield "|---|---|---|"
    for device in devices:
        for subject, finding in list_findings(device):
            yield f"| {_short_name(device)} | {subject} | {escape_cell(finding)} |"


def _format_rows(devices: Sequence[DeviceResults]) -> Iterator[str]:
    """Each device's rows by how they ended, with the folder of their figures."""
    for device in devices:
        folder = f"[benchmarks/results/{device.folder}](../benchmarks/results/{device.folder})"
        names: dict[str, list[str]] = {}
        for row in device.rows:
            names.setdefault(row.entry["status"], []).append(f"`{row.name}`")
        ended = "; ".join(f"{status}: {', '.join(rows)}" for status, rows in names.items())
        yield f"- {device.name}, torch {device.machine['torch']} ({folder}): {ended}"


def _format_unmeasured(devices: Sequence[DeviceResults], known: Sequence[str]) -> Iterator[str]:
    """Rows that no device has measured, by script; a variant that was run without a script counts as measured."""
    measured = {row.name for device in devices for row in device.match("*")}
    measured |= {f"techniques {name}" for device in devices for name in _name_variants(device)}
    by_script: dict[str, list[str]] = {}
    for name in known:
        if name not in measured:
            script, row = name.split(" ", 1)
            by_script.setdefault(script, []).append(row)
    if not by_script:
        yield "Every row has been measured."
    for script, rows in by_script.items():
        yield f"- `{script}`: {', '.join(f'`{row}`' for row in rows)}"


def _name_variants(device: DeviceResults) -> Iterator[str]:
    """`gpt:size=small`, `amp` -> `gpt.amp`."""
    for row in device.variants:
        yield f"{row['workload'].partition(' ')[0].partition(':')[0]}.{row['variant']}"


def _short_name(device: DeviceResults) -> str:
    """`NVIDIA H200` -> `H200`."""
    return device.name.removeprefix("NVIDIA ").removeprefix("AMD ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page differs")
    given = parser.parse_args()
    page = write_page(read_devices(), TEMPLATE.read_text(), list_known_rows())
    if given.check:
        sys.exit(page != PAGE.read_text())
    PAGE.write_text(page)
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
