"""The difference of two traces by part of the step, kind of work, phase and module."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import fsum

from perfkit.analysis.difference.op_pair import COMPILED, OpPair
from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.analysis.model.difference import GroupChange
from perfkit.analysis.model.step import OUTSIDE, REST, OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.work.kernel_class import classify_kernel, classify_work
from perfkit.analysis.trace.work.roofline_groups import NO_OP
from perfkit.cost.calls.op_call import OpClass

# The groupings of a step's changes.
TIME, KIND, PHASE, MODULE = "part of the step", "kind of work", "phase", "module"

# Of ops whose pair holds code that torch.compile made.
REPLACED = "compiled code and what it replaced"

# Ops without a class from this share of the step on have a row of their own.
_LARGE = 0.02

OTHER_OPS = "other ops"
_BY_BOUND = {"communication": OpClass.COMMUNICATION.value, "copy": "memory copy"}
NOT_WORK = tuple(_BY_BOUND.values())
_NO_MODULE, _NO_PHASE = "no module", "no phase"

_Row = tuple[str, float, float]  # group, calls, seconds


def group_changes(after: RankTrace, before: RankTrace, pairs: Sequence[OpPair]) -> tuple[GroupChange, ...]:
    """Every grouping, the largest change of each first.

    Parts of the step sum to the step on each side; kinds, phases and modules to the time of the ops within it, which
    overlap where several streams or threads work. Equal layers are one module.
    """
    own = {*_find_large_ops(before), *_find_large_ops(after)}
    kinds = [
        (_classify_rows(pair.before, pair, before, own), _classify_rows(pair.after, pair, after, own)) for pair in pairs
    ]
    return (
        *_compare_groups(TIME, _list_step_parts(before), _list_step_parts(after)),
        *_compare_groups(KIND, (row for old, _ in kinds for row in old), (row for _, new in kinds for row in new)),
        *_compare_groups(PHASE, _label_rows(before, _get_phase), _label_rows(after, _get_phase)),
        *_compare_groups(MODULE, _label_rows(before, _get_module), _label_rows(after, _get_module)),
    )


def _compare_groups(by: str, before: Iterable[_Row], after: Iterable[_Row]) -> list[GroupChange]:
    old, new = _sum_groups(before), _sum_groups(after)
    none = (0.0, 0.0)
    changes = [
        GroupChange(
            grouping=by,
            name=name,
            before_calls=old.get(name, none)[0],
            after_calls=new.get(name, none)[0],
            before_s=old.get(name, none)[1],
            after_s=new.get(name, none)[1],
        )
        for name in dict.fromkeys((*old, *new))
    ]
    return sorted(changes, key=lambda group: -abs(group.change_s))


def _sum_groups(rows: Iterable[_Row]) -> dict[str, tuple[float, float]]:
    together: dict[str, list[tuple[float, float]]] = {}
    for name, calls, seconds in rows:
        together.setdefault(name, []).append((calls, seconds))
    return {
        name: (fsum(calls for calls, _ in some), fsum(spent for _, spent in some)) for name, some in together.items()
    }


def _list_step_parts(trace: RankTrace) -> Iterator[_Row]:
    return ((share.category, 0.0, share.seconds) for share in trace.time_split if share.seconds > 0)


def _find_large_ops(trace: RankTrace) -> Iterator[str]:
    """The large ops without a class, which are listed by name."""
    rows = (row for row in trace.ops if row.phase != OUTSIDE and row.seconds >= _LARGE * trace.step_s)
    return (row.name for row in rows if row.kind != REST and classify_work(row.op, row.name) == OpClass.OTHER)


def _classify_rows(some: Sequence[OpRow], pair: OpPair, trace: RankTrace, own: Collection[str]) -> list[_Row]:
    rows = [row for row in some if row.phase != OUTSIDE]
    if pair.level == COMPILED:
        return [(REPLACED, row.calls, row.seconds) for row in rows]
    return [entry for row in rows for entry in _classify_row(row, trace, own)]


def _classify_row(row: OpRow, trace: RankTrace, own: Collection[str]) -> Iterator[_Row]:
    """Classify a row by its op, else by the names of its kernels."""
    if row.name == NO_OP and row.bound not in _BY_BOUND:
        kernels = [kernel for kernel in trace.kernels if not kernel.op and _is_kernel_of_row(kernel, row)]
        rest_s = row.seconds - fsum(kernel.seconds for kernel in kernels)
        if abs(rest_s) <= 0.01 * row.seconds:  # truncated tables are incomplete
            yield from ((classify_kernel(kernel.name).value, kernel.calls, kernel.seconds) for kernel in kernels)
            return
    if row.bound in _BY_BOUND:
        kind = _BY_BOUND[row.bound]
    elif row.name in own and row.name != NO_OP:
        kind = row.name
    else:
        op_class = OpClass.OTHER if row.kind == REST else classify_work(row.op, row.name)
        kind = OTHER_OPS if op_class == OpClass.OTHER else op_class.value
    yield kind, row.calls, row.seconds


def _is_kernel_of_row(kernel: OpRow, row: OpRow) -> bool:
    return (kernel.phase, kernel.bound in _BY_BOUND) == (row.phase, False)


def _label_rows(trace: RankTrace, name: Callable[[OpRow], str]) -> Iterator[_Row]:
    return ((name(row), row.calls, row.seconds) for row in trace.ops if row.phase != OUTSIDE)


def _get_phase(row: OpRow) -> str:
    return row.phase or _NO_PHASE


def _get_module(row: OpRow) -> str:
    return fold_layer_numbers(row.module) or _NO_MODULE
