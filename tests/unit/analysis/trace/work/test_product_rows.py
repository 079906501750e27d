"""Products and attention by their sizes, of a step that can be added up by hand and of one that an H100 recorded."""

from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.devices.ceilings.ceiling import CeilingLevel
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.rank_traces import ceilings
from tests.fixtures.traces import Event, call, kernel, launch, mark, op, write_trace

BF16 = "c10::BFloat16"
TILED = "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align8"
H100 = Path("examples/h100_qwen1.5_forward.json.gz")


def on_grid(event: Event, x: int, y: int = 1, z: int = 1) -> Event:
    event["args"] |= {"grid": [x, y, z], "block": [128, 1, 1], "shared memory": 0}
    return event


def analysed(tmp_path: Path, *events: Event, device: str = "NVIDIA H100 80GB HBM3") -> RankTrace:
    trace = read_trace(write_trace(tmp_path / "trace.json.gz", [mark("ProfilerStep#1", 0, 1000), *events]))
    known = ceilings({(CeilingLevel.MATRIX, "bf16"): 80e12, (CeilingLevel.VECTOR, "fp32"): 10e12})
    return analyze_trace(trace, known, device_name=device)


def product(number: int, at: float, rows: int, took: float, *grid: int) -> list[Event]:
    """A (rows, 1024) x (1024, 1024) product."""
    return [
        op("aten::mm", at, 20, [(rows, 1024), (1024, 1024)], BF16),
        launch(number, at + 1),
        on_grid(kernel(TILED, number, at + 30, took), *grid),
    ]


def test_a_product_is_told_by_its_sizes_tile_waves_and_share_of_its_roof(tmp_path: Path) -> None:
    trace = analysed(tmp_path, *product(1, 0, 4096, 200, 128), *product(2, 300, 4096, 300, 128))
    (row,) = trace.gemms
    assert (row.name, row.kernel, row.calls) == ("aten::mm", TILED, 2)
    assert (row.batch, row.m, row.n, row.k) == (1, 4096, 1024, 1024)
    assert (row.dtype, row.layout, row.tile) == ("bf16", "row,row", "256x128x64")
    # 2 x 4096 x 1024 x 1024 FLOPs a call, at 80 TFLOP/s; two calls in 500 us.
    assert row.flops == pytest.approx(2 * 2**33)
    assert row.flops_per_s == pytest.approx(2 * 2**33 / 500e-6)
    assert row.attainable_s == pytest.approx(2 * 2**33 / 80e12)
    assert (row.bound, row.efficiency) == ("compute", pytest.approx(2 * 2**33 / 80e12 / 500e-6))
    # 1024 / 256 x 4096 / 128 tiles on 132 SMs.
    assert (row.tiles, row.blocks, row.units, row.split_k) == (128, 128, 132, 1)
    assert (row.waves, row.wave_loss) == (pytest.approx(128 / 132), pytest.approx(4 / 132))
    assert row.tile_loss == 0


def test_a_narrow_product_is_held_against_the_bandwidth(tmp_path: Path) -> None:
    (row,) = analysed(tmp_path, *product(1, 0, 8, 10, 4)).gemms
    moved = 2 * (8 * 1024 + 1024 * 1024 + 8 * 1024)
    assert (row.bound, row.attainable_s) == ("memory", pytest.approx(moved / 1e12))


def test_what_adds_up_a_split_k_counts_into_the_time_of_its_product(tmp_path: Path) -> None:
    reduce = kernel("void cublasLt::splitKreduce_kernel<32, 16>", 9, 250, 50)
    (row,) = analysed(tmp_path, *product(1, 0, 4096, 200, 128, 1, 3), launch(9, 5), reduce).gemms
    assert (row.calls, row.kernel, row.split_k) == (1, TILED, 3)
    assert row.seconds == pytest.approx(250e-6)
    assert (row.waves, row.flops) == (pytest.approx(3 * 128 / 132), pytest.approx(2**33))


def test_a_product_whose_kernel_was_lost_has_no_row(tmp_path: Path) -> None:
    lost = product(1, 0, 4096, 20, 132)
    lost[2]["name"] = "void cublasLt::splitKreduce_kernel<32, 16>"
    assert analysed(tmp_path, *lost).gemms == ()


def test_equal_products_by_other_kernels_and_in_other_sizes_have_rows_of_their_own(tmp_path: Path) -> None:
    other = product(3, 600, 4096, 100, 128)
    other[2]["name"] = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT"
    rows = analysed(tmp_path, *product(1, 0, 4096, 200, 128), *product(2, 300, 4096, 100, 128), *other).gemms
    assert {(row.kernel.partition("_")[0], row.calls, row.waves is None) for row in rows} == {
        ("cutlass", 2, False),
        ("nvjet", 1, False),
    }
    assert [row.seconds for row in rows] == pytest.approx([300e-6, 100e-6])


