"""The output tile of a GEMM kernel's thread block, by the kernel's name.

BLAS libraries compute a row-major result as its transpose, so that their tile's first size lies along N: with it the
tiles of recorded calls are their grids (cuBLAS's CUTLASS kernels and Tensile's, on an H100 and an MI300X). Which way
round other libraries write it was not seen; then only what holds both ways is known.
"""

import re
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple


class TileAxis(IntEnum):
    """The dimension of the result along a tile's first size."""

    M = 0
    N = 1
    UNKNOWN = 2


class GemmTile(NamedTuple):
    """Sizes in name order: `depth` is the part of K loaded at once, None where not shown."""

    first: int
    second: int
    depth: int | None
    along: TileAxis

    def __str__(self) -> str:
        return "x".join(str(size) for size in (self.first, self.second, self.depth) if size is not None)


# Groups: first size, second size, depth.
_TABLE = tuple(
    (re.compile(pattern), along)
    for pattern, along in (
        # cuBLAS: cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_align8, of 64 x 3 stages in K.
        (r"cutlass_\d+_\w*gemm\w*?_(\d+)x(\d+)_(\d+)x\d+_[nt]{2}(?:_|\b)", TileAxis.N),
        # ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn, ampere_sgemm_128x64_nn
        (r"(?:volta|turing|ampere)_\w*gemm\w*?_(\d+)x(\d+)(?:_\w*?stages_(\d+)x\d+)?(?:_|\b)", TileAxis.N),
        # sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1
        (r"xmma_\w*tilesize(\d+)x(\d+)x(\d+)", TileAxis.UNKNOWN),
        # nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT, of 64 x 4 stages in K and clusters of 1 x 2
        (r"nvjet(?:_sm\d+)?_[a-z]+_(\d+)x(\d+)_(\d+)x\d+_", TileAxis.UNKNOWN),
        # cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_ttt_align8, by the tile's size
        # and the cluster's (CUTLASS, media/docs/cpp/profiler.md)
        (r"cutlass3x_\w*?gemm\w*?_(\d+)x(\d+)x(\d+)_\d+x\d+x\d+_", TileAxis.UNKNOWN),
        # Tensile (rocBLAS, hipBLASLt): the macro tile
        (r"Cijk_\w*_MT(\d+)x(\d+)x(\d+)_", TileAxis.N),
        # Triton kernels that carry their configuration
        (r"BLOCK(?:_SIZE)?_M_?(\d+)\w*?_BLOCK(?:_SIZE)?_N_?(\d+)\w*?_BLOCK(?:_SIZE)?_K_?(\d+)", TileAxis.M),
    )
)

# The whole of K in one block for each tile: NVIDIA's xmma says so.
_WHOLE_TILES = re.compile(r"segment_k_off")
# ROCm records the grid of kernels that are started as modules (Tensile's) in threads, not in blocks.
_GRID_OF_THREADS = re.compile(r"Cijk_")


@lru_cache(maxsize=16384)
def parse_tile(kernel_name: str) -> GemmTile | None:
    """The tile in a kernel's name, None without one."""
    for pattern, along in _TABLE:
        match = pattern.search(kernel_name)
        if match is not None:
            first, second, depth = match.groups()
            return GemmTile(int(first), int(second), None if depth is None else int(depth), along)
    return None


def has_whole_tiles(kernel_name: str) -> bool:
    """True if a kernel with fewer blocks than tiles is known not to split tiles among blocks."""
    return _WHOLE_TILES.search(kernel_name) is not None


def has_grid_of_threads(kernel_name: str) -> bool:
    """True if a trace records such a kernel's grid in threads."""
    return _GRID_OF_THREADS.match(kernel_name) is not None
