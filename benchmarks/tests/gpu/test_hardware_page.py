import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.hardware_findings import list_findings
from benchmarks.gpu.hardware_page import PAGE, SCRIPTS, TEMPLATE, describe_status, list_known_rows, write_page
from benchmarks.gpu.hardware_paths import PATHS, CodePath
from benchmarks.gpu.hardware_results import DeviceResults, Measured, matches, read_devices
from benchmarks.gpu.packages import ROOT
from tests.fixtures.figures import list_figures

MACHINE = {"device": "NVIDIA H100", "gpus": 1, "torch": "2.11.0+cu130", "cuda": "13.0"}
MARKS = "<!-- devices -->\n<!-- paths -->\n<!-- findings -->\n<!-- rows -->\n<!-- unmeasured -->\n"


def entry(status: str = "ok", reason: str = "", **figures: Any) -> dict[str, Any]:
    return {"status": status, "reason": reason, "figures": figures, "seconds": 3.0}


def device(rows: Mapping[str, dict[str, Any]], *variants: dict[str, Any]) -> DeviceResults:
    """Rows by `SCRIPT ROW`."""
    names = {name: name.split(" ", 1) for name in rows}
    measured = (Measured(script, row, rows[name]) for name, (script, row) in names.items())
    return DeviceResults("nvidia-h100", MACHINE, tuple(measured), variants)


def path(*rows: str) -> CodePath:
    return CodePath("energy", "no", "no", "yes", rows)


def test_the_page_is_what_the_script_writes() -> None:
    """After a change of rows or results: python -m benchmarks.gpu.hardware_page."""
    assert PAGE.read_text() == write_page(read_devices(), TEMPLATE.read_text(), list_known_rows())


def test_every_path_names_rows_that_there_are() -> None:
    known = list_known_rows()
    for listed in PATHS:
        assert listed.rows or listed.decided, listed.name
        for pattern in listed.rows:
            assert any(matches(name, pattern) for name in known), pattern


def test_every_script_with_rows_is_listed() -> None:
    """So that none is missing from what has not been measured."""
    scripts = {file.stem for file in (ROOT / "benchmarks" / "gpu").glob("*.py") if "\nROWS" in file.read_text()}
    assert scripts == set(SCRIPTS)


KNOWN = ("attach energy", "attach bench-energy", "stands nvml")


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ({}, ""),
        ({"attach energy": entry("skipped")}, ""),
        ({"attach energy": entry()}, "1 of 2 rows"),
        ({"attach energy": entry(), "attach bench-energy": entry()}, "yes"),
        (
            {"attach energy": entry(), "attach bench-energy": entry("wrong")},
            "1 of 2 rows; wrong: `attach bench-energy`",
        ),
        ({"attach energy": entry("failed")}, "0 of 2 rows; failed: `attach energy`"),
    ],
)  # fmt: skip
def test_rows_decide_about_a_path(rows: dict[str, dict[str, Any]], status: str) -> None:
    assert describe_status(path("attach *energy"), device(rows), KNOWN) == status


def test_a_row_that_no_device_has_measured_is_listed() -> None:
    page = write_page([device({"stands nvml": entry()})], MARKS, KNOWN)
    assert "- `attach`: `energy`, `bench-energy`" in page
    assert "- `stands`" not in page


def test_a_variant_that_was_run_by_hand_counts_as_measured() -> None:
    run = {
        "workload": "gpt:size=nano --batch-size 2",
        "variant": "amp",
        "parity": "equal",
        "claims": 1,
        "claims_held": 1,
    }
    page = write_page([device({"stands nvml": entry()}, run)], MARKS, ["techniques gpt.amp", "techniques gpt.ckpt"])
    assert "- `techniques`: `gpt.ckpt`" in page


def test_devices_are_listed_with_their_software() -> None:
    versions = entry(nvml={"driver": "580.1"}, cupti={"api_version": 130001})
    page = write_page([device({"stands versions": versions}), device({"attach energy": entry()})], MARKS, KNOWN)
    assert page.splitlines()[:2] == [
        "- NVIDIA H100: torch 2.11.0+cu130, CUDA 13.0, driver 580.1, CUPTI 130001",
        "- NVIDIA H100: torch 2.11.0+cu130, CUDA 13.0",
    ]


def test_a_template_without_a_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="has no line <!-- rows -->"):
        write_page([], MARKS.replace("<!-- rows -->", ""), KNOWN)


def test_rows_are_listed_by_how_they_ended() -> None:
    page = write_page([device({"stands nvml": entry(), "attach a": entry("wrong"), "attach b": entry()})], MARKS, KNOWN)
    assert page.count(": ok: `stands nvml`, `attach b`; wrong: `attach a`") == 1


def test_findings_are_computed_from_rows() -> None:
    sessions = [{"launches": 450, "without_kernel": 0, "without_time": 0}] * 2
    lossy = [{"launches": 100, "without_kernel": 3, "without_time": 1}]
    ceilings = [
        {"dtype": "bf16", "level": "matrix", "of_datasheet": 0.801},
        {"dtype": None, "level": "l2", "of_datasheet": None},
    ]
    measured = device(
        {
            "stands lost-0s": entry(sessions=sessions), "stands lost-1s": entry("wrong", sessions=lossy),
            "attach recorded": entry(step_s=0.0500, by_hand_s=0.0501), "ceilings short": entry(ceilings=ceilings),
            "stands tests": entry(passed=10, failed=0, skipped=2),
        }
    )  # fmt: skip
    findings = dict(list_findings(measured))
    figures = {title: list_figures(text) for title, text in findings.items()}
    assert figures == {
        "Lost kernels": ["4", "1,000", "3"],
        "Step time": ["50.00 ms", "50.10 ms", "0.20%"],
        "Share of the datasheet": ["80%"],
        "Tests of `tests/gpu`": ["10", "0", "2"],
    }


def test_memory_that_does_not_balance_is_told() -> None:
    run = {
        "workload": "gpt", "variant": "amp", "parity": "differs", "claims": 2, "claims_held": 1,
        "peak_bytes": 2**30, "process_bytes": 2**30 + 3 * 2**20, "beyond": {"CUDA context": 2**20, "residual": 2**21},
    }  # fmt: skip
    findings = dict(list_findings(device({"stands nvml": entry()}, run)))
    assert list_figures(findings["Memory balance"]) == ["1", "2 MiB"]
    assert list_figures(findings["Technique claims"]) == ["1", "1", "2", "1"]


def test_devices_are_read_and_cpus_left_out(tmp_path: Path) -> None:
    for name, kind in (("nvidia-h100", "NVIDIA H100"), ("cpu", "cpu")):
        (tmp_path / name).mkdir()
        rows = {"machine": {**MACHINE, "device": kind}, "rows": {"energy": entry()}}
        (tmp_path / name / "attach.json").write_text(json.dumps(rows))
    (tmp_path / "empty").mkdir()
    (read,) = read_devices(tmp_path)
    assert (read.folder, [row.name for row in read.rows]) == ("nvidia-h100", ["attach energy"])