def test_without_a_known_device_there_are_rates_but_no_waves_and_no_share_of_a_roof(tmp_path: Path) -> None:
    trace = read_trace(write_trace(tmp_path / "t.json.gz", product(1, 0, 4096, 200, 128)))
    (row,) = analyze_trace(trace, None).gemms
    assert row.flops_per_s == pytest.approx(2**33 / 200e-6)
    assert (row.units, row.waves, row.efficiency) == (None, None, None)
    assert (row.tiles, row.blocks) == (128, 128)


def test_a_grid_of_threads_is_counted_in_blocks(tmp_path: Path) -> None:
    events = product(1, 0, 4096, 200, 128 * 1024)
    events[2]["name"] = "Cijk_Alik_Bljk_BBS_BH_MT128x256x64_MI16x16x1_SN_LDSB1"
    (row,) = analysed(tmp_path, *events, device="AMD Instinct MI300X").gemms
    # 1024 / 128 x 4096 / 256 tiles; 1024 blocks of 128 threads would be eight for each.
    assert (row.tiles, row.blocks, row.split_k, row.units) == (128, 1024, 8, 304)


def attention(name: str, *args: Any) -> list[Event]:
    heads = (4, 16, 1024, 64)
    return [
        call(name, 0, 20, *[(heads, BF16)] * 3, *args),
        launch(1, 1),
        on_grid(kernel("void pytorch_flash::flash_fwd_kernel<64>", 1, 30, 200), 8, 4, 16),
    ]


def test_attention_is_told_by_its_sizes_mask_and_library(tmp_path: Path) -> None:
    trace = analysed(tmp_path, *attention("aten::_scaled_dot_product_flash_attention", 0.0, True, False, None))
    (row,) = trace.attentions
    assert (row.batch, row.heads, row.key_heads, row.queries, row.keys, row.width) == (4, 16, 16, 1024, 1024, 64)
    assert (row.is_masked, row.has_mask_tensor, row.backward, row.backend) == (True, False, False, "FlashAttention-2")
    # 2 products of 2 x 64 FLOPs for 1024 x 1025 / 2 pairs of each of 64 heads.
    assert row.flops == pytest.approx(64 * 4 * 64 * 1024 * 1025 / 2)
    assert (row.blocks, row.waves) == (512, pytest.approx(512 / 132))
    assert trace.gemms == ()


def test_attention_without_a_mask_leaves_nothing_out(tmp_path: Path) -> None:
    (row,) = analysed(
        tmp_path, *attention("aten::_scaled_dot_product_flash_attention", 0.0, False, False, None)
    ).attentions
    assert not row.is_masked


def test_what_runs_outside_of_steps_has_no_rows(tmp_path: Path) -> None:
    (row,) = analysed(tmp_path, *product(1, 0, 4096, 200, 128), *product(2, 2000, 512, 200, 16)).gemms
    assert (row.m, row.calls) == (4096, 1)


@pytest.fixture(scope="module")
def recorded() -> RankTrace:
    return analyze_trace(read_trace(H100), None)


def test_products_of_a_recorded_step(recorded: RankTrace) -> None:
    """24 layers of Qwen1.5-0.5B over 16 x 559 positions: query, key and value with a bias, and three of an MLP."""
    found = {(row.m, row.n, row.k): row for row in recorded.gemms if row.name != "aten::bmm"}
    calls = {sizes: sum(row.calls for row in recorded.gemms if (row.m, row.n, row.k) == sizes) for sizes in found}
    assert calls == {(8944, 1024, 1024): 96, (8944, 2816, 1024): 48, (8944, 1024, 2816): 24}
    up, down = found[8944, 2816, 1024], found[8944, 1024, 2816]
    # 70 x 22 and 70 x 8 tiles of 128 x 128; both kernels are persistent and take whole tiles.
    assert (up.tile, up.tiles, up.blocks, up.units) == ("128x128x64", 1540, 132, 132)
    assert up.wave_loss == pytest.approx(1 - 1540 / (12 * 132))
    assert (down.tiles, down.blocks) == (560, 120)
    assert down.wave_loss == pytest.approx(1 - 560 / (5 * 132))
    assert up.layout == "row,column"


def test_attention_of_a_recorded_step(recorded: RankTrace) -> None:
    (row,) = recorded.attentions
    assert (row.batch, row.heads, row.queries, row.keys, row.width, row.calls) == (16, 16, 559, 559, 64, 24)
    assert (row.is_masked, row.backend) == (True, "FlashAttention-2")
