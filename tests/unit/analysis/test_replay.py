import pytest

from perfkit.analysis.replay import AllocationEvent, KnownBlock, category, replay


def event(address: int, size: int, phase: str = "forward", index: int = 0) -> AllocationEvent:
    return AllocationEvent(0.0, address, size, phase, index, "aten::mm")


def test_a_block_lives_from_its_allocation_to_its_free() -> None:
    (life,) = replay([event(1, 10), event(1, -10)])
    assert (life.size_bytes, life.born, life.died) == (10, 0, 1)


def test_what_is_never_freed_lives_past_the_last_event() -> None:
    (life,) = replay([event(1, 10)])
    assert (life.born, life.died) == (0, 1)


def test_a_free_of_an_unknown_address_was_there_from_the_start() -> None:
    (life,) = replay([event(1, -10)])
    assert (life.size_bytes, life.born, life.died) == (10, -1, 0)
    assert category(life, [event(1, -10)]) == "unknown"


def test_reusing_the_address_of_a_live_block_ends_it() -> None:
    known = KnownBlock(1, 10, "input", "batch")
    lives = replay([event(1, 20)], [known])
    assert [(life.size_bytes, life.born, life.died) for life in lives] == [(10, -1, 0), (20, 0, 1)]


@pytest.mark.parametrize(
    ("born", "died", "expected"),
    [
        (("forward", 0), ("backward", 1), "activation"),
        (("forward", 0), ("forward", 0), "temporary"),
        (("backward", 1), ("optimizer", 2), "gradient"),
        (("backward", 1), ("backward", 1), "temporary"),
        (("data", 0), ("optimizer", 3), "input"),
        (("optimizer", 3), ("optimizer", 3), "temporary"),
        (("optimizer", 3), None, "optimizer state"),
        (("optimizer", 3), ("forward", 5), "unknown"),
        (("", -1), None, "unknown"),
    ],
)
def test_categories_follow_from_when_a_block_lived(
    born: tuple[str, int], died: tuple[str, int] | None, expected: str
) -> None:
    events = [event(1, 10, *born)] + ([] if died is None else [event(1, -10, *died)])
    (life,) = replay(events)
    assert category(life, events) == expected


def test_a_known_block_keeps_its_category() -> None:
    (life,) = replay([], [KnownBlock(1, 10, "parameter", "weight")])
    assert category(life, []) == "parameter"


@pytest.mark.parametrize(
    ("op", "died", "expected"),
    [
        ("FSDP::all_gather_copy_out (blocks.0)", ("backward", 1), "unsharded parameter"),
        ("FSDP::all_gather_copy_out (blocks.0)", ("forward", 0), "unsharded parameter"),
        ("c10d::_allgather_base_", ("forward", 0), "communication buffer"),
        ("FSDP::post_backward_reduce", ("forward", 0), "communication buffer"),
    ],
)
def test_what_sharding_allocates_is_no_activation(op: str, died: tuple[str, int], expected: str) -> None:
    events = [AllocationEvent(0.0, 1, 10, "forward", 0, op), event(1, -10, *died)]
    (life,) = replay(events)
    assert category(life, events) == expected
