"""Aligns the nodes of a capture with those of a replay, one to one where certain.

- As many nodes on both sides, and none that contradicts: node by node. Without names of kernels on the captured side
  this is the only way, and some nodes have to agree.
- Otherwise (a kernel was lost, a copy of no bytes made no node) by names: the longest common subsequence, and what lies
  between two of its pairs where both sides have equally much there. Of equally long subsequences the first and the last
  are compared: where they give a kernel different calls, it has none.
- Kernels on several streams without numbers of nodes began in an order of their own: those of one name are joined where
  all of that name have the same call, or run in order on one stream.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.graphs.node_tokens import NodeToken, TokenAgreement, compare_tokens
from perfkit.trace.model import NONE, Category, Ints

# Entries of two bytes of the table in which a common subsequence is looked for.
_LARGEST = 1 << 25
# So many of the nodes may run another kernel than their op did elsewhere, or on another grid, as data decide.
_MOST_CHANGED = 0.1
# So many of the kernels have to say that they belong to what the capture called there.
_LEAST_AGREEING = 0.25
# Of a capture's kernels so many need a name for it to be aligned by names, and of a replay's as many to be found.
_LEAST_NAMED = 0.5


class NodeAlignment(NamedTuple):
    """For each node of the replay, that of the capture, NONE without one; `same` of them agree in their grid."""

    node: Ints
    same: int
    by_names: bool

    @property
    def joined(self) -> int:
        return int((self.node != NONE).sum())


def align_nodes(
    captured: Sequence[NodeToken],
    content: Sequence[Hashable],
    replayed: Sequence[NodeToken],
    stream: Ints,
    *,
    in_order: bool,
) -> NodeAlignment | None:
    """The nodes of a replay as those of a capture; None where they do not fit.

    Args:
        content: what was called at each node of the capture.
        stream: of each node of the replay.
        in_order: whether the replay's nodes are in the order of the capture: by their numbers, or on one stream.
    """
    if not captured or not replayed:
        return None
    says = _TokenTable.from_tokens(captured, replayed)
    named = [bool(token.kernel) for token in captured if token.kind == Category.KERNEL]
    by_names = bool(named) and sum(named) >= _LEAST_NAMED * len(named)
    if len(captured) == len(replayed) and (in_order or all(named)):
        agreement = says.compare_pairs(np.arange(len(captured)), np.arange(len(replayed)))
        if _is_plausible(agreement, captured):
            return NodeAlignment(np.arange(len(captured)), int((agreement == TokenAgreement.SAME).sum()), by_names)
    if not by_names:
        return _align_kernels_first(captured, content, replayed, stream) if in_order else None
    node = _align_common_subsequence(says, content) if in_order else _align_by_name(captured, content, replayed, stream)
    aligned = np.flatnonzero(node != NONE)
    if len(aligned) < _LEAST_NAMED * len(replayed):
        return None
    agreement = says.compare_pairs(node[aligned], aligned)
    if _count_changed(agreement) > _MOST_CHANGED * len(aligned):
        return None
    return NodeAlignment(node, int((agreement == TokenAgreement.SAME).sum()), by_names)


def _is_plausible(agreement: NDArray[np.int8], captured: Sequence[NodeToken]) -> bool:
    kernels = np.asarray([token.kind == Category.KERNEL for token in captured], np.bool_)
    return (
        not (agreement == TokenAgreement.DIFFERENT).any()
        and _count_changed(agreement) <= _MOST_CHANGED * len(agreement)
        and int((agreement[kernels] > TokenAgreement.UNTOLD).sum()) >= max(1, _LEAST_AGREEING * int(kernels.sum()))
    )


def _count_changed(agreement: NDArray[np.int8]) -> int:
    return int(((agreement == TokenAgreement.RESIZED) | (agreement == TokenAgreement.RENAMED)).sum())


def _align_kernels_first(
    captured: Sequence[NodeToken], content: Sequence[Hashable], replayed: Sequence[NodeToken], stream: Ints
) -> NodeAlignment | None:
    """Align kernels first, without copies and fills, of which some make no node; then these, where equally many lie
    between kernels."""
    mine = np.asarray([at for at, token in enumerate(captured) if token.kind == Category.KERNEL], np.int64)
    its = np.asarray([at for at, token in enumerate(replayed) if token.kind == Category.KERNEL], np.int64)
    if len(mine) != len(its) or (len(mine) == len(captured) and len(its) == len(replayed)):
        return None
    alignment = align_nodes(
        [captured[at] for at in mine], [content[at] for at in mine], [replayed[at] for at in its], stream[its],
        in_order=True,
    )  # fmt: skip
    if alignment is None:
        return None
    node = np.full(len(replayed), NONE, np.int64)
    node[its] = mine[alignment.node]
    return NodeAlignment(
        _fill_gaps(node, _TokenTable.from_tokens(captured, replayed)), alignment.same, alignment.by_names
    )


class _TokenTable(NamedTuple):
    """The distinct tokens of both sides, and for each node the number of its token."""

    captured: list[NodeToken]
    replayed: list[NodeToken]
    row: Ints
    column: Ints

    @classmethod
    def from_tokens(cls, captured: Sequence[NodeToken], replayed: Sequence[NodeToken]) -> "_TokenTable":
        rows, columns = (
            {token: number for number, token in enumerate(dict.fromkeys(side))} for side in (captured, replayed)
        )
        return cls(
            list(rows),
            list(columns),
            np.asarray([rows[token] for token in captured], np.int64),
            np.asarray([columns[token] for token in replayed], np.int64),
        )

    def compare_pairs(self, captured: Ints, replayed: Ints) -> NDArray[np.int8]:
        """The agreement of nodes, pair by pair."""
        pairs = self.row[captured] * len(self.replayed) + self.column[replayed]
        distinct, place = np.unique(pairs, return_inverse=True)
        sides = (divmod(pair, len(self.replayed)) for pair in distinct.tolist())
        agreement: NDArray[np.int8] = np.asarray(
            [compare_tokens(self.captured[mine], self.replayed[its]) for mine, its in sides], np.int8
        )[place]
        return agreement

    def mark_agreeing(self) -> NDArray[np.bool_]:
        """True where a distinct token of the capture is that of a kernel by its name."""
        says = [[compare_tokens(mine, its) for its in self.replayed] for mine in self.captured]
        table = np.asarray(says, np.int8).reshape(len(self.captured), len(self.replayed))
        by_name: NDArray[np.bool_] = (table > TokenAgreement.UNTOLD) | (table == TokenAgreement.RESIZED)
        return by_name


def _align_common_subsequence(says: _TokenTable, content: Sequence[Hashable]) -> Ints:
    """For each node of the replay, that of the capture by the longest common subsequence of agreeing nodes."""
    count, others = len(says.row), len(says.column)
    if (count + 1) * (others + 1) > _LARGEST or min(count, others) > np.iinfo(np.int16).max:
        return np.full(others, NONE, np.int64)
    agrees = says.mark_agreeing()
    longest = np.zeros((count + 1, others + 1), np.int16)
    for at in range(count):
        extended = longest[at, :-1] + agrees[says.row[at]][says.column]
        longest[at + 1, 1:] = np.maximum.accumulate(np.maximum(longest[at, 1:], extended))
    first = _fill_gaps(_walk_subsequence(longest, agrees, says, late=False), says)
    last = _fill_gaps(_walk_subsequence(longest, agrees, says, late=True), says)
    result = first.copy()
    for at in np.flatnonzero(first != last).tolist():
        mine, its = int(first[at]), int(last[at])
        if NONE in (mine, its) or content[mine] != content[its]:
            result[at] = NONE
    return result


def _walk_subsequence(longest: NDArray[np.int16], agrees: NDArray[np.bool_], says: _TokenTable, *, late: bool) -> Ints:
    """One of the longest common subsequences, from its end: nodes of either side are left out late or early."""
    node = np.full(len(says.column), NONE, np.int64)
    mine, its = len(says.row), len(says.column)
    while mine and its:
        length = longest[mine, its]
        pairs = agrees[says.row[mine - 1], says.column[its - 1]] and longest[mine - 1, its - 1] + 1 == length
        shorter = longest[mine - 1, its] == length, longest[mine, its - 1] == length
        if pairs and (late or not any(shorter)):
            mine, its = mine - 1, its - 1
            node[its] = mine
        elif shorter[0]:
            mine -= 1
        else:
            its -= 1
    return node


def _fill_gaps(node: Ints, says: _TokenTable) -> Ints:
    """Align the nodes between two pairs, where both sides have equally many and none contradicts."""
    result = node.copy()
    paired = np.flatnonzero(node != NONE)
    ends = [(-1, -1), *((int(its), int(node[its])) for its in paired), (len(node), len(says.row))]
    for (its, mine), (its_next, mine_next) in pairwise(ends):
        gap = its_next - its - 1
        if gap and gap == mine_next - mine - 1:
            inner, outer = np.arange(mine + 1, mine_next), np.arange(its + 1, its_next)
            if not (says.compare_pairs(inner, outer) == TokenAgreement.DIFFERENT).any():
                result[outer] = inner
    return result


def _align_by_name(
    captured: Sequence[NodeToken], content: Sequence[Hashable], replayed: Sequence[NodeToken], stream: Ints
) -> Ints:
    mine, its = defaultdict(list), defaultdict(list)
    for at, token in enumerate(captured):
        mine[_get_match_key(token)].append(at)
    for at, token in enumerate(replayed):
        its[_get_match_key(token)].append(at)
    node = np.full(len(replayed), NONE, np.int64)
    for name, places in its.items():
        calls = mine.get(name, [])
        is_unique = len({content[at] for at in calls}) == 1
        ordered = len(calls) == len(places) and len(np.unique(stream[places])) == 1
        if is_unique and len(calls) != len(places):
            node[places] = calls[0]
        elif calls and (is_unique or ordered):
            node[places] = calls
    return node


def _get_match_key(token: NodeToken) -> Hashable:
    return token.kernel if token.kind == Category.KERNEL else token.kind
