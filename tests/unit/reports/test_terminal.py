import io
from pathlib import Path

import msgspec
from rich.console import Console

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import Analysis
from perfkit.record import How, Measurement
from perfkit_reports import terminal
from tests.fixtures.sample_analysis import HOSTILE


def printed(analysis: Analysis, folder: Path | None = None) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    terminal.render(analysis, console, folder)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_everything_fits_100_columns(analysis: Analysis) -> None:
    assert max(len(line) for line in printed(analysis).splitlines()) <= 100


def test_the_table_shows_all_columns_whole(realistic: Analysis) -> None:
    text = printed(realistic)
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip().startswith("variant"))
    assert lines[start].split() == [
        "variant",
        "step",
        "time",
        "speed-up",
        "tokens/s",
        "peak",
        "mem.",
        "MFU",
        "loss",
        "engaged",
    ]
    amp = next(line for line in lines[start:] if line.strip().startswith("amp "))
    assert " ".join(amp.split()) == "amp 124 ms ▲ 1.62× 16,508 305 MiB 53.5 % within yes"


def test_markup_in_names_and_reasons_is_text(every_status: Analysis) -> None:
    assert HOSTILE in printed(every_status).replace("\n", "")


def test_reasons_findings_and_the_reports_place_are_told(realistic: Analysis) -> None:
    text = printed(realistic, Path("runs/a"))
    assert "zero2@2 skipped: needs at least two ranks" in text
    assert "▲ Gain: Train in bf16 [amp], up to 76.6 ms a step and 107 MiB" in text
    assert f"report: {Path('runs/a/report.html')}" in text


def test_what_went_wrong_comes_first_and_the_rest_is_counted(realistic: Analysis) -> None:
    gain = Finding(severity="gain", title="gain", variant="", evidence="e", action="a")
    wrong = msgspec.structs.replace(gain, severity="warning", title="wrong")
    text = printed(msgspec.structs.replace(realistic, findings=(*[gain] * 8, wrong)))
    assert text.index("wrong") < text.index("Gain: gain")
    assert "3 more findings in the report" in text


def test_energy_has_a_column_where_one_is_known_and_all_still_fits(realistic: Analysis) -> None:
    assert "energy" not in printed(realistic)
    first, *others = realistic.variants
    powered = msgspec.structs.replace(
        first, energy_per_step=Measurement(value=31.2, unit="J", how=How.MEASURED, source="a counter")
    )
    lines = printed(msgspec.structs.replace(realistic, variants=(powered, *others))).splitlines()
    assert max(len(line) for line in lines) <= 100
    heading = next(line for line in lines if line.strip().startswith("variant"))
    assert "energy" in heading
    assert "31.2 J" in next(line for line in lines if line.strip().startswith("baseline"))
