"""`optim:use=fused` and `use=foreach` in source: an argument of the optimizer's constructor."""

import libcst as cst

from perfkit.tune.patch.call_arguments import set_arguments
from perfkit.tune.patch.training_code import TrainingCode, replace_nodes

# Optimizers of torch 2.9 with a `fused` implementation.
_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
_IMPLEMENTATIONS = ("fused", "foreach")


def edit_optimizer(source: str, implementation: str) -> str:
    """The source with `fused=True` or `foreach=True` in every optimizer that has it; unchanged without any."""
    code = TrainingCode(source)
    known = [each.call for each in code.list_optimizers() if implementation == "foreach" or each.name in _FUSED]

    def edit(original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(updated, cst.Call) or not any(call is original for call in known):
            return updated
        return set_arguments(updated, {implementation: "True"}, without=_IMPLEMENTATIONS)

    return replace_nodes(code.module, edit).code
