"""`flash` in source: attention that is written out becomes `scaled_dot_product_attention`.

Only this is recognized, as consecutive statements of one block, each of one assignment: scores as a product with a
transposed tensor, with a scale; a mask of minus infinity, filled in or added; softmax over the last dimension; dropout;
the product with the values, also of softmax itself. Nothing else may read what lies between.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import libcst as cst
from libcst import matchers

from perfkit.tune.patch.attention_masks import (
    is_causal,
    list_added_masks,
    list_causal_buffers,
    read_added_mask,
    read_mask,
)
from perfkit.tune.patch.training_code import TrainingCode, list_imported, render, replace_nodes

_FUNCTIONAL = "torch.nn.functional"
_SOFTMAX = (f"{_FUNCTIONAL}.softmax", "torch.softmax")
_MATMUL = ("torch.matmul", "torch.bmm")
_LAST = ("-1", "dim=-1")
_LAST_TWO = ("-2, -1", "-1, -2", "2, 3", "3, 2")


class WrittenAttention(NamedTuple):
    """Attention that is written out in `length` statements: expressions in source, None for what it lacks.

    `mask` is True where a score counts; `causal` if that is the lower triangle.
    """

    target: str
    length: int
    query: str
    key: str
    value: str
    scale: str
    mask: str | None
    causal: bool
    dropout: str | None
    function: str


class KnownMasks(NamedTuple):
    """The sources of buffers that are lower triangles of ones, and the names of masks that are added."""

    causal: set[str]
    added: set[str]


def edit_attention(source: str) -> str:
    """The source with torch's attention in place of each that is written out; unchanged where none is recognized."""
    code = TrainingCode(source)
    masks = KnownMasks(set(list_causal_buffers(code)), list_added_masks(code))
    dropouts = set(_list_dropouts(code))

    def edit(original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(original, cst.IndentedBlock) or not isinstance(updated, cst.IndentedBlock):
            return updated
        for place in range(len(original.body)):
            found = find_attention(code, original.body[place:], masks, dropouts)
            if found is not None:
                body = list(updated.body)
                first = body[place]
                assert isinstance(first, cst.SimpleStatementLine), "as found"
                call = cst.parse_statement(_format_call(found)).with_changes(leading_lines=first.leading_lines)
                return updated.with_changes(body=[*body[:place], call, *body[place + found.length :]])
        return updated

    return replace_nodes(code.module, edit).code


def find_attention(
    code: TrainingCode, statements: Sequence[cst.BaseStatement], masks: KnownMasks, dropouts: set[str]
) -> WrittenAttention | None:
    """The attention that these statements begin with; None where it is not certain to be one."""
    assigned = list(map(_split_assignment, statements))
    if not assigned or assigned[0] is None:
        return None
    name, expression = assigned[0]
    expression, added = read_added_mask(expression, masks.added)
    scores = _read_scores(code, expression)
    if scores is None:
        return None
    query, key, scale = scores
    mask, dropout, causal, place, function = added and added.text, None, False, 1, ""
    while place < len(assigned) and (each := assigned[place]) is not None:
        target, value = each
        if function:
            weights, values = _read_product(code, value) or ("", "")
            if weights == name and not _reads(statements[place + 1 :], name) | _reads_any(values, name):
                return WrittenAttention(
                    target, place + 1, query, key, values, scale or "1.0", mask, causal, dropout, function
                )
            if dropout is not None or not _applies(value, name, dropouts):
                return None
            assert isinstance(value, cst.Call), "as applied"
            dropout = render(value.func)
        elif (factor := _read_scale(value, name)) is not None and scale is None and mask is None:
            scale = factor
        elif (masked := read_mask(value, name)) is not None and mask is None:
            mask, causal = masked.text, is_causal(masked.buffer, masks.causal)
        elif mask is None and (summed := read_added_mask(value, masks.added))[1] and render(summed[0]) == name:
            mask = summed[1].text
        elif (product := _find_operands(code, value)) and (softmax := _read_softmax(code, product[0], name)):
            values = render(product[1])
            if _reads(statements[place + 1 :], name) | _reads_any(values, name):
                return None
            return WrittenAttention(
                target, place + 1, query, key, values, scale or "1.0", mask, causal, dropout, softmax
            )
        elif (softmax := _read_softmax(code, value, name)) is not None:
            function = softmax
        else:
            return None
        name = target
        place += 1
    return None


def _split_assignment(statement: cst.BaseStatement) -> tuple[str, cst.BaseExpression] | None:
    """The name and the value of a line with one assignment to a name."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)]):
            return str(name), value
    return None


def _read_scores(code: TrainingCode, value: cst.BaseExpression) -> tuple[str, str, str | None] | None:
    """Query, key and scale (None: none yet) of `q @ k.transpose(-2, -1) * scale`."""
    scale = None
    match value:
        case cst.BinaryOperation(left=left, operator=(cst.Multiply() | cst.Divide()) as operator, right=right):
            value, scale = left, _format_scale(operator, right)
    product = _find_operands(code, value)
    if product is None:
        return None
    query, key = product
    match key:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("transpose"))):
            axes = ", ".join(render(arg.value) for arg in key.args)
            if axes in _LAST_TWO:
                return render(query), render(tensor), scale
        case cst.Attribute(value=tensor, attr=cst.Name("mT")):
            return render(query), render(tensor), scale
    return None


def _find_operands(
    code: TrainingCode, value: cst.BaseExpression
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    match value:
        case cst.BinaryOperation(left=left, operator=cst.MatrixMultiply(), right=right):
            return left, right
        case cst.Call(args=[cst.Arg(value=left, keyword=None), cst.Arg(value=right, keyword=None)]):
            return (left, right) if code.find_name(value.func) in _MATMUL else None
    return None


def _read_product(code: TrainingCode, value: cst.BaseExpression) -> tuple[str, str] | None:
    operands = _find_operands(code, value)
    return None if operands is None else (render(operands[0]), render(operands[1]))


def _read_scale(value: cst.BaseExpression, name: str) -> str | None:
    """The scale of `scores * scale` or `scores / scale`."""
    match value:
        case cst.BinaryOperation(left=cst.Name(left), operator=cst.Multiply() | cst.Divide(), right=right):
            return _format_scale(value.operator, right) if left == name else None
    return None


def _format_scale(operator: cst.BaseBinaryOp, factor: cst.BaseExpression) -> str:
    text = render(factor)
    return text if isinstance(operator, cst.Multiply) else f"1.0 / ({text})"


def _read_softmax(code: TrainingCode, value: cst.BaseExpression, name: str) -> str | None:
    """The name of the attention function beside the softmax of `name`: `F.scaled_dot_product_attention`."""
    if not isinstance(value, cst.Call):
        return None
    arguments = [(arg.keyword.value + "=" if arg.keyword else "") + render(arg.value) for arg in value.args]
    if (
        isinstance(value.func, cst.Attribute)
        and render(value.func.value) == name
        and value.func.attr.value == "softmax"
    ):
        axes = arguments
    elif code.find_name(value.func) in _SOFTMAX and arguments[:1] == [name]:
        axes = arguments[1:]
    else:
        return None
    if len(axes) != 1 or axes[0] not in _LAST:
        return None
    if code.find_name(value.func) == _SOFTMAX[0] and isinstance(value.func, cst.Attribute):
        return f"{render(value.func.value)}.scaled_dot_product_attention"
    known = "torch" in list_imported(code.module)
    return f"{_FUNCTIONAL}.scaled_dot_product_attention" if known else None


def _applies(value: cst.BaseExpression, name: str, modules: set[str]) -> bool:
    """True if the value is a call of one of these modules with `name`."""
    match value:
        case cst.Call(func=cst.Attribute(), args=[cst.Arg(value=cst.Name(given), keyword=None)]):
            return given == name and render(value.func) in modules
    return False


def _list_dropouts(code: TrainingCode) -> Iterator[str]:
    """The sources of attributes that are `nn.Dropout` modules."""
    for each in matchers.findall(code.module, matchers.Assign()):
        match each:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() as target)], value=cst.Call(func=func)):
                if code.find_name(func) == "torch.nn.Dropout":
                    yield render(target)


def _reads(statements: Sequence[cst.BaseStatement], name: str) -> bool:
    return any(matchers.findall(statement, matchers.Name(name)) for statement in statements)


def _reads_any(text: str, name: str) -> bool:
    return bool(matchers.findall(cst.parse_expression(text), matchers.Name(name)))


def _format_call(found: WrittenAttention) -> str:
    arguments = [found.query, found.key, found.value]
    if found.causal:
        arguments.append("is_causal=True")
    elif found.mask is not None:
        arguments.append(f"attn_mask={found.mask}")
    if found.dropout is not None:
        arguments.append(f"dropout_p={found.dropout}.p if self.training else 0.0")
    return f"{found.target} = {found.function}({', '.join(arguments)}, scale={found.scale})"
