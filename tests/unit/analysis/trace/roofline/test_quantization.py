"""Tiles and waves against counts by hand and against grids that were recorded."""

import pytest

from perfkit.analysis.trace.roofline.quantization import (
    Grid,
    MatmulSizes,
    WaveCount,
    compute_tile_loss,
    compute_waves,
    count_tiles,
    infer_split_k,
)
from perfkit.cost.kernels.gemm_tile import GemmTile, TileAxis

A100, H100 = 108, 132


def tile(first: int, second: int, depth: int | None = None, along: TileAxis = TileAxis.M) -> GemmTile:
    return GemmTile(first, second, depth, along)


def test_a_product_of_whole_tiles_loses_nothing_and_one_row_more_a_whole_row_of_them() -> None:
    assert compute_tile_loss(MatmulSizes(1, 256, 128, 64), tile(128, 128, 64)) == 0
    # 257 rows take three tiles of 128: 257 of 384 rows are asked for.
    assert compute_tile_loss(MatmulSizes(1, 257, 128, 64), tile(128, 128, 64)) == pytest.approx(1 - 257 / 384)
    # So does the last part of K: 96 of 2 x 64.
    assert compute_tile_loss(MatmulSizes(1, 256, 128, 96), tile(128, 128, 64)) == pytest.approx(0.25)
    assert compute_tile_loss(MatmulSizes(1, 256, 128, 96), tile(128, 128)) == 0


@pytest.mark.parametrize(
    ("product", "of", "count"),
    [
        # The grids that an H100, an A100 and an MI300X recorded of these products, but for what rounds them up.
        (MatmulSizes(1, 141, 30522, 512), tile(256, 128, 64, TileAxis.N), 240),
        (MatmulSizes(1, 3906, 512, 2048), tile(256, 128, 32, TileAxis.N), 62),
        (MatmulSizes(1, 2048, 38377, 32), tile(128, 64, None, TileAxis.N), 9600),
        (MatmulSizes(2048, 606, 160, 20), tile(256, 64, 16, TileAxis.N), 20480),
        (MatmulSizes(1, 141, 30522, 512), tile(128, 144, 64, TileAxis.N), 239),
        (MatmulSizes(1, 8944, 1024, 1024), tile(128, 128, 64, TileAxis.UNKNOWN), 560),
        # 2 x 1 tiles of 128 x 256, or 1 x 2 of 256 x 128.
        (MatmulSizes(1, 256, 256, 64), tile(128, 256, 64, TileAxis.UNKNOWN), 2),
        # 1 x 1 or 1 x 2.
        (MatmulSizes(1, 128, 256, 64), tile(128, 256, 64, TileAxis.UNKNOWN), None),
    ],
)
def test_tiles_of_a_product(product: MatmulSizes, of: GemmTile, count: int | None) -> None:
    assert count_tiles(product, of) == count


def test_what_depends_on_which_way_round_a_tile_lies_is_not_known() -> None:
    assert compute_tile_loss(MatmulSizes(1, 128, 256, 64), tile(128, 256, 64, TileAxis.UNKNOWN)) is None
    assert compute_tile_loss(MatmulSizes(1, 128, 256, 64), tile(128, 256, 64, TileAxis.M)) == 0


def test_waves_as_nvidia_counts_them() -> None:
    """108 SMs, of which each has room for one tile of 256 x 128: 108 tiles are a wave, one more needs a second."""
    whole = MatmulSizes(1, 2304, 1536, 4096)
    assert count_tiles(whole, tile(256, 128)) == 108
    assert compute_waves(108, A100, 108, 1) == WaveCount(1.0, 0.0)
    more = count_tiles(whole._replace(n=1537), tile(256, 128))
    assert more == 117
    assert compute_waves(117, A100, more, 1) == WaveCount(117 / 108, 1 - 117 / 216)


@pytest.mark.parametrize(
    ("grid", "batch", "tiles", "parts"),
    [
        ((16, 15, 1), 1, 240, 1),
        ((4, 2, 21), 1, 5, 21),  # 8 blocks for 5 tiles, 21 times
        ((62, 1, 3), 1, 62, 3),
        ((1, 1, 216), 1, 1, 216),
        ((3, 1, 2048), 2048, 6144, 1),
        ((30, 1, 1), 1, 24, 1),
        ((288, 1, 1), 1, 288, 1),
        ((1152, 1, 1), 1, 288, 4),  # Tensile counts all in one size
        ((1000, 1, 1), 1, 288, None),
        ((8, 1, 3), 2, 16, None),
    ],
)
def test_parts_of_k_by_the_grid(grid: Grid, batch: int, tiles: int, parts: int | None) -> None:
    assert infer_split_k(grid, batch, tiles) == parts


def test_blocks_that_only_round_a_grid_up_do_no_work() -> None:
    assert compute_waves(168, A100, 5, 21) == WaveCount(105 / 108, 1 - 105 / 108)


def test_few_blocks_leave_most_of_the_device_idle() -> None:
    assert compute_waves(16, H100, None, None) == WaveCount(16 / 132, 1 - 16 / 132)


def test_a_persistent_kernel_has_no_waves_unless_its_blocks_take_whole_tiles() -> None:
    assert compute_waves(132, H100, 1540, None) is None
    assert compute_waves(132, H100, None, None) is None
    # 1540 tiles in 12 rounds of 132; 560 tiles in 5 rounds of 120 blocks, beside which 12 SMs are idle.
    assert compute_waves(132, H100, 1540, None, whole_tiles=True) == WaveCount(1540 / 132, 1 - 1540 / (12 * 132))
    assert compute_waves(120, H100, 560, None, whole_tiles=True) == WaveCount(560 / 132, 1 - 560 / (5 * 132))
