"""Saved activations in 8 bits, or fewer where many are zero, after Gist (Jain et al., ISCA 2018, sections 4.2 and 4.3).

Values are cut into blocks of 256. A value becomes the nearest of 255 multiples of its block's largest magnitude / 127.
If at least an eighth of all values are zero (behind ReLU and dropout), a bit per value marks zeros, and only the others
take 8 bits.
"""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812

from perfkit.techniques.activations.paging import StoredPage, view_as_bytes

BLOCK = 256
_LEVELS = 127

# From here on the bit of every value costs more than the zeros save.
_DENSE = 7 / 8


@dataclass(frozen=True)
class QuantizedPage:
    """Codes in 8 bits with a scale a block. With `mask`, a bit a value, codes are those of its ones."""

    codes: torch.Tensor
    scales: torch.Tensor
    mask: torch.Tensor | None
    count: int

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes + (0 if self.mask is None else self.mask.nbytes)


@dataclass
class RoundingError:
    """Sums of squares of the rounding errors and of the values, while it is open."""

    open: bool = True
    lost: torch.Tensor = field(default_factory=lambda: torch.zeros(()))
    total: torch.Tensor = field(default_factory=lambda: torch.zeros(()))

    def add(self, values: torch.Tensor, page: QuantizedPage) -> None:
        exact = values.float()
        self.lost = self.lost.to(values.device) + (exact - dequantize_page(page)).square().sum()
        self.total = self.total.to(values.device) + exact.square().sum()

    @property
    def relative(self) -> float:
        """Root mean square of the rounding errors, relative to that of the values; 0 without values."""
        total = float(self.total)
        return math.sqrt(float(self.lost) / total) if total else 0.0


class QuantizedStore:
    """Keeps storages of one floating dtype on the device, in fewer bits."""

    def __init__(self, dtype: torch.dtype, error: RoundingError) -> None:
        self._dtype = dtype
        self._error = error

    def put(self, data: torch.Tensor) -> QuantizedPage:
        values = data.view(self._dtype)
        page = quantize_values(values)
        if self._error.open:
            self._error.add(values, page)
        return page

    def get(self, page: StoredPage, into: torch.UntypedStorage) -> None:
        assert isinstance(page, QuantizedPage)
        into.resize_(page.count * self._dtype.itemsize)
        view_as_bytes(into).view(self._dtype).copy_(dequantize_page(page))

    def close(self) -> None:
        """Nothing to delete: pages hold the data."""


def quantize_values(values: torch.Tensor) -> QuantizedPage:
    """A flat floating tensor of finite values in 8 bits each, or fewer."""
    padding = -values.numel() % BLOCK
    blocks = F.pad(values, (0, padding)).float().view(-1, BLOCK)
    scales = blocks.abs().amax(dim=1, keepdim=True) / _LEVELS
    codes = (blocks / scales.clamp(min=torch.finfo(torch.float32).tiny)).round_().to(torch.int8).view(-1)
    kept = codes != 0
    if int(kept.sum()) > _DENSE * values.numel():
        return QuantizedPage(codes, scales, None, values.numel())
    return QuantizedPage(codes[kept], scales, _pack_bits(kept), values.numel())


def dequantize_page(page: QuantizedPage) -> torch.Tensor:
    """The values in fp32."""
    codes = page.codes
    if page.mask is not None:
        kept = _unpack_bits(page.mask)
        codes = torch.zeros(kept.numel(), dtype=torch.int8, device=codes.device).masked_scatter_(kept, page.codes)
    return (codes.view(-1, BLOCK) * page.scales).view(-1)[: page.count]


def _pack_bits(bits: torch.Tensor) -> torch.Tensor:
    """Eight booleans a byte."""
    return (bits.view(-1, 8) * _make_bit_weights(bits)).sum(dim=1, dtype=torch.uint8)


def _unpack_bits(packed: torch.Tensor) -> torch.Tensor:
    return (packed.unsqueeze(1) & _make_bit_weights(packed)).bool().view(-1)


def _make_bit_weights(like: torch.Tensor) -> torch.Tensor:
    return torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=like.device)
