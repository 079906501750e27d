"""From repeats to ceilings, and the command line of the calibrating process."""

from pathlib import Path

import pytest

from perfkit.core.errors import UsageError
from perfkit.devices.calibration.calibrate import build_ceilings, get_repeats_path, main, parse_threads
from perfkit.devices.ceilings.ceiling import CeilingKind, CeilingLevel, Confidence
from perfkit.devices.ceilings.repeats import KernelRepeats, Repeat


def kernel(label: str, rates: tuple[float, ...], canaries: tuple[float, ...] | None = None) -> KernelRepeats:
    canaries = canaries or (100.0,) * len(rates)
    return KernelRepeats(
        level=CeilingLevel.MATRIX,
        dtype="bf16",
        threads=1,
        label=label,
        unit="FLOP/s",
        repeats=tuple(
            Repeat(rate=rate, windows=300, canary_before=canary, canary_after=canary)
            for rate, canary in zip(rates, canaries, strict=True)
        ),
    )


def test_the_best_size_becomes_the_ceiling_with_its_own_spread() -> None:
    (ceiling,) = build_ceilings(
        [kernel("n=512", (90.0, 90.0, 90.0, 90.0)), kernel("n=1024", (100.0, 97.0, 99.0, 98.0))]
    )
    assert ceiling.value == 100.0
    assert ceiling.spread == pytest.approx(0.01)
    assert (ceiling.kind, ceiling.confidence, ceiling.threads) == (CeilingKind.MEASURED, Confidence.HIGH, 1)
    assert ceiling.source == "n=1024; best of 4 repeats, 4 undisturbed"


def test_disturbed_repeats_are_counted_in_the_source() -> None:
    (ceiling,) = build_ceilings([kernel("n=512", (90.0, 91.0, 50.0, 92.0), (100.0, 100.0, 60.0, 99.0))])
    assert ceiling.source == "n=512; best of 4 repeats, 3 undisturbed"
    assert ceiling.confidence == Confidence.HIGH


def test_threads() -> None:
    assert parse_threads("1,2,2") == (1, 2)
    for text in ("", "0", "1,x", "-1"):
        with pytest.raises(UsageError, match="positive"):
            parse_threads(text)


def test_a_bad_number_of_threads_ends_with_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--device", "cpu", "--threads", "two", "--out", str(tmp_path / "c.json")])
    assert stop.value.code == 2
    assert "--threads" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_repeats_lie_beside_the_ceilings() -> None:
    assert get_repeats_path(Path("a/ceilings.json")) == Path("a/ceilings.repeats.json")
