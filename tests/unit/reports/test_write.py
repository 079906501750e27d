import io
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.core.errors import UnavailableError
from perfkit_reports.document.weight import Weight
from perfkit_reports.render.images import render_images
from perfkit_reports.render.report_files import write_document, write_report
from perfkit_reports.subjects.suite.suite_document import build_document


def test_every_form_is_written_and_nothing_else_is_left(every_status: Analysis, tmp_path: Path) -> None:
    written = write_document(build_document(every_status), tmp_path / "new" / "folder", figures=Weight.BRIEF)
    names = {str(path.relative_to(tmp_path / "new" / "folder")) for path in written}
    assert {"report.html", "report.json", "report.md", "tables/variants.parquet", "figures/roofline.svg"} <= names
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(written)
    assert msgspec.json.decode((tmp_path / "new/folder/report.json").read_bytes(), type=Analysis) == every_status


def test_without_what_draws_figures_a_suite_has_none(
    every_status: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    document = build_document(every_status)
    folders = {path.parent.name for path in write_report(document, tmp_path)}
    assert "tables" in folders
    assert "figures" not in folders
    with pytest.raises(UnavailableError) as caught:
        write_report(document, tmp_path, static=True)
    assert caught.value.id == "skip.package"


def test_without_any_measurement_there_are_no_empty_figures(nothing_measured: Analysis, tmp_path: Path) -> None:
    assert not [
        path
        for path in write_document(build_document(nothing_measured), tmp_path, figures=Weight.BRIEF)
        if path.parent.name == "figures"
    ]


def test_static_figures_are_images(every_status: Analysis) -> None:
    imread = pytest.importorskip("matplotlib.image").imread
    drawn = dict(render_images(build_document(every_status), Weight.BRIEF))
    stems = ("pareto", "roofline", "time-split", "memory-peak")
    assert set(drawn) == {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")}
    for name, data in drawn.items():
        if name.endswith("png"):
            assert imread(io.BytesIO(data)).std() > 0.01  # not a blank sheet
        else:
            assert b"</svg>" in data


@pytest.mark.cold
@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    ["render.terminal", "render.html", "render.report_files", "subjects.suite.suite_document", "subjects.registry"],
)
def test_heavy_libraries_are_imported_only_where_they_are_used(module: str) -> None:
    heavy = ("matplotlib", "duckdb", "pandas", "torch", "plotly")
    code = f"import sys, perfkit_reports.{module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
