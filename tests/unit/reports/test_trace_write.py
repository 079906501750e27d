import io
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from matplotlib.image import imread

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit_reports.trace_write import trace_json, write_trace_reports
from tests.fixtures import sample_trace_analysis as sample


def names(paths: list[Path], folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in paths}


def test_every_form_is_written_and_the_analysis_comes_back(traces: TraceAnalysis, tmp_path: Path) -> None:
    written = names(write_trace_reports(traces, tmp_path), tmp_path)
    tables = ("kernels", "ops", "modules", "steps", "streams", "collectives", "copies", "ranks", "changes", "uncovered")
    assert {"report.html", "analysis.json", "report.md", *(f"tables/{name}.parquet" for name in tables)} <= written
    assert not [name for name in written if name.startswith("figures/")]
    assert msgspec.json.decode((tmp_path / "analysis.json").read_bytes(), type=TraceAnalysis) == traces
    assert (tmp_path / "analysis.json").read_bytes() == trace_json(traces)


def test_static_figures_are_drawn_only_when_asked_for(tmp_path: Path) -> None:
    written = names(write_trace_reports(sample.realistic(), tmp_path, static=True), tmp_path)
    assert {f"figures/{stem}.{kind}" for stem in ("roofline", "time-split") for kind in ("png", "svg")} <= written
    assert imread(io.BytesIO((tmp_path / "figures/roofline.png").read_bytes())).std() > 0.01  # not a blank sheet
    empty = write_trace_reports(sample.nothing(), tmp_path / "empty", static=True)
    assert not [path for path in empty if path.parent.name == "figures"]


@pytest.mark.slow
@pytest.mark.parametrize("module", ["trace_terminal", "trace_html", "trace_markdown", "trace_write"])
def test_heavy_libraries_are_imported_only_where_they_are_used(module: str) -> None:
    heavy = ("matplotlib", "pyarrow", "pandas", "torch", "plotly")
    code = f"import sys, perfkit_reports.{module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
