"""`perfkit bench` from end to end, and `perfkit report` from what it left."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def result(bench_result: tuple[subprocess.CompletedProcess[str], Path]) -> subprocess.CompletedProcess[str]:
    return bench_result[0]


def test_bench_succeeds_and_says_where_the_report_is(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) <= 24
    assert result.stdout.splitlines()[-1] == "report: suite/report.html"
    assert "Traceback" not in result.stderr


def test_progress_is_plain_lines_where_there_is_no_terminal(result: subprocess.CompletedProcess[str]) -> None:
    lines = result.stderr.splitlines()
    assert lines[0].startswith("[1/3] baseline: starting")
    assert [line for line in lines if ": done (" in line]
    assert "\x1b" not in result.stderr


def test_the_summary_names_every_variant(result: subprocess.CompletedProcess[str]) -> None:
    for name in ("baseline", "amp", "ckpt"):
        assert name in result.stdout


def test_the_report_is_there_in_every_format(suite: Path) -> None:
    names = {path.name for path in suite.iterdir()}
    assert {"report.html", "report.json", "report.md"} <= names
    assert list(suite.rglob("*.parquet"))
    assert list(suite.rglob("*.png"))
    assert list(suite.rglob("*.svg"))


def test_every_variant_is_measured_and_engaged(suite: Path) -> None:
    report = json.loads((suite / "report.json").read_text())
    variants = {variant["name"]: variant for variant in report["variants"]}
    assert list(variants) == ["baseline", "amp", "ckpt"]
    for variant in variants.values():
        assert variant["status"] == "ok"
        assert variant["step_time"]["value"] > 0
        assert variant["peak_allocated"]["value"] > 0
    assert variants["amp"]["active"] is True
    assert variants["ckpt"]["active"] is True
    assert variants["ckpt"]["parity"]["verdict"] in ("equal", "within tolerance")


def test_what_was_planned_before_stands_beside_what_was_measured(suite: Path) -> None:
    report = json.loads((suite / "report.json").read_text())
    assert [variant["name"] for variant in report["variants"]] == ["baseline", "amp", "ckpt"]
    for variant in report["variants"]:
        assert variant["prediction"]["planned_before_run"]
        assert abs(variant["prediction"]["peak"]["error"]) < 0.01
    assert "Predicted" in (suite / "report.md").read_text()


def test_report_draws_again_from_disk_alone(suite: Path, perfkit) -> None:
    before = {path.name for path in suite.iterdir()}
    (suite / "report.html").unlink()
    shutil.move(suite, perfkit.folder / "moved")
    result = perfkit("report", "moved")
    assert result.returncode == 0, result.stderr
    assert {path.name for path in (perfkit.folder / "moved").iterdir()} == before
    assert result.stdout.splitlines()[-1] == "report: moved/report.html"


def test_report_writes_elsewhere_and_leaves_the_suite_alone(suite: Path, perfkit) -> None:
    before = {path: path.stat().st_mtime_ns for path in suite.rglob("*") if path.is_file()}
    result = perfkit("report", "suite", "--out", "elsewhere", "--quiet")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "report: elsewhere/report.html\n"
    assert (perfkit.folder / "elsewhere" / "report.html").stat().st_size > 1000
    assert {path: path.stat().st_mtime_ns for path in suite.rglob("*") if path.is_file()} == before


def test_a_bench_whose_only_technique_is_skipped_compared_nothing(perfkit, tiny) -> None:
    result = perfkit("bench", *tiny, "--technique", "zero1", "--world-size", "1", "--out", "s", "--quiet")
    assert result.returncode == 3, result.stderr
    assert result.stderr == ""
    assert result.stdout == "report: s/report.html\n"
    zero1 = perfkit.variants("s")["zero1"]
    assert zero1["status"] == "skipped"
    assert "--world-size 2" in zero1["reason"]
