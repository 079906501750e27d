"""Pairs of positions under masks, against every pair asked one by one."""

from itertools import product

import pytest

from perfkit.cost.calls.args import UnmodeledError
from perfkit.cost.formulas.attention_mask import FULL, AttentionMask, PackedSequences, count_packed_pairs, count_pairs


def one_by_one(queries: int, keys: int, mask: AttentionMask) -> int:
    offset = keys - queries if mask.at_end else 0
    return sum(
        (mask.left is None or j >= i + offset - mask.left) and (mask.right is None or j <= i + offset + mask.right)
        for i, j in product(range(queries), range(keys))
    )


@pytest.mark.parametrize("at_end", [False, True])
def test_pairs(at_end: bool) -> None:
    sizes = ((1, 1), (7, 7), (5, 12), (12, 5), (1, 9), (9, 1))
    for (queries, keys), left, right in product(sizes, (None, 0, 2, 30), (None, 0, 3, 30)):
        mask = AttentionMask(left, right, at_end)
        assert count_pairs(queries, keys, mask) == one_by_one(queries, keys, mask), (queries, keys, mask)


def partitions(total: int, parts: int, most: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(total,)] if total <= most else []
    return [
        (first, *rest) for first in range(min(total, most) + 1) for rest in partitions(total - first, parts - 1, most)
    ]


@pytest.mark.parametrize("mask", [FULL, AttentionMask(None, 0, at_end=True), AttentionMask(3, 0, at_end=True)])
@pytest.mark.parametrize(("total", "count", "longest"), [(12, 3, 7), (12, 3, 4), (13, 4, 5), (6, 1, 6)])
def test_bounds_of_packed_sequences_are_reached_and_never_left(
    mask: AttentionMask, total: int, count: int, longest: int
) -> None:
    possible = [sum(count_pairs(each, each, mask) for each in lengths) for lengths in partitions(total, count, longest)]
    found = count_packed_pairs(PackedSequences(count, total, total, longest, longest), mask)
    assert (found.least, found.most) == (min(possible), max(possible))


def test_queries_after_a_prefix_of_unknown_length() -> None:
    causal = AttentionMask(None, 0, at_end=True)
    found = count_packed_pairs(PackedSequences(2, 10, None, 8, 20, prefix=True), causal)
    possible = [
        count_pairs(a, keys_a, causal) + count_pairs(10 - a, keys_b, causal)
        for a in range(2, 9)
        for keys_a in range(a, 21)
        for keys_b in range(10 - a, 21)
    ]
    assert found.least == min(possible)
    assert found.most == max(possible)


def test_without_the_longest_key_nothing_bounds_a_cache() -> None:
    with pytest.raises(UnmodeledError):
        count_packed_pairs(PackedSequences(2, 10, None), FULL)
