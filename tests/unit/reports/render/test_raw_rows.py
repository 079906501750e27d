import io
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfkit_reports.document.tables import Data
from perfkit_reports.document.weight import Weight
from perfkit_reports.render import frames, images, notebook, parquet
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_document import Kernel, chart, sample, table

KERNELS = Data(
    "kernels",
    {"name": str, "seconds": float, "calls": int, "above_roof": bool, "techniques": list[str]},
    lambda: [
        {"name": "a", "seconds": 0.5, "calls": None, "above_roof": True, "techniques": ["amp"]},
        {"name": "b", "seconds": None, "calls": 3, "above_roof": None, "techniques": []},
    ],
)
EMPTY = Data("empty", {"message_bytes": int}, list)
DOCUMENT = replace(sample(), data=(KERNELS, EMPTY))


def test_parquet_has_the_types_and_units_of_the_rows() -> None:
    table = pq.read_table(io.BytesIO(parquet.parquet(KERNELS)))
    assert table.schema.types == [pa.string(), pa.float64(), pa.int64(), pa.bool_(), pa.list_(pa.string())]
    assert table.column("seconds").to_pylist() == [0.5, None]
    assert table.schema.field("seconds").metadata == {b"unit": b"s"}
    assert table.schema.field("name").metadata is None
    assert pq.read_table(io.BytesIO(parquet.parquet(EMPTY))).num_rows == 0


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("step_low_s", "s"),
        ("bytes", "B"),
        ("message_bytes", "B"),
        ("coverage_bytes_s", "s"),
        ("bytes_per_step", "B"),
        ("recompute_flops", "FLOP"),
        ("achieved", "FLOP/s"),
        ("bus_bandwidth", "B/s"),
        ("share", ""),
        ("calls", ""),
    ],
)
def test_units_follow_from_the_names_of_columns(column: str, unit: str) -> None:
    assert parquet.unit(column) == unit


def test_frames_are_typed_and_know_their_units() -> None:
    rows = frames.frame(DOCUMENT, "kernels")

    assert [str(kind) for kind in rows.dtypes] == ["string", "float64", "Int64", "boolean", "object"]
    assert rows.attrs["units"] == {"seconds": "s"}
    assert rows["calls"].isna().tolist() == [True, False]


def test_a_frame_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(KeyError, match=r"no table 'ops'; there are kernels, empty"):
        frames.frame(DOCUMENT, "ops")


def test_images_are_named_by_their_blocks() -> None:
    drawn = dict(images.images(sample()))

    assert list(drawn) == ["time.png", "time.svg", "plot.png", "plot.svg", "time-2.png", "time-2.svg"]
    assert drawn["plot.png"].startswith(b"\x89PNG")
    assert b"<svg" in drawn["plot.svg"]


def test_a_notebook_shows_brief_blocks_without_scripts_and_in_its_own_colours() -> None:
    brief = replace(chart(), weight=Weight.BRIEF)
    rows = table(limit=40, rows=[Kernel(f"k{place}", 0.001) for place in range(33)])
    text = notebook.render(replace(sample(), summary=(rows, brief)), Path("/runs/x/report.html"))
    page = Page(text)

    assert {tag for tag, _ in page.tags} & {"script", "style", "link", "iframe", "html", "body"} == set()
    (image,) = (given for tag, given in page.tags if tag == "img")
    assert (image["src"] or "").startswith("data:image/png;base64,")
    assert "background:#fff" in (image["style"] or "")
    assert image["alt"] == "Dots"
    others = [given.get("style") or "" for tag, given in page.tags if tag != "img"]
    assert not any(re.search(r"(?<!-)color:(?!inherit)|background:(?!none)", style) for style in others)
    told = " ".join(page.text.replace("\u00a0", " ").split())
    for part in ("Step 10 ms on an H100", "23 more kernels in the report.", "Fuse the copies", "/runs/x/report.html"):
        assert part in told, part
    assert "Machine" not in told
