"""`ckpt` in source: the blocks that a forward pass goes through in a loop are checkpointed."""

import libcst as cst

from perfkit.tune.patch.training_code import TrainingCode, list_imported, render, replace_nodes

_IMPORT = "import torch.utils.checkpoint\n"
_CHECKPOINT = "torch.utils.checkpoint.checkpoint"


def edit_checkpoints(source: str) -> str:
    """The source with a checkpoint around each block of `for block in self.blocks: x = block(x)`, in methods called
    `forward`; unchanged where no such loop is recognized, or torch is not imported by its name.

    A block that changes its buffers when it runs (batch norm) runs twice: losses tell.
    """
    code = TrainingCode(source)
    if "torch" not in list_imported(code.module) or _CHECKPOINT in source or "checkpoint(" in source:
        return source
    loops = [loop for loop in _list_forward_loops(code.module) if _find_block_call(loop) is not None]

    def edit(original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        for loop in loops:
            call = _find_block_call(loop)
            if original is call and isinstance(updated, cst.Call):
                return updated.with_changes(
                    func=cst.parse_expression(_CHECKPOINT),
                    args=[
                        cst.Arg(updated.func, comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))),
                        *(
                            arg.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
                            for arg in updated.args
                        ),
                        cst.Arg(
                            keyword=cst.Name("use_reentrant"),
                            value=cst.Name("False"),
                            equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
                        ),
                    ],
                )
        return updated

    if not loops:
        return source
    module = replace_nodes(code.module, edit)
    return add_import(module, _IMPORT).code


def add_import(module: cst.Module, line: str) -> cst.Module:
    """The module with a line of import after its first plain `import torch...`."""
    body = list(module.body)
    for place, statement in enumerate(body):
        if isinstance(statement, cst.SimpleStatementLine) and render(statement).strip().startswith("import torch"):
            return module.with_changes(body=[*body[: place + 1], cst.parse_statement(line), *body[place + 1 :]])
    return module


def _list_forward_loops(module: cst.Module) -> list[cst.For]:
    found: list[cst.For] = []

    class _Finder(cst.CSTVisitor):
        def visit_FunctionDef(self, node: cst.FunctionDef) -> None:  # noqa: N802 - libcst's name
            if node.name.value == "forward" and isinstance(node.body, cst.IndentedBlock):
                found.extend(each for each in node.body.body if isinstance(each, cst.For))

    module.visit(_Finder())
    return found


def _find_block_call(loop: cst.For) -> cst.Call | None:
    """`block(x)` of `for block in self.blocks: x = block(x)`, a loop of one line."""
    match loop:
        case cst.For(
            target=cst.Name(block),
            iter=cst.Attribute() as blocks,
            body=cst.IndentedBlock(
                body=[
                    cst.SimpleStatementLine(
                        body=[
                            cst.Assign(
                                targets=[cst.AssignTarget(target=cst.Name(state))],
                                value=cst.Call(func=cst.Name(called), args=[first, *_]) as call,
                            )
                        ]
                    )
                ]
            ),
        ) if called == block and render(blocks).startswith("self.") and render(first.value) == state:
            return call if not any(arg.star or arg.keyword for arg in call.args) else None
    return None
