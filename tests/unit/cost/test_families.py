"""Ops of every family against torch: bytes of what it really reads and writes, and FLOPs known."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from tests.fixtures.op_calls import Calls


def _x(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(shape).to(dtype)


def _grad(call: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> None:
    x = _x(*shape).requires_grad_()
    call(x).sum().backward()


IMAGE = (2, 3, 8, 6)
SPD = torch.eye(5).expand(3, 5, 5).contiguous()

# Each op reads all distinct elements of its inputs once, and writes its outputs once.
PLAIN: dict[str, Callable[[], Any]] = {
    "upsample_nearest2d": lambda: F.interpolate(_x(*IMAGE), scale_factor=2),
    "upsample_nearest1d": lambda: F.interpolate(_x(2, 3, 8), size=13),
    "upsample_nearest3d": lambda: F.interpolate(_x(2, 3, 4, 5, 6), scale_factor=2),
    "upsample_bilinear2d": lambda: F.interpolate(_x(*IMAGE), size=(11, 13), mode="bilinear"),
    "upsample_bicubic2d": lambda: F.interpolate(_x(*IMAGE), scale_factor=1.5, mode="bicubic"),
    "upsample_linear1d": lambda: F.interpolate(_x(2, 3, 8), scale_factor=2, mode="linear"),
    "upsample_trilinear3d": lambda: F.interpolate(_x(2, 3, 4, 5, 6), scale_factor=2, mode="trilinear"),
    "_upsample_nearest_exact2d": lambda: F.interpolate(_x(*IMAGE), scale_factor=2, mode="nearest-exact"),
    "_upsample_bilinear2d_aa": lambda: F.interpolate(_x(*IMAGE), scale_factor=2, mode="bilinear", antialias=True),
    "upsample_bilinear2d_backward": lambda: _grad(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), *IMAGE),
    "upsample_nearest2d_backward": lambda: _grad(lambda x: F.interpolate(x, scale_factor=2), *IMAGE),
    "grid_sampler_2d": lambda: F.grid_sample(_x(2, 3, 4, 4), _x(2, 5, 6, 2), align_corners=False),
    "reflection_pad2d": lambda: F.pad(_x(*IMAGE), (1, 2, 3, 1), mode="reflect"),
    "replication_pad1d": lambda: F.pad(_x(2, 3, 8), (1, 2), mode="replicate"),
    "constant_pad_nd": lambda: F.pad(_x(*IMAGE), (1, -2, 3, 0)),
    "im2col": lambda: F.unfold(_x(*IMAGE), (3, 2), padding=1, stride=2),
    "col2im": lambda: F.fold(_x(2, 3 * 6, 16), (8, 6), (3, 2), padding=1, stride=(2, 2)),
    "affine_grid_generator": lambda: torch.ops.aten.affine_grid_generator(_x(2, 2, 3), [2, 3, 4, 5], False),
    "index_select": lambda: _x(4, 3).index_select(0, torch.arange(4)),
    "take": lambda: _x(4, 3).take(torch.arange(12)),
    "bucketize": lambda: torch.bucketize(_x(4, 3), _x(7)),
    "searchsorted": lambda: torch.searchsorted(_x(7), _x(4, 3), out_int32=True),
    "isin": lambda: torch.isin(_x(4, 3), _x(7)),
    "kthvalue": lambda: _x(4, 30).kthvalue(3, dim=1),
    "median": lambda: _x(4, 30).median(1),
    "mode": lambda: _x(4, 30).mode(1),
    "masked_scatter": lambda: torch.ops.aten.masked_scatter(_x(4, 3), _x(4, 3) > 2, _x(0)),
    "cumprod": lambda: _x(4, 3).cumprod(0),
    "_logcumsumexp": lambda: _x(4, 3).logcumsumexp(0),
    "cummax": lambda: torch.ops.aten.cummax(_x(4, 3), 0),
    "aminmax": lambda: _x(4, 3).aminmax(dim=1),
    "count_nonzero": lambda: _x(4, 3).count_nonzero(1),
    "roll": lambda: _x(4, 3).roll(1, 0),
    "flip": lambda: _x(4, 3).flip(0),
    "tril": lambda: _x(4, 4).tril(),
    "pixel_shuffle": lambda: F.pixel_shuffle(_x(2, 8, 3, 3), 2),
    "channel_shuffle": lambda: torch.ops.aten.native_channel_shuffle(_x(2, 8, 3, 3), 2),
    "diag_embed": lambda: torch.diag_embed(_x(3, 4)),
    "arange": lambda: torch.arange(3, 17, 4),
    "arange_float": lambda: torch.arange(0, 1, 0.3),
    "linspace": lambda: torch.linspace(0, 1, 7),
    "eye": lambda: torch.eye(4),
    "eye_m": lambda: torch.eye(4, 6, dtype=torch.float64),
    "tril_indices": lambda: torch.tril_indices(5, 3, 1),
    "triu_indices": lambda: torch.triu_indices(5, 7, -2),
    "randperm": lambda: torch.randperm(9),
    "randint": lambda: torch.randint(0, 5, (3, 4)),
    "full": lambda: torch.full((3, 4), 1.5),
    "normal": lambda: torch.normal(_x(3, 4), _x(3, 4)),
    "bernoulli": lambda: torch.bernoulli(_x(3, 4)),
    "multinomial": lambda: torch.multinomial(_x(3, 9), 2),
    "fft": lambda: torch.fft.fft(_x(3, 8, dtype=torch.complex64)),
    "rfft": lambda: torch.fft.rfft2(_x(3, 8, 6)),
    "irfft": lambda: torch.fft.irfft(_x(3, 5, dtype=torch.complex64), n=9),
    "cdist": lambda: torch.cdist(_x(2, 4, 3), _x(2, 5, 3)),
    "pdist": lambda: F.pdist(_x(6, 3)),
    "linalg_cross": lambda: torch.linalg.cross(_x(4, 3), _x(4, 3)),
    "qr": lambda: torch.linalg.qr(_x(2, 6, 4)),
    "svd": lambda: torch.linalg.svd(_x(2, 6, 4), full_matrices=False),
    "eigh": lambda: torch.linalg.eigh(SPD),
    "solve_triangular": lambda: torch.linalg.solve_triangular(SPD, _x(3, 5, 2), upper=True),
    "addr": lambda: torch.addr(_x(4, 3), _x(4), _x(3)),
    "baddbmm": lambda: torch.baddbmm(_x(2, 3, 4), _x(2, 3, 5), _x(2, 5, 4)),
    "addmv": lambda: torch.addmv(_x(4), _x(4, 3), _x(3)),
    "dot": lambda: torch.dot(_x(4), _x(4)),
    "glu": lambda: F.glu(_x(4, 6)),
    "glu_backward": lambda: _grad(F.glu, 4, 6),
    "prelu": lambda: F.prelu(_x(4, 6), _x(6)),
    "mish_backward": lambda: _grad(F.mish, 4, 6),
    "softplus_backward": lambda: _grad(F.softplus, 4, 6),
    "hardtanh_backward": lambda: _grad(F.hardtanh, 4, 6),
    "hardsigmoid_backward": lambda: _grad(F.hardsigmoid, 4, 6),
    "hardswish_backward": lambda: _grad(F.hardswish, 4, 6),
    "softshrink_backward": lambda: _grad(F.softshrink, 4, 6),
    "celu": lambda: F.celu(_x(4, 6)),
    "logaddexp2": lambda: torch.logaddexp2(_x(4, 6), _x(6)),
    "complex": lambda: torch.complex(_x(4, 6), _x(4, 6)),
    "polar": lambda: torch.polar(_x(4, 6), _x(4, 6)),
    "angle": lambda: torch.angle(_x(4, 6)),
    "signbit": lambda: torch.signbit(_x(4, 6)),
    "fake_quantize": lambda: torch.fake_quantize_per_tensor_affine(_x(4, 6), 0.1, 0, 0, 255),
    "adaptive_max_pool2d": lambda: F.adaptive_max_pool2d(_x(*IMAGE), (3, 2)),
    "max_unpool2d": lambda: torch.ops.aten.max_unpool2d(_x(1, 1, 2, 2), torch.tensor([[[[0, 3], [8, 11]]]]), [4, 4]),
    "avg_pool3d": lambda: F.avg_pool3d(_x(1, 2, 4, 4, 4), 2),
    "fractional": lambda: F.fractional_max_pool2d(_x(2, 3, 9, 9), 2, output_size=(4, 4)),
    "batch_norm_no_training": lambda: torch.ops.aten._native_batch_norm_legit_no_training(
        _x(2, 3, 4), None, None, _x(3), _x(3), 0.1, 1e-5
    )[0],
    "multi_margin": lambda: F.multi_margin_loss(_x(4, 5), torch.tensor([1, 2, 3, 4])),
    "soft_margin": lambda: F.soft_margin_loss(_x(4, 5), _x(4, 5), reduction="none"),
    "renorm": lambda: _x(4, 5).renorm(2, 0, 1.0),
    "foreach_clamp_max": lambda: torch._foreach_clamp_max([_x(4), _x(5)], 0.5),
    "conv_tbc": lambda: torch.conv_tbc(_x(7, 2, 3), _x(3, 3, 4), _x(4), 1),
    "equal": lambda: torch.ops.aten.equal(_x(4, 3), _x(4, 3)),
}

# What prepares the inputs of the ops above, and what reads less than all of its input.
_ASIDE = frozenset({"aten::rand", "aten::ones_like", "aten::sum", "aten::_to_copy", "aten::gt", "aten::expand"})
_NOT_A_TENSOR = {"aten::equal": 1}  # a result that is no tensor, in bytes


@pytest.mark.parametrize("name", PLAIN)
def test_bytes_read_and_written(name: str) -> None:
    with Calls() as calls:
        PLAIN[name]()
    checked = 0
    for op, (cost, expected) in calls.seen.items():
        assert cost is not None, op
        assert cost.flops is not None, op
        if cost.source == "no work" or op in _ASIDE:
            continue
        assert cost.bytes == expected + _NOT_A_TENSOR.get(op, 0), op
        checked += 1
    assert checked
