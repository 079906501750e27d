"""Techniques that are one statement: on the model, before the optimizer gets its parameters, or on torch."""

import libcst as cst

from perfkit.tune.patch.training_code import TrainingCode, insert_before, list_imported, render


def add_model_statement(source: str, template: str) -> str:
    """The source with a line before each optimizer of a model: `{model}` of the template is the model's expression.

    Unchanged where the model is not given to an optimizer by `MODEL.parameters()` in a statement.
    """
    code = TrainingCode(source)
    additions = [(statement, template.format(model=render(model))) for statement, model in code.list_model_statements()]
    return insert_before(code.module, additions).code if additions else source


def add_torch_statement(source: str, line: str) -> str:
    """The source with a line after the imports at its top; unchanged where torch is not imported by this name."""
    module = cst.parse_module(source)
    if "torch" not in list_imported(module):
        return source
    last = max(place for place, statement in enumerate(module.body) if _is_import(statement))
    statement = cst.parse_statement(line).with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return module.with_changes(body=[*module.body[: last + 1], statement, *module.body[last + 1 :]]).code


def _is_import(statement: cst.BaseStatement | cst.SimpleStatementLine) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and any(
        isinstance(small, cst.Import | cst.ImportFrom) for small in statement.body
    )
