"""Time that a matrix kernel loses because tiles and thread blocks come whole.

NVIDIA, "Matrix Multiplication Background User's Guide": a result is cut into tiles, and those at its edges are computed
in full (tile quantization); blocks run in waves of as many as the device has room for, and the last wave takes as
long as a full one (wave quantization). Here a multiprocessor (SM, compute unit) has room for one block at a time, as it
has for large tiles. Where it has room for more, no less is lost: the busiest one has as many blocks to do.
"""

from math import ceil
from typing import NamedTuple

from perfkit.cost.kernels.gemm_tile import GemmTile, TileAxis

Grid = tuple[int, int, int]


class MatmulSizes(NamedTuple):
    """The sizes of a batch of products (m, k) x (k, n)."""

    batch: int
    m: int
    n: int
    k: int


class WaveCount(NamedTuple):
    """`number` is the blocks (for persistent kernels: tiles) per multiprocessor, `loss` a lower bound on the share of
    multiprocessor time lost because some have one block less."""

    number: float
    loss: float


def count_tiles(product: MatmulSizes, tile: GemmTile) -> int | None:
    """The number of tiles of a GEMM; None where it depends on the tile's orientation."""
    counts = {product.batch * _count_oriented_tiles(product, *way) for way in _list_orientations(tile)}
    return counts.pop() if len(counts) == 1 else None


def compute_tile_loss(product: MatmulSizes, tile: GemmTile) -> float | None:
    """The share of a kernel's arithmetic that is outside of the product: 1 - m n k / padded m n k.

    None where that depends on which way round the tile lies.
    """
    depth = tile.depth or 1
    inner = ceil(product.k / depth) * depth
    padded = {
        _count_oriented_tiles(product, *way) * tile.first * tile.second * inner for way in _list_orientations(tile)
    }
    return 1 - product.m * product.n * product.k / padded.pop() if len(padded) == 1 else None


def infer_split_k(grid: Grid, batch: int, tiles: int) -> int | None:
    """The number of parts into which a kernel splits K, so that several blocks accumulate one tile; None where its grid
    does not show it.

    The third size of a grid counts batches and parts of K; the others may be rounded up, and what they have beyond the
    tiles ends at once. A grid of one size counts them all.
    """
    x, y, z = grid
    blocks = x * y * z
    if y == z == 1 and blocks >= 2 * tiles:
        return blocks // tiles if blocks % tiles == 0 else None
    return z // batch if z % batch == 0 and x * y * batch >= tiles else None


def compute_waves(
    blocks: int, units: int, tiles: int | None, parts: int | None, *, whole_tiles: bool = False
) -> WaveCount | None:
    """Compute how the `blocks` of a kernel's grid fill the multiprocessors.

    Args:
        units: multiprocessors of the device.
        tiles: of the kernel's result, None where that is not known, of `parts` blocks each.
        whole_tiles: whether a block with several tiles to do takes each of them whole.

    None for a persistent kernel, whose few blocks share more tiles, unless they are known to take whole ones; and where
    there are as many blocks as multiprocessors and the tiles are not known, since that may be one.
    """
    if tiles is not None and blocks < tiles:
        rounds = ceil(tiles / blocks)
        return WaveCount(tiles / units, 1 - tiles / (rounds * max(blocks, units))) if whole_tiles else None
    if tiles is None and blocks == units:
        return None
    working = blocks if tiles is None or parts is None else tiles * parts
    return WaveCount(working / units, 1 - working / (ceil(working / units) * units))


def _list_orientations(tile: GemmTile) -> list[tuple[int, int]]:
    """The tile's sizes along M and N, both ways round where it is not known which holds."""
    ways = {TileAxis.M: (tile.first, tile.second), TileAxis.N: (tile.second, tile.first)}
    return [way for along, way in ways.items() if tile.along in (along, TileAxis.UNKNOWN)]


def _count_oriented_tiles(product: MatmulSizes, along_m: int, along_n: int) -> int:
    return ceil(product.m / along_m) * ceil(product.n / along_n)
