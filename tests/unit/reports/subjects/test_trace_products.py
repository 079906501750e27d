"""What the tables of products and attention say of a row, and why where something is not known."""

from typing import Any

import pytest

from perfkit.analysis.model.trace import RankTrace
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import NOT_KNOWN, Cell
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.trace.rows.products import build_product_tables
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.document_blocks import column
from tests.fixtures.rank_traces import attention, gemm, rank_trace


def tables(trace: RankTrace) -> list[Table]:
    return [table for some in build_product_tables(trace, {}, "-0", limit=40).values() for table in some]


def table(**rows: Any) -> Table:
    (made,) = tables(rank_trace(**rows))
    return made


def cells(of: Table) -> dict[str, Cell]:
    (row,) = of.rows
    return {each.title: each.cell(row) for each in of.columns}


def texts(of: Table) -> dict[str, str]:
    return {title: cell.text for title, cell in cells(of).items()}


def test_a_product_by_its_sizes() -> None:
    found = texts(table(gemms=(gemm(0.4, wave_loss=0.15, layout="row,column", split_k=3),)))
    told = {
        "M×N×K": "4096×16896×1024", "Time": "400 ms", "Potential savings": "300 ms", "% of roofline": "25 %",
        "Bound": "compute", "Dtype": "bf16", "Tile": "128x128x64", "Waves": "32.0", "Wave loss": "15 %",
        "Tile loss": "0 %", "Layout": "row, column", "Split-K": "3", "Blocks": "4,224", "Op": "mm, forward",
    }  # fmt: skip
    assert {title: found[title] for title in told} == told
    assert texts(table(gemms=(gemm(0.4, batch=32),)))["M×N×K"] == "32 of 4096×16896×1024"


def test_sizes_are_sorted_as_numbers() -> None:
    small, large = table(gemms=(gemm(0.4, m=128),)), table(gemms=(gemm(0.4, m=8192),))
    assert cells(small)["M×N×K"].value == 128 * 16896 * 1024
    assert cells(large)["M×N×K"].value == 8192 * 16896 * 1024


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"blocks": None}, "no grid"),
        ({"units": None}, "multiprocessors"),
        ({"blocks": 132}, "persistent"),
    ],
)
def test_why_waves_are_not_known(fields: dict[str, Any], why: str) -> None:
    found = cells(table(gemms=(gemm(0.4, **{"waves": None, "wave_loss": None, **fields}),)))
    for title in ("Waves", "Wave loss"):
        assert found[title].text == NOT_KNOWN
        assert why in found[title].reason


def test_a_tile_that_is_not_told_is_no_loss_of_none() -> None:
    found = cells(table(gemms=(gemm(0.4, tile="", tile_loss=None),)))
    assert found["Tile loss"].text == NOT_KNOWN
    assert "tile" in found["Tile loss"].reason


def test_a_cpu_has_neither_kernels_nor_waves() -> None:
    (cpu,) = sample.cpu_only().traces
    (block,) = tables(cpu)
    assert not {"Kernel", "Tile", "Waves", "Wave loss", "Tile loss"} & {each.title for each in block.columns}


def test_attention_by_its_sizes() -> None:
    found = texts(table(attentions=(attention(0.2, key_heads=4, backward=True, has_mask_tensor=True),)))
    told = {
        "Queries × keys": "1024×1024", "Potential savings": "150 ms", "Pass": "backward", "Heads": "16 / 4",
        "Library": "FlashAttention-2", "Head dim": "64", "Batch": "4", "Mask": "causal or window, tensor",
    }  # fmt: skip
    assert {title: found[title] for title in told} == told
    packed = texts(table(attentions=(attention(0.2, batch=None, is_masked=False),)))
    assert packed["Batch"] == "packed"
    assert "Mask" not in packed


def test_gemms_and_attention_have_a_table_each() -> None:
    made = tables(rank_trace(gemms=(gemm(0.4),), attentions=(attention(0.2),)))
    assert [(block.id, block.data) for block in made] == [("gemms-0", "gemms"), ("attentions-0", "attentions")]
    assert tables(rank_trace()) == []


def test_what_is_shown_at_first_fits_a_phone() -> None:
    shown = [each.title for each in table(gemms=(gemm(0.4),)).columns if each.weight < Weight.DETAIL]
    assert len(shown) <= 11
    assert column(table(gemms=(gemm(0.4),)), "Kernel") == ["gemm_128x128"]


def test_names_of_any_length_and_many_sizes_do_not_fill_the_page() -> None:
    named = [gemm(0.4, kernel="cutlass::Kernel<" * 500, m=rows) for rows in range(2000)]
    seen = table(gemms=named)
    assert seen.limit is not None
    assert (
        seen.limit * sum(len(column.cell(named[0]).text + column.cell(named[0]).whole) for column in seen.columns)
        < 60_000
    )
