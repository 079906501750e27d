import pytest

from benchmarks.gpt_memory import Training
from benchmarks.zero_memory import buffers, gathered, gradients, held, moments, peak
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
    assert buffers(SHAPE) == 3 * 4 * 872


def test_gradients_are_most_when_the_first_block_is_done() -> None:
    # blocks of 3488 bytes: that of the second in halves, the first whole, the final norm's 16 parameters
    assert gradients(SHAPE, 2) == 1744 + 3488 + 64


# Two blocks of 3488 bytes over two ranks, s = 4, b = 1, h = 8: the stream is 32 elements, 128 bytes.
# Standing: shards 7488 / 2, moments twice that and 112, masks 32, tokens 64. The root 7488 - 2 * 3488 = 512; positions
# 32. In backward wait the head's gradient, 320, and the norm's, 64.
STANDING = 3744 + 7488 + 112 + 32 + 64 + 512 + 32
KEPT = 64 * 32 + 16 * 4 + 4 * 2 * 16


@pytest.mark.parametrize(
    ("technique", "moment", "expected"),
    [
        ("zero2", "gathering block 1, forward", 3488 + 3 * 3488 + KEPT + 128),
        ("zero3", "gathering block 1, forward", 3 * 3488 + KEPT + 128),
        # the last block has no reduce-scatter after it: its parameters, the other's output and copy
        ("zero3", "prefetching for block 1, backward", 3 * 3488 + 320 + 64 + 128 + 2 * KEPT),
        # its parameters, the other's output, its gradients but 5 * 8 of them; four streams and the stream's gradient;
        # its input, the norm's output and 2 * 4 statistics
        ("zero3", "end of block 1, backward", 3 * 3488 - 160 + 320 + 64 + 5 * 128 + KEPT + 2 * 128 + 32),
    ],
)
def test_moments(technique: str, moment: str, expected: int) -> None:
    shape = Shape(layers=2, heads=2, width=8, positions=4, vocab=10, batch_size=1)
    assert moments(technique, Training(shape=shape, seq_len=4), 2)[moment] == STANDING + expected


def test_a_reduce_scatter_is_in_flight_while_earlier_blocks_are_prefetched() -> None:
    shape = Shape(layers=3, heads=2, width=8, positions=4, vocab=10, batch_size=1)
    found = moments("zero3", Training(shape=shape, seq_len=4), 2)
    last, middle = (found[f"prefetching for block {index}, backward"] for index in (2, 1))
    assert middle - last == 3488 + 1744 - KEPT
    assert peak("zero3", Training(shape=shape, seq_len=4), 2) == ("prefetching for block 1, backward", middle)
