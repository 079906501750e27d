"""Does a calibration repeat? Runs it several times and compares the figures.

    python benchmarks/calibration.py [--runs 2] [--threads 1,2] [--short] [--out benchmarks/results/calibration.json]

Each run is a process of its own. A figure passes where the runs agree within 5 %, or where a run itself
called it low confidence. Matrix products and one-thread DRAM bandwidth are expected to agree.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from subprocess import DEVNULL, run

import msgspec

from perfkit.core.files import read_json, write_json
from perfkit.core.note import list_texts
from perfkit.core.units import format_bandwidth, format_flop_rate, format_percent
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingLevel, Confidence, DeviceCeilings
from perfkit.devices.ceilings.repeats import SPREAD_TOLERANCE


class Figure(msgspec.Struct, frozen=True):
    """A ceiling in every run. `apart` is (largest - smallest) / largest."""

    level: str
    dtype: str | None
    threads: int | None
    unit: str
    values: tuple[float, ...]
    spreads: tuple[float | None, ...]
    low_confidence: tuple[bool, ...]
    apart: float
    expected_to_repeat: bool
    sources: tuple[str, ...]


class Result(msgspec.Struct, frozen=True):
    """What is written to `--out`."""

    date: str
    torch: str
    fingerprint: str
    short: bool
    seconds: tuple[float, ...]
    notes: tuple[tuple[str, ...], ...]
    figures: tuple[Figure, ...]


def calibrate(threads: str, short: bool) -> tuple[DeviceCeilings, float]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ceilings.json"
        command = [
            sys.executable,
            "-m",
            "perfkit.devices.calibration.calibrate",
            "--device",
            "cpu",
            "--threads",
            threads,
        ]
        start = time.perf_counter()
        run([*command, "--out", str(out), *(["--short"] if short else [])], check=True, stderr=DEVNULL)
        return read_json(out, DeviceCeilings), time.perf_counter() - start


def compare(runs: Sequence[DeviceCeilings]) -> tuple[Figure, ...]:
    by_key: dict[tuple[str, str | None, int | None], list[Ceiling]] = {}
    for ceilings in runs:
        for ceiling in ceilings.ceilings:
            by_key.setdefault((ceiling.level, ceiling.dtype, ceiling.threads), []).append(ceiling)
    figures = []
    for (level, dtype, threads), alike in by_key.items():
        values = tuple(ceiling.value for ceiling in alike)
        figures.append(
            Figure(
                level=level,
                dtype=dtype,
                threads=threads,
                unit=alike[0].unit,
                values=values,
                spreads=tuple(ceiling.spread for ceiling in alike),
                low_confidence=tuple(ceiling.confidence == Confidence.LOW for ceiling in alike),
                apart=(max(values) - min(values)) / max(values),
                expected_to_repeat=level == CeilingLevel.MATRIX or (level == CeilingLevel.MEMORY and threads == 1),
                sources=tuple(ceiling.source for ceiling in alike),
            )
        )
    return tuple(figures)


def verdict(figure: Figure, runs: Sequence[DeviceCeilings]) -> str:
    if len(figure.values) < len(runs):
        return "measured in some runs only"
    if figure.apart <= SPREAD_TOLERANCE:
        return "repeats"
    if any(figure.low_confidence):
        return "differs, labelled low confidence"
    return "DIFFERS, UNLABELLED" if figure.expected_to_repeat else "differs, unlabelled"


def main() -> None:
    parser = argparse.ArgumentParser(description="How far two calibrations of the same machine are apart.")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "calibration.json")
    options = parser.parse_args()
    runs, seconds = zip(*(calibrate(options.threads, options.short) for _ in range(options.runs)), strict=True)
    figures = compare(runs)
    for figure in figures:
        show = format_flop_rate if figure.unit == "FLOP/s" else format_bandwidth
        name = f"{figure.level} {figure.dtype or ''}".strip()
        marks = " ".join(show(v) + ("?" * low) for v, low in zip(figure.values, figure.low_confidence, strict=True))
        print(
            f"{name:14s} {figure.threads} thr.  {format_percent(figure.apart):>7s} apart  "
            f"{verdict(figure, runs):34s} {marks}"
        )
    print("seconds per run: " + ", ".join(f"{second:.0f}" for second in seconds))
    write_json(
        options.out,
        Result(
            date=datetime.now(UTC).date().isoformat(),
            torch=version("torch"),
            fingerprint=runs[0].fingerprint,
            short=options.short,
            seconds=tuple(round(second, 1) for second in seconds),
            notes=tuple(list_texts(ceilings.notes) for ceilings in runs),
            figures=figures,
        ),
    )
    sys.exit(any(verdict(figure, runs).startswith("DIFFERS") for figure in figures))


if __name__ == "__main__":
    main()
