"""GEMMs and fused attention by size: the distance of each kernel from its roof, and the reason."""

from perfkit.core.spec import Struct


class ProductRow(Struct):
    """Equal calls in one phase whose work the same kernel does, per step. None where unknown.

    `name` is the op. `kernel` does most of its arithmetic, empty on a CPU. `seconds`, `flops`, `bytes` and the roof
    cover all that an op launches (sums of a split K, too). `bound` and `attainable_s` are as in `OpRow`: by the higher
    of both roofs, so that a skinny GEMM is compared with the bandwidth. `blocks` are the blocks of the kernel's grid.
    `units` are the device's multiprocessors, `device` its name where a trace has several kinds of them. `waves` and
    `wave_loss` are as `perfkit.analysis.trace.roofline.quantization` counts them, None for a persistent kernel.
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
    device: str = ""


class GemmRow(ProductRow):
    """A batch of products (m, k) x (k, n). `layout` is as in `OpRow`.

    `tile` is what one block computes, from the kernel's name (two sizes of the result, the part of K), empty where it
    is not shown. `tile_loss` is the share of arithmetic outside the result. `split_k` is the number of parts of K, None
    for a persistent kernel and where its grid does not show it.
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

    `is_masked` is set where a causal mask or a sliding window excludes pairs. `has_mask_tensor` is set where a mask or
    bias is a tensor. `backend` is the library, empty where neither op nor kernel shows it.
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
