"""Ops of six classes, each in a program of its own that is small enough to be counted in seconds.

    ncu ... python -m benchmarks.gpu.op_classes GEMM costs.json --device cuda

The program calls the op once under perfkit's count, which also warms up, writes the modeled FLOPs and bytes of
`LAUNCHES` calls, and then makes that many calls between cudaProfilerStart and cudaProfilerStop. Operands are larger
than any L2 cache, so that modeled bytes are comparable with those of device memory.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LAUNCHES = 2

Op = Callable[[], Any]


@dataclass(frozen=True)
class Modeled:
    """FLOPs and bytes of all calls by perfkit's formulas, None where an op has none, and the ops that were called."""

    flops: float | None
    bytes: float | None
    ops: tuple[str, ...]


def build_gemm(device: str) -> Op:
    """A product of square bf16 matrices."""
    import torch

    size = 8192 if device == "cuda" else 64
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return lambda: torch.mm(left, right)


def build_convolution(device: str) -> Op:
    """A 3 x 3 convolution of bf16 images, channels last."""
    import torch

    batch, channels, size = (128, 128, 56) if device == "cuda" else (2, 4, 8)
    images = torch.randn(batch, channels, size, size, device=device, dtype=torch.bfloat16)
    weight = torch.randn(channels, channels, 3, 3, device=device, dtype=torch.bfloat16)
    images, weight = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (images, weight))
    return lambda: torch.nn.functional.conv2d(images, weight, padding=1)


def build_attention(device: str) -> Op:
    """Fused attention in bf16 without a mask."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    shape = (32, 16, 2048, 64) if device == "cuda" else (1, 2, 16, 8)
    query, key, value = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))

    def attend() -> "torch.Tensor":
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    return attend


def build_norm(device: str) -> Op:
    """A layer norm over rows of 4,096 fp32 numbers."""
    import torch

    rows, width = (65536, 4096) if device == "cuda" else (16, 64)
    x = torch.randn(rows, width, device=device)
    weight, bias = torch.ones(width, device=device), torch.zeros(width, device=device)
    return lambda: torch.nn.functional.layer_norm(x, (width,), weight, bias)


def build_elementwise(device: str) -> Op:
    """A GELU of fp32 numbers."""
    import torch

    x = torch.randn(2**28 if device == "cuda" else 2**10, device=device)
    return lambda: torch.nn.functional.gelu(x)


def build_optimizer(device: str) -> Op:
    """AdamW's fused update of fp32 parameters."""
    import torch

    parameter = torch.nn.Parameter(torch.randn(2**26 if device == "cuda" else 2**10, device=device))
    parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    return optimizer.step


BUILDERS: dict[str, Callable[[str], Op]] = {
    "GEMM": build_gemm,
    "convolution": build_convolution,
    "attention": build_attention,
    "norm": build_norm,
    "elementwise": build_elementwise,
    "optimizer": build_optimizer,
}


def model_op(call: Op) -> Modeled:
    """Call an op once and model `LAUNCHES` calls of it."""
    import torch

    from perfkit.cost.calls.op_call import OpCall, OpCost
    from perfkit.cost.live_flops import CostingMode

    costs: dict[str, list[OpCost | None]] = {}

    class Costs(CostingMode):
        def called(self, call: OpCall, cost: OpCost | None, result: Any) -> None:
            costs.setdefault(call.name, []).append(cost)

    with torch.no_grad(), Costs():
        call()
    all_costs = [cost for each in costs.values() for cost in each]
    return Modeled(
        flops=_sum([cost and cost.flops for cost in all_costs]),
        bytes=_sum([cost and cost.bytes for cost in all_costs]),
        ops=tuple(costs),
    )


def run_counted(call: Op) -> None:
    """Make `LAUNCHES` calls that a profiler counts."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    with torch.no_grad():
        for _ in range(LAUNCHES):
            call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return LAUNCHES * sum(known) if known and len(known) == len(values) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("op_class", choices=BUILDERS)
    parser.add_argument("costs", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    given = parser.parse_args()
    call = BUILDERS[given.op_class](given.device)
    call()  # an optimizer makes its state, and libraries choose their kernels
    given.costs.write_text(json.dumps(asdict(model_op(call))))
    if given.device == "cuda":
        run_counted(call)


if __name__ == "__main__":
    main()
