"""Counting live: equal to torch's counter on what it knows, and right where it is not."""

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from perfkit.cost.live_flops import FlopCount, count_flops


def torch_count(step: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 8))


def resnet_block() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 4, 2)
    )


@pytest.mark.parametrize(
    ("build", "shape"),
    [(mlp, (5, 16)), (resnet_block, (2, 3, 9, 9))],
    ids=["mlp", "convolutions"],
)
def test_equal_to_torch_on_what_it_knows(build: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    model, x = build(), torch.randn(shape)

    def step() -> None:
        model(x).square().mean().backward()

    found = count_flops(step)
    assert found.matrix == torch_count(step) > 0
    assert found.uncounted == {}


def test_linear_by_hand() -> None:
    layer = nn.Linear(16, 64)
    x = torch.randn(5, 16)
    forward = 2 * 5 * 16 * 64
    assert count_flops(lambda: layer(x)).matrix == forward
    # The weight's gradient costs as much again; the input asks for none.
    found = count_flops(lambda: layer(x).sum().backward())
    assert found.matrix == 2 * forward
    assert found.matrix_by_op == {"aten::addmm": forward, "aten::mm": forward}
    # sum of the output: 5 x 64; gradient of the bias: sum of 5 x 64
    assert found.total == 2 * forward + 2 * 5 * 64
    assert sum(found.by_op.values()) == found.total


@pytest.mark.parametrize("causal", [False, True])
def test_cpu_flash_attention_which_torch_counts_as_nothing(causal: bool) -> None:
    q = torch.randn(2, 4, 16, 8, requires_grad=True)
    product = 2 * 2 * 4 * 16 * 16 * 8

    def step() -> None:
        F.scaled_dot_product_attention(q, q, q, is_causal=causal).sum().backward()

    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.FLASH_ATTENTION):
        count = count_flops(step)
        assert count.unmasked == (2 + 5) * product
        assert count.matrix == ((2 + 5) * product * 17 / 32 if causal else count.unmasked)  # 16 x 17 / 2 of 16 x 16
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        # Explicit attention keeps its scores: four products in backward, not five.
        found = count_flops(step)
        assert found.matrix == torch_count(step) == (2 + 4) * product


def test_grouped_mm_which_torch_does_not_know() -> None:
    x = torch.randn(12, 16, dtype=torch.bfloat16)
    weight = torch.randn(3, 16, 32, dtype=torch.bfloat16)
    offsets = torch.tensor([4, 8, 12], dtype=torch.int32)
    grouped_mm = getattr(F, "grouped_mm", torch._grouped_mm)
    assert count_flops(lambda: grouped_mm(x, weight, offs=offsets)).matrix == 2 * 12 * 16 * 32


def test_recomputation_is_counted() -> None:
    model, x = mlp(), torch.randn(5, 16, requires_grad=True)
    plain = count_flops(lambda: model(x).sum().backward())
    again = count_flops(lambda: checkpoint(model, x, use_reentrant=False).sum().backward())  # type: ignore[union-attr]
    first, second = 2 * 5 * 16 * 64, 2 * 5 * 64 * 8
    assert plain.matrix == 3 * (first + second)
    # Recomputing stops once the last saved tensor is there, which is the input of the last layer.
    assert again.matrix == plain.matrix + first


def test_autocast_and_optimizer() -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.randn(5, 16)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    found = count_flops(step)
    parameters = 16 * 64 + 64 + 64 * 8 + 8
    assert found.by_op["aten::_fused_adamw_"] == 14 * parameters
    assert found.matrix == torch_count(step)
    assert found.uncounted == {}


def test_inference_mode_splits_compositions() -> None:
    model, x = mlp(), torch.randn(5, 16)
    with torch.inference_mode():
        assert count_flops(lambda: model(x)).matrix == 2 * 5 * (16 * 64 + 64 * 8)


def test_unknown_ops_are_named_with_their_calls() -> None:
    found = count_flops(lambda: [torch.special.bessel_j1(torch.ones(3)) for _ in range(2)])
    assert found.uncounted == {"aten::special_bessel_j1": 2}
    assert found.total == 0


def test_compiled_code_is_counted_op_by_op() -> None:
    model, x = mlp(), torch.randn(5, 16)
    compiled = torch.compile(model, fullgraph=True)
    plain = count_flops(lambda: model(x).sum().backward())
    model.zero_grad()  # else gradients are added to those of the first step
    assert count_flops(lambda: compiled(x).sum().backward()) == plain


def test_higher_order_ops_run_and_are_named() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 2, 128, 16)
    assert count_flops(lambda: flex_attention(q, q, q)).uncounted == {"higher_order::flex_attention": 1}


def test_out_and_in_place_variants() -> None:
    a, b, out = torch.randn(3, 5), torch.randn(5, 7), torch.empty(3, 7)
    assert count_flops(lambda: torch.mm(a, b, out=out)).matrix == 2 * 3 * 5 * 7
    assert count_flops(lambda: out.addmm_(a, b)).matrix == 2 * 3 * 5 * 7


def test_fake_tensors_count_under_their_mode() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        model, x = mlp(), torch.randn(5, 16)
        assert count_flops(lambda: model(x)).matrix == 2 * 5 * (16 * 64 + 64 * 8)


@pytest.fixture
def two_ranks() -> Iterator[None]:
    """A process group that pretends to have a second rank."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("two_ranks")
def test_distributed_tensors_count_the_local_shard() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2,))
    a = distribute_tensor(torch.randn(8, 6), mesh, [Shard(0)])
    b = distribute_tensor(torch.randn(6, 10), mesh, [Replicate()])
    found = count_flops(lambda: (a @ b).full_tensor())
    assert found.matrix == 2 * 4 * 6 * 10
    assert found.uncounted == {}


@pytest.mark.usefixtures("two_ranks")
def test_fully_sharded_step() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, x = mlp(), torch.randn(5, 16)
    expected = count_flops(lambda: model(x).sum().backward())
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()

    found: FlopCount = count_flops(step)
    assert found.matrix == expected.matrix
    assert found.uncounted == {}
