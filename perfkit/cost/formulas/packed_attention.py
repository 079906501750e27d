"""Attention over packed sequences or a paged cache, whose lengths are data.

What is recorded bounds it: how many sequences there are, their positions together, and the longest. FLOPs and bytes are
given from the least to the most; they are exact where all sequences must be equally long.
"""

from collections.abc import Callable
from typing import NamedTuple

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_element_size,
    get_optional_tensor,
    get_tensor,
    make_matrix_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpCost, TensorArg
from perfkit.cost.formulas.attention_mask import FULL, AttentionMask, PackedSequences, PairRange, count_packed_pairs

_SOURCE = "attention"
BOUNDED = "attention: lengths depend on data"
_MASK_LOST = "attention: mask not recorded"


class LengthArguments(NamedTuple):
    """The positions of an op's offsets of packed queries and keys, used cache lengths, and block table."""

    queries: int
    keys: int
    used: int | None = None
    table: int | None = None


def make_attention_cost(
    per_pair: float, computed: PairRange, unmasked: int, nbytes: float, dtype: str, *, lost: str = _MASK_LOST
) -> OpCost:
    """Make the cost of this many pairs with FLOPs each; `lost` says why only bounds are known, where that is so."""
    exact = computed.least == computed.most
    cost_of_least = make_matrix_cost(per_pair * computed.least, nbytes, dtype, _SOURCE if exact else lost)
    return cost_of_least._replace(
        most_flops=None if exact else per_pair * computed.most,
        unmasked_flops=None if unmasked <= computed.least else per_pair * unmasked,
    )


def make_packed(
    fixed: Formula, at: LengthArguments, mask_of: Callable[[Args], AttentionMask | None], *, backward: bool = False
) -> Formula:
    """Make the formula of an op on (total, head, width) with offsets, a cache with lengths, or counts by `fixed`."""
    first = 1 if backward else 0

    def formula(args: Args) -> OpCost:
        offsets = get_optional_tensor(args, at.queries) or get_optional_tensor(args, at.keys)
        used = None if at.used is None else get_optional_tensor(args, at.used)
        if offsets is None and used is None:
            return fixed(args)
        query, key, value = (get_tensor(args, first + index) for index in range(3))
        if len(query.shape) < 3 or len(key.shape) not in (3, 4):
            raise UnmodeledError("queries have no heads, or keys a different layout")
        mask = mask_of(args) or FULL
        sequences = _read_sequences(args, at, query, key, mask)
        computed = count_packed_pairs(sequences, mask)
        if mask_of(args) is None:
            computed = PairRange(count_packed_pairs(sequences, AttentionMask(None, 0)).least, computed.most)
        unmasked = count_packed_pairs(sequences, FULL).least
        heads, d, d_v = query.shape[-2], query.shape[-1], value.shape[-1]
        rows = sequences.queries * heads
        nbytes = count_read_bytes(query) + count_output_bytes(rows * d_v, query.dtype) + 4 * rows
        if backward:  # the output, too, and its gradient; writes three gradients
            nbytes += count_read_bytes(get_tensor(args, 0)) + sum(
                count_output_bytes(numel(operand), operand.dtype) for operand in (query, key, value)
            )
        paged = sequences.keys is None
        kept = _count_cache_bytes(sequences, key, value) if paged else (count_read_bytes(key, value),) * 2
        per_pair = 2.0 * heads * (3 * d + 2 * d_v if backward else d + d_v)
        cost = make_attention_cost(per_pair, computed, unmasked, nbytes + kept[0], query.dtype, lost=BOUNDED)
        return cost if kept[0] == kept[1] else cost._replace(most_bytes=nbytes + kept[1], source=BOUNDED)

    return formula


def _read_sequences(
    args: Args, at: LengthArguments, query: TensorArg, key: TensorArg, mask: AttentionMask
) -> PackedSequences:
    offsets, key_offsets = get_optional_tensor(args, at.queries), get_optional_tensor(args, at.keys)
    table = None if at.table is None else get_optional_tensor(args, at.table)
    used = None if at.used is None else get_optional_tensor(args, at.used)
    rows = numel(query) // max(query.shape[-1] * query.shape[-2], 1)
    packed_by = offsets or key_offsets
    longest: tuple[int | None, int | None]
    if offsets is None and used is not None:  # (batch, position, head, width)
        count, longest = query.shape[0], (query.shape[1], None)
    else:
        assert packed_by is not None
        count, longest = numel(packed_by) - 1, _find_longest(args, at.queries)
    longest_query, longest_key = longest
    if table is not None and len(table.shape) == 2:  # as many blocks as the table has, of as many positions
        room = table.shape[1] * key.shape[1]
        longest_key = min(longest_key or room, room)
    elif used is not None and len(key.shape) == 4:  # a cache of one row a sequence
        longest_key = min(longest_key or key.shape[1], key.shape[1])
    in_cache = table is not None or used is not None
    if not in_cache and len(key.shape) != len(query.shape):
        raise UnmodeledError("keys are in a pool without a block table in the expected place")
    keys = None if in_cache else numel(key) // max(key.shape[-1] * key.shape[-2], 1)
    prefix = mask.at_end and mask.right == 0
    return PackedSequences(max(count, 1), rows, keys, longest_query, longest_key, prefix)


def _find_longest(args: Args, start: int) -> tuple[int | None, int | None]:
    """max_seqlen_q and max_seqlen_k: the first integers after the offsets and before the first number or flag."""
    for index in range(start, len(args)):
        value = args[index]
        if isinstance(value, bool | float):
            break
        if isinstance(value, int):
            following = args[index + 1] if index + 1 < len(args) else None
            return value, following if isinstance(following, int) and not isinstance(following, bool) else None
    return None, None


def _count_cache_bytes(of: PackedSequences, key: TensorArg, value: TensorArg) -> tuple[float, float]:
    """The least and the most that is read of keys and values in a cache."""
    row = key.shape[-2] * (
        key.shape[-1] * get_element_size(key.dtype) + value.shape[-1] * get_element_size(value.dtype)
    )
    if of.longest_key is None:
        raise UnmodeledError("number of keys not recorded")
    least = of.queries if of.prefix else of.number
    return row * least, row * max(least, of.number * of.longest_key)
