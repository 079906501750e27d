import pytest

from benchmarks.zero_memory import all_gather, gathered, held
from perfkit.workloads.gpt import Shape

# 872 parameters a block, 1872 in all, in 28 tensors.
SHAPE = Shape(layers=2, heads=2, width=8, positions=4, vocab=10, batch_size=3)


@pytest.mark.parametrize(
    ("technique", "ranks", "expected"),
    [
        ("ddp", 2, 16 * 1872 + 112),
        ("zero1", 2, 8 * 1872 + 8 * 936 + 56),
        ("zero2", 2, 16 * 936 + 112),
        ("zero3", 4, 16 * 468 + 112),
    ],
)
def test_what_a_rank_holds(technique: str, ranks: int, expected: int) -> None:
    assert sum(held(technique, SHAPE, ranks).values()) == expected


def test_what_is_whole_for_a_while() -> None:
    assert gathered("zero1", SHAPE) == 0
    assert gathered("zero2", SHAPE) == 4 * 1872
    assert gathered("zero3", SHAPE) == 4 * (872 + 10 * 8 + 4 * 8 + 2 * 8)
    assert all_gather(SHAPE) == 4 * 872
