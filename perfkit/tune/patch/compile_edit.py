"""`compile` in source: a statement before the optimizer gets the model's parameters.

`model.compile()` keeps the names of the state dict, unlike `torch.compile(model)`. It compiles nothing of a module
whose `forward` is torch's own, such as `nn.Sequential`: of these the `forward` is compiled.
"""

from collections.abc import Sequence

import libcst as cst
from libcst import matchers

from perfkit.tune.patch.training_code import TrainingCode, insert_before, list_assigned, list_imported, render

_OWN = "torch.nn."
# A compiled `forward` is bound to its module: a copy would call that of the original.
_COPIES = ("deepcopy(", "pickle")


def edit_compile(source: str, options: Sequence[str]) -> str:
    """The source with each model compiled with these arguments; unchanged where a model is not given to an optimizer by
    `MODEL.parameters()` in a statement, or is torch's own and may be copied."""
    code = TrainingCode(source)
    arguments = ", ".join(options)
    additions = []
    for statement, model in code.list_model_statements():
        name = render(model)
        if not _is_torchs_own(code, name):
            additions.append((statement, f"{name}.compile({arguments})"))
        elif "torch" in list_imported(code.module) and not any(each in source for each in _COPIES):
            given = ", ".join((f"{name}.forward", *options))
            additions.append((statement, f"{name}.forward = torch.compile({given})"))
    return insert_before(code.module, additions).code if additions else source


def _is_torchs_own(code: TrainingCode, name: str) -> bool:
    """True if all that is assigned to a name are modules of torch, also by functions of this source."""
    lines = matchers.findall(code.module, matchers.SimpleStatementLine())
    values = [
        small.value
        for line in lines
        if isinstance(line, cst.SimpleStatementLine) and list_assigned(line) == [name]
        for small in line.body
        if isinstance(small, cst.Assign | cst.AnnAssign) and small.value is not None
    ]
    makers = {
        node.name.value: node
        for node in matchers.findall(code.module, matchers.FunctionDef())
        if isinstance(node, cst.FunctionDef)
    }
    return bool(values) and all(_makes_torchs_own(code, value, makers) for value in values)


def _makes_torchs_own(code: TrainingCode, value: cst.BaseExpression, makers: dict[str, cst.FunctionDef]) -> bool:
    """True for `nn.Sequential(...)`, also with `.to(device)`, and for calls of functions that return only such."""
    while (
        isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and isinstance(value.func.value, cst.Call)
    ):
        value = value.func.value
    if not isinstance(value, cst.Call):
        return False
    if isinstance(value.func, cst.Name) and (maker := makers.get(value.func.value)) is not None:
        returned = [node.value for node in matchers.findall(maker, matchers.Return()) if isinstance(node, cst.Return)]
        known = [each for each in returned if each is not None]
        return bool(known) and all(_makes_torchs_own(code, each, {}) for each in known)
    return code.find_name(value.func).startswith(_OWN)
