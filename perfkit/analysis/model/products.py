"""GEMMs and fused attention by size: the distance of each kernel from its roof, and the reason."""

from perfkit.spec import Struct


class ProductRow(Struct):
    """Equal calls in one phase whose work one and the same kernel does, per step. None where something is not known.

    `name` is the op, `kernel` what does most of its arithmetic, empty on a CPU. `seconds`, `flops`, `bytes` and the
    roof are of all that an op launches (sums of a split K, too). `bound` and `attainable_s` are those of an `OpRow`:
    the higher of both roofs, so that a narrow product is held against the bandwidth. `blocks` are in the kernel's
    grid, `units` are the device's multiprocessors; `waves` and `wave_loss` as `perfkit.analysis.trace.quantization`
    counts them, None for a persistent kernel.
    """

    name: str
    kernel: str
    phase: str
    shapes: str
    dtype: str
    unit: str
    calls: float
    seconds: float
    share: float
    flops: float | None
    bytes: float | None
    flops_per_s: float | None
    bound: str
    level: str
    attainable_s: float | None
    efficiency: float | None
    above_roof: bool = False
    efficiency_reason: str = ""
    blocks: int | None = None
    units: int | None = None
    waves: float | None = None
    wave_loss: float | None = None


class GemmRow(ProductRow):
    """A batch of products (m, k) x (k, n). `layout` is that of an `OpRow`.

    `tile` is what one block computes, as the kernel's name tells (two sizes of the result, the part of K), empty where
    it does not. `tile_loss` is the share of the arithmetic that is outside of the product, `split_k` into how many
    parts K is cut, None for a persistent kernel and where its grid does not tell.
    """

    batch: int
    m: int
    n: int
    k: int
    layout: str = ""
    tile: str = ""
    tiles: int | None = None
    tile_loss: float | None = None
    split_k: int | None = None


class AttentionRow(ProductRow):
    """Attention of `queries` to `keys`, of all sequences together (`batch` None) where they are packed.

    `is_masked`: a causal mask or a sliding window leaves out pairs. `has_mask_tensor`: a mask or bias is a tensor.
    `backend` is the library, empty where neither op nor kernel tells it.
    """

    batch: int | None
    heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    backward: bool
    is_masked: bool
    has_mask_tensor: bool = False
    backend: str = ""
