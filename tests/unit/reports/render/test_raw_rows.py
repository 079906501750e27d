import io
import json
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfkit_reports.render import frames, images, notebook, parquet
from tests.fixtures import sample_formats as sample


def test_parquet_has_the_types_and_units_of_the_rows() -> None:
    kernels, empty = sample.document().data

    table = pq.read_table(io.BytesIO(parquet.encode_parquet(kernels)))
    types = [pa.string(), pa.float64(), pa.int64(), pa.bool_(), pa.list_(pa.field("element", pa.string()))]
    assert table.schema.types == types
    assert table.column("seconds").to_pylist() == [0.5, None]
    assert json.loads(table.schema.metadata[b"units"]) == {"seconds": "s"}
    assert pq.read_table(io.BytesIO(parquet.encode_parquet(empty))).num_rows == 0


@pytest.mark.cold
@pytest.mark.slow
def test_tables_are_written_without_pandas() -> None:
    code = """
import sys
from perfkit_reports.document.tables import RawTable
from perfkit_reports.render.parquet import encode_parquet
for rows in ([], [{"name": "a", "calls": None}]):
    encode_parquet(RawTable("kernels", {"name": str, "calls": int}, lambda: rows))
print("pandas" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("step_low_s", "s"),
        ("bytes", "B"),
        ("message_bytes", "B"),
        ("coverage_bytes_s", "s"),
        ("bytes_per_step", "B"),
        ("recompute_flops", "FLOP"),
        ("flops_per_s", "FLOP/s"),
        ("bus_bandwidth", "B/s"),
        ("share", ""),
        ("calls", ""),
    ],
)
def test_units_follow_from_the_names_of_columns(column: str, unit: str) -> None:
    assert parquet.infer_unit(column) == unit


def test_frames_are_typed_and_know_their_units() -> None:
    pytest.importorskip("pandas")
    rows = frames.build_frame(sample.document(), "kernels")

    assert [str(kind) for kind in rows.dtypes] == ["string", "float64", "Int64", "boolean", "object"]
    assert rows.attrs["units"] == {"seconds": "s"}
    assert rows["calls"].isna().tolist() == [True, False]


def test_a_frame_that_is_not_there_names_those_that_are() -> None:
    pytest.importorskip("pandas")
    with pytest.raises(KeyError, match=r"'ops'.*kernels, empty"):
        frames.build_frame(sample.document(), "ops")


def test_images_are_named_by_their_blocks() -> None:
    found = dict(images.render_images(sample.document()))

    assert list(found) == ["time-split.png", "time-split.svg", "peak.png", "peak.svg"]
    assert found["peak.png"].startswith(b"\x89PNG")
    assert b"<svg" in found["peak.svg"]


def test_a_notebook_without_what_draws_figures_has_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = notebook.render(sample.document())

    assert "perfkit[images]" in text
    assert "23 more kernels" in text.replace("\u00a0", " ")
    assert "data:image" not in text


def test_a_notebook_shows_brief_blocks_without_scripts() -> None:
    pytest.importorskip("matplotlib")
    text = notebook.render(sample.document()).replace("\u00a0", " ")

    assert "<script" not in text
    assert "A step takes 8 ms." in text
    assert "23 more kernels " in text
    assert text.count("data:image/png;base64,") == 2
    assert re.search(r"\b1 more\b", text)
    assert "Machine" not in text
