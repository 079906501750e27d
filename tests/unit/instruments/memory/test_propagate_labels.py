"""Labels carried from the detailed step to others, against recordings written by hand."""

import torch

from perfkit.instruments.memory.block_labels import BlockLabel
from perfkit.instruments.memory.propagate_labels import propagate_labels
from tests.unit.instruments.memory.hand import at, made

CUDA = torch.device("cuda", 0)
MIB = 1 << 20


def carry(events, places, detailed, detailed_places, names) -> list[str]:
    known = [BlockLabel(op=name) for name in names]
    return [label.op for label in propagate_labels(events, places, detailed, detailed_places, known)]


def test_labels_are_carried_to_the_nth_of_a_size_in_the_same_module_and_phase() -> None:
    fc, head = at("forward", step=9, module="fc"), at("forward", step=9, module="head")
    detailed = [made(1, 1, 8), made(2, 2, 8), made(3, 3, 16), made(4, 4, 8), made(5, 1, -8)]
    names = ["first", "second", "large", "of head", "first"]
    fc_1, head_1 = fc._replace(step=1), head._replace(step=1)
    fc_2 = fc._replace(step=2)
    events = [
        made(10, 9, 16), made(11, 8, 8), made(12, 7, 8), made(13, 6, 8), made(14, 8, -8), made(15, 5, 8),
        made(20, 8, 8), made(21, 3, -4),
    ]  # fmt: skip
    places = [fc_1, fc_1, head_1, fc_1, fc_1, fc_1, fc_2, fc_2]
    assert carry(events, places, detailed, [fc, fc, fc, head, fc], names) == [
        "large",
        "first",
        "of head",
        "second",
        "first",
        "",  # a third of its size has no like
        "first",  # counted anew in every step
        "",  # a free of what was there before
    ]


def test_a_block_without_its_like_keeps_its_place_alone() -> None:
    (label,) = propagate_labels([made(1, 1, 8)], [at("forward", module="fc", sharding="FSDP::all_gather")], [], [], [])
    assert label == BlockLabel(op="FSDP::all_gather", module="fc")


def test_microbatches_are_told_apart_by_their_turn() -> None:
    detailed_places = [at("forward", step=5, turn=1), at("forward", step=5, turn=4)]
    places = [at("forward", step=1, turn=4), at("forward", step=1, turn=1), at("forward", step=1, turn=7)]
    found = carry(
        [made(1, 1, 8), made(2, 2, 8), made(3, 3, 8)],
        places,
        [made(1, 1, 8), made(2, 2, 8)],
        detailed_places,
        ["first microbatch", "second microbatch"],
    )
    assert found == ["second microbatch", "first microbatch", ""]


def on_cuda(sizes: list[int], models: list[int], requests: list[int]) -> list[tuple[str, str]]:
    """Op and shape of blocks of one module, whose allocations had blocks of the sizes `models` in the detailed step."""
    place = at("forward", step=2, module="fc")
    known = [
        BlockLabel(op=f"op{n}", shape=f"[{bytes_}]", dtype="int8", bytes=bytes_) for n, bytes_ in enumerate(requests)
    ]
    found = propagate_labels(
        [made(n, n, size, device=CUDA) for n, size in enumerate(sizes)],
        [place._replace(step=1)] * len(sizes),
        [made(n, n, size, device=CUDA) for n, size in enumerate(models)],
        [place] * len(models),
        known,
    )
    return [(label.op, label.shape) for label in found]


def test_blocks_of_other_sizes_for_the_same_requests_are_told_by_their_order() -> None:
    requests = [3 * MIB // 2, 2 * MIB, 512]
    expected = [("op0", f"[{3 * MIB // 2}]"), ("op1", f"[{2 * MIB}]"), ("op2", "[512]")]
    assert on_cuda([2 * MIB, 2 * MIB, 512], requests, requests) == expected, "the first was not split off this time"
    assert on_cuda(requests, [2 * MIB, 2 * MIB, 512], requests) == expected


def test_a_block_that_cannot_hold_the_tensor_does_not_take_its_shape() -> None:
    assert on_cuda([3 * MIB], [4 * MIB], [4 * MIB]) == [("op0", "")]
    assert on_cuda([5 * MIB + 512], [4 * MIB], [4 * MIB]) == [("", "")], "nor is it the same request"
    assert on_cuda([1024], [512], [512]) == [("", "")], "small blocks are split to the last unit"


def test_where_the_order_is_another_sizes_tell_and_what_is_left_tells_no_shape() -> None:
    # One allocation more than in the detailed step: whose is not known.
    found = on_cuda([1024, 512, 3 * MIB, 2 * MIB], [512, 3 * MIB, 5 * MIB // 2], [512, 3 * MIB, 2 * MIB])
    assert found == [("", ""), ("op0", "[512]"), ("op1", f"[{3 * MIB}]"), ("op2", "")]
