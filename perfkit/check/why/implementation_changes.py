"""Ops that run another implementation: a convolution that fell from oneDNN to torch's own."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from perfkit.analysis.model.difference import ChangeRow
from perfkit.check.why.suspects import Suspect
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_seconds

_MOST_NAMES = 3
# Behind all that is exact and costs something, before what is only slower.
_LEAST_WEIGHT = 0.1
# What allocates, copies, views or asks is no implementation.
_HELPERS = (
    "aten::_nnpack_available", "aten::as_strided", "aten::copy_", "aten::detach", "aten::empty", "aten::expand",
    "aten::narrow", "aten::reshape", "aten::resize", "aten::select", "aten::slice", "aten::view",
)  # fmt: skip

Implementations = Mapping[tuple[str, str], float]


def find_implementation_suspects(
    before: Implementations, after: Implementations, changes: Sequence[ChangeRow], step_s: float, *, timed: bool
) -> Iterator[Suspect]:
    """Ops on both sides that call others within than before, in place of those that are gone.

    Args:
        changes: rows of ops, of which the cost is.
        timed: whether times of ops can be compared.
    """
    was, now = _group_by_op(before), _group_by_op(after)
    for name in was.keys() & now.keys():
        gone, new = sorted(was[name] - now[name]), sorted(now[name] - was[name])
        if not gone or not new:
            continue
        rows = [row for row in changes if row.name == name]
        change_s = fsum((row.after_s or 0.0) - (row.before_s or 0.0) for row in rows)
        share = change_s / step_s if step_s > 0 else 0.0
        cost = f"; {format_seconds(abs(change_s))} {'more' if change_s >= 0 else 'less'} in a traced step"
        text = f"{name} runs {list_first(new, _MOST_NAMES)}, was {list_first(gone, _MOST_NAMES)}{cost if timed else ''}"
        yield Suspect(max(_LEAST_WEIGHT, abs(share)), text)


def _group_by_op(calls: Implementations) -> dict[str, set[str]]:
    groups: dict[str, set[str]] = defaultdict(set)
    for outer, inner in calls:
        if not inner.startswith(_HELPERS):
            groups[outer].add(inner)
    return groups
