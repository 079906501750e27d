"""Saved activations in 8 bits, against hand calculations."""

import pytest
import torch

from perfkit.techniques.activations.quantized_store import (
    BLOCK,
    QuantizedStore,
    RoundingError,
    dequantize_page,
    quantize_values,
)


def test_a_block_is_multiples_of_its_largest_magnitude_by_127() -> None:
    values = torch.full((BLOCK,), 12.7)
    values[0], values[1] = -3.14, 127.0  # a step is 1.0
    assert dequantize_page(quantize_values(values))[:3].tolist() == [-3.0, 127.0, 13.0]


def test_each_block_has_its_own_scale() -> None:
    values = torch.cat([torch.linspace(1, 2, BLOCK), torch.linspace(1e-4, 2e-4, BLOCK), torch.ones(3)])
    error = (dequantize_page(quantize_values(values)) - values).abs()
    assert error[:BLOCK].max() <= 2 / 254 * 1.001
    assert error[BLOCK : 2 * BLOCK].max() <= 2e-4 / 254 * 1.001
    assert error[2 * BLOCK :].max() < 1e-6  # a part of a block


def test_dense_values_take_a_byte_and_a_scale_a_block() -> None:
    page = quantize_values(torch.linspace(1, 2, 4 * BLOCK))
    assert page.mask is None
    assert page.nbytes == 4 * BLOCK + 4 * 4


def test_of_sparse_values_only_the_others_take_a_byte() -> None:
    values = torch.zeros(4 * BLOCK)
    values[::4] = torch.linspace(1, 2, BLOCK)
    page = quantize_values(values)
    assert page.nbytes == BLOCK + 4 * 4 + 4 * BLOCK // 8
    found = dequantize_page(page)
    assert torch.equal(found == 0, values == 0)
    assert (found - values).abs().max() <= 2 / 254 * 1.001


def test_zeros_stay_zeros() -> None:
    assert torch.equal(dequantize_page(quantize_values(torch.zeros(BLOCK))), torch.zeros(BLOCK))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_storage_comes_back_with_its_size_and_dtype(dtype: torch.dtype) -> None:
    values = torch.linspace(-1, 1, 1000).to(dtype)
    store = QuantizedStore(dtype, RoundingError())
    page = store.put(values.view(torch.uint8))
    storage = torch.UntypedStorage(0)
    store.get(page, storage)
    assert storage.nbytes() == values.nbytes
    back = torch.empty(0, dtype=dtype).set_(storage)
    assert (back.float() - values.float()).abs().max() <= 1 / 127


def test_the_error_is_the_root_mean_square_of_what_is_lost() -> None:
    values = torch.full((BLOCK,), 0.25)
    values[0] = 127.0  # all others are rounded to nothing
    error = RoundingError()
    QuantizedStore(torch.float32, error).put(values.view(torch.uint8))
    expected = (255 * 0.25**2 / (255 * 0.25**2 + 127.0**2)) ** 0.5
    assert error.relative == pytest.approx(expected)


def test_after_it_is_closed_nothing_is_added() -> None:
    error = RoundingError(open=False)
    QuantizedStore(torch.float32, error).put(torch.ones(BLOCK).view(torch.uint8))
    assert error.relative == 0.0
