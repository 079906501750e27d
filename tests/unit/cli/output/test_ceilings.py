"""What `perfkit calibrate` prints, and what it measures again."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.ceilings.ceiling import CeilingKind, CeilingLevel, Confidence, DeviceCeilings, LinkRate
from perfkit.devices.machine.fingerprint import build_fingerprint
from perfkit_cli.calibrate import _find_missing_threads
from perfkit_cli.output.ceilings import build_ceilings_table, build_links_table, describe_links
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import ceiling

LOW = replace(
    ceiling(CeilingLevel.MATRIX, "fp32", 1.66e11, "torch.mm; 0 undisturbed", kind=CeilingKind.MEASURED, threads=2),
    measured_at="2026-01-31T10:00:00",
    spread=0.1,
    confidence=Confidence.LOW,
    disturbance="0 of 5 repeats undisturbed",
)
KNOWN = DeviceCeilings(
    device="cpu",
    device_name="a CPU",
    fingerprint=build_fingerprint("cpu", ""),
    ceilings=(
        LOW,
        replace(LOW, dtype="fp64", disturbance=""),
        ceiling(CeilingLevel.MEMORY, None, 3e10, "its sheet", kind=CeilingKind.DATASHEET),
    ),
)


def printed(width: int) -> list[list[str]]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(build_ceilings_table(KNOWN, width))
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
    good = replace(LOW, disturbance="", threads=1)
    ceilings_cache.store_calibration(replace(KNOWN, ceilings=(LOW, good)), [], full=True)
    assert _find_missing_threads("cpu", "", (1, 2), short=False, force=False) == (2,)
    ceilings_cache.refute_ceilings(KNOWN.fingerprint, [good])
    assert _find_missing_threads("cpu", "", (1, 2), short=True, force=False) == (1, 2)
    ceilings_cache.store_calibration(replace(KNOWN, ceilings=(replace(LOW, disturbance=""), good)), [], full=False)
    assert _find_missing_threads("cpu", "", (1, 2), short=True, force=False) is None


def test_links_are_a_matrix_of_sizes_and_collectives_with_doubts_marked() -> None:
    def rate(collective: str, size: int, confidence: Confidence) -> LinkRate:
        return LinkRate(
            collective=collective, ranks=2, bytes=size, seconds=size / 1e9, backend="gloo", confidence=confidence,
            spread=0.02 if confidence == Confidence.HIGH else 0.2,
        )  # fmt: skip

    rates = [
        rate("all-reduce", 1024, Confidence.HIGH),
        rate("all-reduce", 2048, Confidence.LOW),
        rate("send", 2048, Confidence.HIGH),
    ]
    console = Console(width=100)
    with console.capture() as capture:
        console.print(build_links_table(rates, 2))
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert list_figures(" ".join(lines[:2])) == ["2"]
    assert lines[2].split()[-2:] == ["all-reduce", "send"]
    assert lines[3:] == [
        "1.00 KiB 1.00 GB/s -",
        "1.02 us",
        "2.00 KiB ? 1.00 GB/s 1.00 GB/s",
        "2.05 us 2.05 us",
    ]
    (doubts,) = (line for line in describe_links(rates) if "marked ?" in line)
    assert list_figures(doubts) == ["1", "3", "20.0 %"]
