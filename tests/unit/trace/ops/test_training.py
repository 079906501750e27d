"""Whether a traced program trains, only infers, or may do either."""

from pathlib import Path

import pytest

from perfkit.trace.ops.training import find_training, has_recorded_graph
from tests.fixtures.trace_events import Event, event, kernel, ops_of, range_, sequence


def layer(name: str, ts: float, position: int, mode: str, number: int = -1) -> Event:
    """A layer with its mode as an argument, and autograd's number where there is one."""
    values = [""] * position + [mode]
    numbered = sequence(number) if number >= 0 else {}
    return event(name, ts, 2, **{"Input type": [""] * len(values), "Concrete Inputs": values, **numbered})


def forward(count: int, first: int = 1, *, rising: bool = True) -> list[Event]:
    return [
        event("aten::relu", 10 * n, 5, **(sequence(first + n * rising) if first >= 0 else {})) for n in range(count)
    ]


@pytest.mark.parametrize(
    "sign",
    [
        event("autograd::engine::evaluate_function: ReluBackward0", 90, 5, tid=2),
        event("aten::threshold_backward", 90, 5, tid=2),
        range_("Optimizer.step#Lion.step", 90, 5),
        kernel("cudnn_bn_bwd_tensor_backward_nhwc", 90, 5),
        kernel("sm80_xmma_dgrad_implicit_gemm", 90, 5),
    ],
    ids=lambda sign: sign["name"],
)
def test_gradients_and_optimizers_are_training(tmp_path: Path, sign: Event) -> None:
    assert find_training(ops_of(tmp_path, *forward(3), sign)) is True


def test_without_a_graph_it_is_inference(tmp_path: Path) -> None:
    unnumbered, constant = ops_of(tmp_path, *forward(3, first=-1)), ops_of(tmp_path, *forward(3, rising=False))
    assert [find_training(ops) for ops in (unnumbered, constant)] == [False, False]
    assert not has_recorded_graph(constant)


def test_a_recorded_graph_may_be_the_forward_part_of_training(tmp_path: Path) -> None:
    ops = ops_of(tmp_path, *forward(4))
    assert (find_training(ops), has_recorded_graph(ops)) == (None, True)


@pytest.mark.parametrize(("name", "position"), [("aten::dropout", 2), ("aten::batch_norm", 5)])
@pytest.mark.parametrize(("mode", "expected"), [("False", False), ("True", None)])
def test_layers_in_evaluation_are_inference_even_with_a_graph(
    tmp_path: Path, name: str, position: int, mode: str, expected: bool | None
) -> None:
    assert find_training(ops_of(tmp_path, *forward(4), layer(name, 60, position, mode, number=9))) is expected


@pytest.mark.parametrize(
    ("sign", "expected"),
    [
        (event("aten::native_dropout", 60, 2), None),
        (kernel("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", 60, 2), None),
        (kernel("void cudnn::bn_fw_inf_1C11_kernel_NCHW<float>", 60, 2), False),
    ],
)
def test_ops_and_kernels_of_one_mode(tmp_path: Path, sign: Event, expected: bool | None) -> None:
    assert find_training(ops_of(tmp_path, *forward(3), sign)) is expected


def test_kernels_and_collectives_alone_do_not_tell(tmp_path: Path) -> None:
    assert find_training(ops_of(tmp_path, event("aten::empty", 0, 5), range_("gloo:all_reduce", 9, 5))) is None
    assert find_training(ops_of(tmp_path, kernel("gemm_forward", 0, 5))) is None
    assert find_training(ops_of(tmp_path, kernel("flash_bwd_kernel_backward_x", 0, 5), kernel("a_bwd_b", 9, 1))) is True
