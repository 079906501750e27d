"""What is left of debugging in a training loop: collections of garbage, waits for the device, anomaly detection."""

from collections.abc import Sequence

import libcst as cst

from perfkit.tune.patch.training_code import TrainingCode, find_training_loops, list_calls, replace_nodes

# Calls that no result depends on, which a step has no use for.
_IN_LOOPS = (
    "gc.collect",
    "torch.cuda.empty_cache",
    "torch.cuda.synchronize",
    "torch.accelerator.synchronize",
    "torch.xpu.synchronize",
    "torch.mps.synchronize",
)
_DETECTION = "torch.autograd.set_detect_anomaly"
_DETECTING = "torch.autograd.detect_anomaly"


def edit_leftovers(source: str) -> str:
    """The source without calls of a training loop that only debugging needs: a statement of its own each.

    A wait for the device is kept in a program that takes times, which would measure something else without it.
    """
    code = TrainingCode(source)
    takes_times = any(code.find_name(call.func).startswith(("time.", "timeit.")) for call in list_calls(code.module))
    useless = [name for name in _IN_LOOPS if not (takes_times and name.endswith(".synchronize"))]
    inside = [call for loop in find_training_loops(code.module) for call in list_calls(loop.body)]
    found = [call for call in inside if code.find_name(call.func) in useless]
    found += [call for call in list_calls(code.module) if code.find_name(call.func) == _DETECTION]

    def edit(original: cst.CSTNode, updated: cst.CSTNode) -> object:
        if isinstance(original, cst.SimpleStatementLine) and isinstance(updated, cst.SimpleStatementLine):
            kept = [new for old, new in zip(original.body, updated.body, strict=True) if not _is_call(old, found)]
            if len(kept) == len(updated.body):
                return updated
            return updated.with_changes(body=kept) if kept else _remove(updated)
        if isinstance(original, cst.IndentedBlock) and isinstance(updated, cst.IndentedBlock) and not updated.body:
            return updated.with_changes(body=[cst.parse_statement("pass")])
        if isinstance(original, cst.With) and isinstance(updated, cst.With) and _detects(code, original):
            return _unwrap(updated)
        return updated

    return replace_nodes(code.module, edit).code


def _is_call(statement: cst.BaseSmallStatement, calls: Sequence[cst.Call]) -> bool:
    return isinstance(statement, cst.Expr) and any(statement.value is call for call in calls)


def _remove(_: cst.SimpleStatementLine) -> cst.RemovalSentinel:
    return cst.RemovalSentinel.REMOVE


def _unwrap(statement: cst.With) -> cst.With | cst.FlattenSentinel[cst.BaseStatement]:
    """What is in a `with`, in its place."""
    if not isinstance(statement.body, cst.IndentedBlock):
        return statement
    first, *others = statement.body.body
    lines = getattr(first, "leading_lines", ())
    return cst.FlattenSentinel([first.with_changes(leading_lines=[*statement.leading_lines, *lines]), *others])


def _detects(code: TrainingCode, statement: cst.With) -> bool:
    items = [item.item for item in statement.items]
    return len(items) == 1 and isinstance(items[0], cst.Call) and code.find_name(items[0].func) == _DETECTING
