"""Counts the query-key pairs that an attention kernel computes, with bounds where data decide.

Kernels skip the blocks that a causal mask or a sliding window forbids (FlashAttention-2, section 3.1.1;
FlashAttention-3, section 4.1, halves the count of causal attention), so these pairs are what they execute but for the
corners of the blocks on the border.
"""

from typing import NamedTuple

from perfkit.cost.calls.args import Args, UnmodeledError

# The convention of MFU and HFU, in words.
UNMASKED = "attention counts masked pairs too (PaLM, appendix B)"


class AttentionMask(NamedTuple):
    """Query i meets the keys from i - left to i + right; None is no bound.

    `at_end`: the last query is beside the last key (FlashAttention since 2.1), else the first beside the first.
    """

    left: int | None = None
    right: int | None = None
    at_end: bool = False


FULL = AttentionMask()


class PairRange(NamedTuple):
    """The least and the most that it can be."""

    least: int
    most: int


def count_pairs(queries: int, keys: int, mask: AttentionMask = FULL) -> int:
    """Pairs that a mask leaves: S(S+1)/2 of a causal one over S positions."""
    offset = keys - queries if mask.at_end else 0
    ends = queries * keys if mask.right is None else _sum_clipped(offset + mask.right + 1, queries, keys)
    begins = 0 if mask.left is None else _sum_clipped(offset - mask.left, queries, keys)
    return ends - begins


def _sum_clipped(first: int, count: int, most: int) -> int:
    """The sum of `count` successive integers from `first` on, each of them held within 0 and `most`."""
    below = min(max(-first, 0), count)
    above = min(max(first + count - 1 - most, 0), count - below)
    low, high = first + below, first + count - 1 - above
    return above * most + (count - below - above) * (low + high) // 2


class PackedSequences(NamedTuple):
    """Packed sequences: their number, total queries and keys, and the longest of each; None where not recorded.

    `prefix`: a sequence has at least as many keys as queries, as causal attention that is aligned at the end needs.
    """

    number: int
    queries: int
    keys: int | None
    longest_query: int | None = None
    longest_key: int | None = None
    prefix: bool = False


_Lengths = tuple[tuple[int, int], tuple[int, int]]  # lengths that make up a total, and the count of each


def count_packed_pairs(of: PackedSequences, mask: AttentionMask) -> PairRange:
    """Bounds of the pairs that packed sequences compute.

    The pairs of a sequence with itself are convex in its length, so that equal lengths give the fewest, and as many of
    the longest as there is room for the most.
    """
    if of.number < 1 or of.queries < 0:
        raise UnmodeledError("no packed sequences")
    longest = min(of.longest_query or of.queries, of.queries)
    equal, uneven = _split_equally(of.queries, of.number), _split_longest_first(of.queries, longest)
    if of.keys == of.queries and of.longest_key == of.longest_query:
        least = _sum_pairs(equal, mask)
        return PairRange(least, max(least, _sum_pairs(uneven, mask)))
    most_keys = of.longest_key or of.keys
    if most_keys is None:
        raise UnmodeledError("number of keys not recorded")
    if of.queries == of.number * longest and of.keys == of.number * most_keys:
        exact = of.number * count_pairs(longest, most_keys, mask)
        return PairRange(exact, exact)
    # With as many keys for each, the pairs are concave in the number of queries or convex, as the mask is aligned.
    most = max(_sum_pairs(lengths, mask, most_keys) for lengths in (equal, uneven))
    least = _sum_pairs(equal, mask) if of.prefix else min(of.queries, most)
    return PairRange(least, max(least, most))


def _split_equally(total: int, count: int) -> _Lengths:
    length, longer = divmod(total, count)
    return (length + 1, longer), (length, count - longer)


def _split_longest_first(total: int, longest: int) -> _Lengths:
    number, rest = divmod(total, longest) if longest else (0, 0)
    return (longest, number), (rest, 1)


def _sum_pairs(lengths: _Lengths, mask: AttentionMask, keys: int | None = None) -> int:
    """The pairs of equal sequences of each length, with themselves or with a number of keys each."""
    return sum(number * count_pairs(length, length if keys is None else keys, mask) for length, number in lengths)


# The recorded arguments of an op; None where the trace lost them.
def read_causal_mask(args: Args, index: int, *, at_end: bool = False) -> AttentionMask | None:
    """The mask of an op with a boolean `is_causal`."""
    value = args[index] if index < len(args) else None
    if not isinstance(value, bool):
        return None
    return AttentionMask(None, 0, at_end) if value else FULL


def read_window_mask(args: Args, flag: int, left: int) -> AttentionMask | None:
    """The mask of FlashAttention's arguments: `is_causal`, and the window's left and right side (negative: none)."""
    mask = read_causal_mask(args, flag, at_end=True)
    sides = [_get_window_side(args, index) for index in (left, left + 1)]
    if mask is None:
        return None
    return AttentionMask(sides[0], 0 if mask.right == 0 else sides[1], at_end=True)


def find_first_flag(args: Args) -> int:
    """The position of `causal` in FlashAttention's ops: the first boolean, in every version and package."""
    flags = (index for index, value in enumerate(args) if isinstance(value, bool))
    return next(flags, len(args))


def read_custom_mask(args: Args, index: int, window: int) -> AttentionMask | None:
    """The mask of memory-efficient attention: 1 is causal from the top left, 2 from the bottom right; a window is its
    width with the query itself (aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_forward.h)."""
    kind = args[index] if index < len(args) else None
    if not isinstance(kind, int) or isinstance(kind, bool) or kind not in (0, 1, 2):
        return None
    width = _get_window_side(args, window)
    left = None if not width else width - 1
    return FULL if kind == 0 else AttentionMask(left, 0, at_end=kind == 2)


def _get_window_side(args: Args, index: int) -> int | None:
    value = args[index] if index < len(args) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
