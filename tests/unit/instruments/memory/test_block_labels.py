"""What blocks are told to be, against recordings written by hand."""

import torch

from perfkit.core.allocations import AUTOCAST, GRADIENT, OFFLOAD, PARAMETER, RECOMPUTED, WORKSPACE, InitialBlock
from perfkit.instruments.memory.block_labels import BlockLabel, SeenStorage, TensorOwner, label_blocks
from perfkit.instruments.memory.profiler_events import ForwardCall
from tests.unit.instruments.memory.hand import CPU, NOWHERE, at, made, recorded, use

CUDA = torch.device("cuda", 0)
WEIGHT = 77  # the object of a parameter
OWNERS = {WEIGHT: TensorOwner(PARAMETER, "h.0.fc.weight"), 99: TensorOwner(PARAMETER, "bias")}


def seen(time: int, name: str) -> SeenStorage:
    return SeenStorage(time, InitialBlock(address=1, size_bytes=400, category=GRADIENT, name=name))


def told(events, uses=(), places=None, *, calls=None, forwards=None, gradients=None) -> list[BlockLabel]:
    recording = recorded(list(events), list(uses), forwards=forwards or {})
    return label_blocks(recording, places or [NOWHERE] * len(events), calls or {}, OWNERS, gradients or {})


def test_op_line_shape_and_dtype_of_a_block_and_the_op_that_freed_it() -> None:
    block, free = told(
        [made(10, 1, 4096, "aten::mm", line="gpt.py:3 forward"), made(50, 1, -4096, "x", node="MmBackward0")],
        [use(5, 1, 5, 8, 8), use(20, 1, 6, 2, 2), use(30, 1, 7, 32, 32), use(60, 1, 8, 1024)],
    )
    # Of the tensors at its address only those between its birth and its end are its own, and one fills it.
    expected = BlockLabel(
        op="aten::mm", line="gpt.py:3 forward", shape="[32, 32]", dtype="fp32", keeper="MmBackward0", bytes=4096
    )
    assert block == expected
    assert free == expected


def test_sizes_on_cuda_are_rounded_to_512() -> None:
    (block,) = told([made(10, 1, 1024, device=CUDA)], [use(20, 1, 5, 129, dtype=torch.float64), use(30, 1, 6, 200)])
    assert (block.shape, block.dtype) == ("[200]", "fp32")  # 129 * 8 = 1032 are 1536 there, 200 * 4 = 800 are 1024
    (block,) = told([made(10, 1, 1024)], [use(30, 1, 6, 200)])
    assert block.shape == ""


MIB = 1 << 20


def held(size: int, *tensors: tuple[int, ...], device: torch.device = CUDA) -> tuple[str, int]:
    """Shape and bytes of what a block of `size` bytes holds, by the shapes of the fp32 tensors used there."""
    uses = [use(20 + number, 1, 5 + number, *shape) for number, shape in enumerate(tensors)]
    (block,) = told([made(10, 1, size, device=device)], uses)
    return block.shape, block.bytes


