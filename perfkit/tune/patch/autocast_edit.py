"""`amp` in source: autocast around the model's call and the loss, up to the backward pass."""

from collections.abc import Sequence

import libcst as cst
from libcst import matchers

from perfkit.tune.patch.training_code import (
    TrainingCode,
    list_assigned,
    list_called,
    list_calls,
    list_imported,
    render,
    replace_nodes,
)


def edit_autocast(source: str, device: str) -> str:
    """The source with autocast to bf16 around each forward pass; unchanged where none is recognized, and where a
    gradient scaler shows that it has lower precision already.

    A forward pass is a run of statements of one block, from the first that calls a module to the last that assigns the
    loss on which `backward` is called later in the block; or the `loss` of a `perfkit.Workload`.
    """
    code = TrainingCode(source)
    if "torch" not in list_imported(code.module) or _has_scaler(code):
        return source
    models = code.list_models()
    workloads = [call for call in list_calls(code.module) if code.find_name(call.func) == "perfkit.Workload"]

    def edit(original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if isinstance(updated, cst.Call) and any(call is original for call in workloads):
            return updated.with_changes(args=[_wrap_loss(arg, device) for arg in updated.args])
        if not isinstance(original, cst.IndentedBlock) or not isinstance(updated, cst.IndentedBlock):
            return updated
        found = find_forward(original.body, models)
        if found is None:
            return updated
        first, last = found
        body = list(updated.body)
        return updated.with_changes(body=[*body[:first], _wrap(body[first:last], device), *body[last:]])

    return replace_nodes(code.module, edit).code


def _has_scaler(code: TrainingCode) -> bool:
    """True for `torch.amp.GradScaler(...)`, `torch.cuda.amp.GradScaler(...)` and those of engines."""
    return any(code.find_name(call.func).endswith("GradScaler") for call in list_calls(code.module))


def find_forward(statements: Sequence[cst.BaseStatement], models: set[str]) -> tuple[int, int] | None:
    """The first statement of a forward pass and the one after its last; None without one."""
    for place, statement in enumerate(statements):
        losses = _list_losses(statement)
        calls = [at for at in range(place) if models & set(list_called(statements[at]))]
        assigns = [at for at in range(place) if losses & set(list_assigned(statements[at]))]
        if not calls or not assigns or assigns[-1] < calls[0]:
            continue
        inside = statements[calls[0] : assigns[-1] + 1]
        called = [name for each in inside for name in list_called(each)]
        # A step or another backward pass inside would run under autocast, too.
        if any(_is_update(name) or "autocast" in name for name in called):
            return None
        return calls[0], assigns[-1] + 1
    return None


def _list_losses(statement: cst.BaseStatement) -> set[str]:
    """The names in `X` of each `X.backward()` of a statement, and in `Y` of `accelerator.backward(Y)`."""
    backward = [
        call
        for call in list_calls(statement)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
    ]
    return {
        name.value
        for call in backward
        for name in matchers.findall(call, matchers.Name())
        if isinstance(name, cst.Name)
    }


def _is_update(called: str) -> bool:
    return called.rpartition(".")[2] in ("step", "backward", "zero_grad")


def _wrap_loss(arg: cst.Arg, device: str) -> cst.Arg:
    """The argument `loss=F` as `loss=torch.autocast(...)(F)`; any other, and one under autocast, as it is."""
    text = render(arg.value)
    if arg.keyword is None or arg.keyword.value != "loss" or "autocast" in text:
        return arg
    autocast = cst.parse_expression(_format_autocast(device))
    return arg.with_changes(value=cst.Call(func=autocast, args=[cst.Arg(arg.value)]))


def _format_autocast(device: str) -> str:
    return f'torch.autocast("{device}", dtype=torch.bfloat16)'


def _wrap(statements: Sequence[cst.BaseStatement], device: str) -> cst.With:
    wrapped = cst.parse_statement(f"with {_format_autocast(device)}:\n    pass\n")
    assert isinstance(wrapped, cst.With), "as written above"
    first = statements[0]
    leading = first.leading_lines if isinstance(first, cst.SimpleStatementLine | cst.BaseCompoundStatement) else ()
    body = cst.IndentedBlock([first.with_changes(leading_lines=()), *statements[1:]])
    return wrapped.with_changes(body=body, leading_lines=leading)
