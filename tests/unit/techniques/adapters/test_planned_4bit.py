"""The layer that stands for one of 4 bits in plans: sizes as of the real one, and no kept weight."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.plan.target.target import parse_target
from perfkit.plan.variants.plan import plan_variants
from perfkit.store.request import BenchRequest
from perfkit.techniques.adapters.planned_4bit import PlannedLinear4bit


@pytest.mark.parametrize(("inputs", "outputs"), [(1024, 512), (96, 80), (7, 9)])
def test_a_weight_takes_half_a_byte_and_its_scales(inputs: int, outputs: int) -> None:
    with FakeTensorMode():
        layer = PlannedLinear4bit(nn.Linear(inputs, outputs, bias=False))
        kept = sum(tensor.nbytes for tensor in (layer.weight, *layer.buffers()))
        features = torch.empty(3, inputs, dtype=torch.bfloat16, requires_grad=True)
        saved: list[torch.Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda each: each):
            product = layer(features)
        product.sum().backward()
    count = inputs * outputs
    assert kept == pytest.approx((0.5 + 1 / 64 + 4 / 64 / 256) * count, abs=5)
    assert (product.shape, product.dtype) == ((3, outputs), torch.bfloat16)
    assert features.grad is not None
    assert all(tensor.numel() <= (count + 1) // 2 for tensor in saved)


def test_a_plan_of_adapters_over_4_bits_takes_less_than_over_whole_weights() -> None:
    pytest.importorskip("peft")
    pytest.importorskip("bitsandbytes")
    request = BenchRequest(
        workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
        variants=tuple(parse_variants("lora,qlora")),
        device="cpu",
        device_count=0,
        cores=1,
    )
    _, lora, qlora = plan_variants(request, parse_target("rtx-4090", None))
    assert lora.peak_allocated_bytes is not None
    assert qlora.peak_allocated_bytes is not None
    assert qlora.step_s is not None
    kept = [peak.categories["parameter"] for peak in (lora.peak_allocated_bytes, qlora.peak_allocated_bytes)]
    assert kept[1] < kept[0]