def test_a_block_that_was_not_split_holds_its_tensor() -> None:
    tensor = (384, 1024)  # 1.5 MiB
    assert held(2 * MIB, tensor) == ("[384, 1024]", 3 * MIB // 2)
    assert held(5 * MIB // 2, tensor) == ("[384, 1024]", 3 * MIB // 2), "1 MiB more is the most that is kept"
    assert held(5 * MIB // 2 + 512, tensor) == ("", 0)
    assert held(MIB, (128, 1024)) == ("", 0), "blocks for 1 MiB and less are split to the last unit"
    assert held(2 * MIB, tensor, device=CPU) == ("", 0), "a CPU's blocks are as large as was asked for"


def test_of_several_tensors_the_one_of_the_blocks_size_is_in_it_or_else_the_largest() -> None:
    rows, whole = (400, 1024), (512, 1024)
    assert held(2 * MIB, rows, whole)[0] == "[512, 1024]"
    assert held(5 * MIB // 2, rows, whole)[0] == "[512, 1024]", "rows of it are used too"


def test_tensors_of_the_training_state_tell_category_and_module() -> None:
    (gradient,) = told(
        [made(10, 1, 400, "aten::mm")],
        [use(20, 1, 88, 100)],
        [at("backward", module="else")],
        gradients={1: [seen(30, "h.0.fc.weight")]},
    )
    assert gradient == BlockLabel("aten::mm", "h.0.fc", "", "[100]", "fp32", GRADIENT, bytes=400)
    (top,) = told([made(10, 1, 400)], [use(20, 1, 99, 100)])
    assert (top.module, top.category) == ("", PARAMETER)


def test_an_address_is_a_gradients_only_while_that_is_there() -> None:
    """Another optimizer's step takes the addresses, and the objects, of gradients that are cleared before it."""
    events = [made(10, 1, 400), made(20, 1, -400), made(30, 1, 400), made(40, 1, -400), made(50, 1, 400)]
    uses = [use(12, 1, 88, 100), use(32, 1, 88, 100), use(52, 1, 88, 100)]
    found = told(events, uses, gradients={1: [seen(15, "critic.weight"), seen(55, "weight"), seen(60, "weight")]})
    assert [label.category for label in found] == [GRADIENT, GRADIENT, "", "", GRADIENT]
    assert [label.module for label in found] == ["critic", "critic", "", "", ""]


def test_a_cast_of_a_parameter_is_autocasts_copy() -> None:
    events = [
        made(10, 1, 8, "aten::_to_copy", inputs=(500,)),
        made(11, 2, 8, "aten::_to_copy", inputs=(600,)),
        made(12, 3, 8, "aten::mm", inputs=(500,)),
        made(13, 4, 8, "aten::_to_copy"),
    ]
    found = told(events, [use(5, 500, WEIGHT, 4)])
    assert [label.category for label in found] == [AUTOCAST, "", "", ""]


def test_a_copy_of_a_parameter_in_fp64_is_the_models_own() -> None:
    """`torch.slogdet(weight.double())` of a normalizing flow, without autocast."""
    for dtype, category in ((torch.float64, ""), (torch.bfloat16, AUTOCAST)):
        copy = made(10, 1, 3 * dtype.itemsize, "aten::_to_copy", inputs=(500,))
        found = told([copy], [use(5, 500, WEIGHT, 3), use(12, 1, 6, 3, dtype=dtype)])
        assert [label.category for label in found] == [category]


def test_a_cast_of_a_parameter_that_was_gathered_is_autocasts_copy() -> None:
    events = [made(10, 500, 8, "aten::split"), made(20, 1, 4, "aten::_to_copy", inputs=(500,))]
    places = [at("forward", sharding="FSDP::all_gather_copy_out (h)"), at("forward", module="h")]
    gathered, cast = told(events, places=places)
    assert gathered.op == "FSDP::all_gather_copy_out (h)"
    assert (gathered.category, cast.category) == ("", AUTOCAST)


def test_an_address_is_a_parameters_only_while_that_is_there() -> None:
    gathered = "FSDP::all_gather_copy_out (h)"
    events = [
        made(10, 500, 8, "aten::split"),
        made(20, 500, -8),
        made(30, 500, 8, "aten::mm"),  # a gradient in bf16, at the address of the weight before
        made(40, 1, 16, "aten::_to_copy", inputs=(500,)),
    ]
    places = [at("forward", sharding=gathered), at("forward"), at("backward"), at("backward")]
    assert [label.category for label in told(events, places=places)] == [""] * 4


def test_a_forward_in_backward_that_outlives_its_module_is_recomputed() -> None:
    inside = at("backward", module="h.0")
    stays, brief, free, of_backward = told(
        [made(10, 1, 8, "aten::gelu"), made(11, 2, 8), made(12, 2, -8), made(30, 3, 8)],
        places=[inside, inside, inside, at("backward")],
    )
    assert [label.category for label in (stays, brief, free, of_backward)] == [RECOMPUTED, "", "", ""]
    later = told([made(10, 1, 8), made(40, 1, -8)], places=[inside, at("backward")])
    assert [label.category for label in later] == [RECOMPUTED, RECOMPUTED]
    assert told([made(10, 1, 8)], places=[at("forward", module="h.0")])[0].category == ""


def test_what_a_product_makes_and_frees_in_one_call_is_workspace() -> None:
    def category(op: str, call: int) -> str:
        return told([made(10, 1, 8, op, call=3), made(11, 1, -8, op, call=call)])[0].category

    assert category("aten::mm", 3) == WORKSPACE
    assert category("aten::convolution_backward", 3) == WORKSPACE
    assert category("aten::mm", 4) == "", "freed in another call"
    assert category("aten::gelu", 3) == ""


def test_lines_of_perfkits_own_offloading() -> None:
    (block,) = told([made(10, 1, 8, "aten::copy_", line="activations/paging.py:7 fetch")])
    assert block.category == OFFLOAD


def test_what_an_optimizer_takes_that_is_stepped_in_pieces_is_its_own() -> None:
    (block,) = told([made(10, 1, 8, "aten::add", line="activations/paged_optimizer.py:7 step")])
    assert block.category == ""


def test_a_node_of_autograd_is_placed_by_the_forward_op_that_made_it() -> None:
    event = made(100, 1, 8, "MmBackward0", node="MmBackward0", sequence=4, line="trainer.py:1 step")
    calls, forwards = {4: at("forward", module="h.0.fc")}, {4: ForwardCall(10, 1, "gpt.py:9 forward")}
    (block,) = told([event], places=[at("backward")], calls=calls, forwards=forwards)
    assert (block.module, block.line) == ("h.0.fc", "gpt.py:9 forward")
    # Without a line of its own the op keeps that of the call of backward; a module around it now counts first.
    forwards = {4: ForwardCall(10, 1, "")}
    (block,) = told([event], places=[at("backward", module="now")], calls=calls, forwards=forwards)
    assert (block.module, block.line) == ("now", "trainer.py:1 step")


def test_frees_that_nobody_saw() -> None:
    """The next block at the address ends the one before it, and says nothing of what freed it."""
    first, second = told(
        [made(10, 1, 400, "aten::mm"), made(30, 1, 800, "aten::add")], [use(20, 1, 5, 100), use(40, 1, 6, 200)]
    )
    assert (first.op, first.shape, first.keeper) == ("aten::mm", "[100]", "")
    assert (second.op, second.shape, second.keeper) == ("aten::add", "[200]", "")
    assert told([made(10, 1, -8, "aten::mm")]) == [BlockLabel()], (
        "of a block from before the recording nothing is known"
    )
