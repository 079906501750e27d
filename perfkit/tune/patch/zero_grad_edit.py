"""`zero_grad(set_to_none=False)` in source: zeros are written and added to, where torch would drop the gradients."""

import libcst as cst

from perfkit.tune.patch.training_code import TrainingCode, render, replace_nodes


def edit_zero_grad(source: str) -> str:
    """The source without `set_to_none=False`, which is not torch's default; unchanged where gradients are read or
    written by hand, which may be missing then."""
    code = TrainingCode(source)
    if ".grad" in source.replace(".grad_", ""):
        return source

    def edit(_: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(updated, cst.Call) or not isinstance(updated.func, cst.Attribute):
            return updated
        if updated.func.attr.value != "zero_grad" or [render(arg.value) for arg in updated.args] != ["False"]:
            return updated
        return updated.with_changes(args=())

    return replace_nodes(code.module, edit).code
