"""What `perfkit calibrate` prints, and what it measures again."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from perfkit.devices import cache
from perfkit.devices.ceiling import Confidence, DeviceCeilings, Kind, Level
from perfkit.devices.fingerprint import fingerprint
from perfkit_cli.calibrate import _missing
from perfkit_cli.ceilings import table
from tests.fixtures.rank_traces import ceiling

LOW = replace(
    ceiling(Level.MATRIX, "fp32", 1.66e11, "torch.mm; 0 undisturbed", kind=Kind.MEASURED, threads=2),
    measured_at="2026-01-31T10:00:00",
    spread=0.1,
    confidence=Confidence.LOW,
    disturbed="0 of 5 repeats undisturbed",
)
KNOWN = DeviceCeilings(
    device="cpu",
    device_name="a CPU",
    fingerprint=fingerprint("cpu", ""),
    ceilings=(
        LOW,
        replace(LOW, dtype="fp64", disturbed=""),
        ceiling(Level.MEMORY, None, 3e10, "its sheet", kind=Kind.DATASHEET),
    ),
)


def printed(width: int) -> list[list[str]]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table(KNOWN, width))
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in capture.get().splitlines()[1:]]


def test_every_value_is_legible_on_a_narrow_terminal() -> None:
    assert printed(80) == [
        ["level", "dtype", "threads", "value", "measured", "spread", "confidence"],
        ["matrix", "fp32", "2", "166 GFLOP/s", "2026-01-31", "10.0 %", "disturbed"],
        ["matrix", "fp64", "2", "166 GFLOP/s", "2026-01-31", "10.0 %", "low"],
        ["memory", "30.0 GB/s", "datasheet"],
    ]


def test_where_there_is_room_the_sources_are_told() -> None:
    assert [line[-1] for line in printed(140)] == [
        "source",
        "torch.mm; 0 undisturbed",
        "torch.mm; 0 undisturbed",
        "its sheet",
    ]


def test_what_was_disturbed_or_refuted_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))
    good = replace(LOW, disturbed="", threads=1)
    cache.store(replace(KNOWN, ceilings=(LOW, good)), [], full=True)
    assert _missing("cpu", "", (1, 2), short=False, force=False) == (2,)
    cache.refute(KNOWN.fingerprint, [good])
    assert _missing("cpu", "", (1, 2), short=True, force=False) == (1, 2)
    cache.store(replace(KNOWN, ceilings=(replace(LOW, disturbed=""), good)), [], full=False)
    assert _missing("cpu", "", (1, 2), short=True, force=False) is None
