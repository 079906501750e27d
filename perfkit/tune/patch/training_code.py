"""Finds the parts of a training program in its source: optimizers, the model that they update, and the loss.

Names are resolved through imports by libcst's `QualifiedNameProvider`, so `torch.optim.AdamW`, `optim.AdamW` and
`AdamW` are the same. Nothing is executed.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import libcst as cst
from libcst import matchers
from libcst.metadata import (
    ExpressionContext,
    ExpressionContextProvider,
    MetadataWrapper,
    ParentNodeProvider,
    QualifiedNameProvider,
)

OPTIMIZERS = "torch.optim."

# Methods of `torch.nn.Module` that little else has.
_MODULE_METHODS = ("parameters", "named_parameters", "train")

Replace = Callable[[cst.CSTNode, cst.CSTNode], Any]


class OptimizerCall(NamedTuple):
    """A constructor call of an optimizer of torch: its class and, where its parameters are `MODEL.parameters()`, the
    model's expression."""

    call: cst.Call
    name: str
    model: cst.BaseExpression | None


class TrainingCode:
    """The source of a program with what it trains. `module` is the copy whose nodes the results are."""

    def __init__(self, source: str) -> None:
        wrapper = MetadataWrapper(cst.parse_module(source))
        self.module = wrapper.module
        self._wrapper = wrapper
        self._names = wrapper.resolve(QualifiedNameProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)

    def list_optimizers(self) -> list[OptimizerCall]:
        """The constructor calls of torch's optimizers, in the order of the source."""
        return [
            OptimizerCall(call, name.removeprefix(OPTIMIZERS), _find_model(call))
            for call in list_calls(self.module)
            if (name := self.find_name(call.func)).startswith(OPTIMIZERS)
        ]

    def list_models(self) -> set[str]:
        """The sources of expressions that are used as modules: `model` of `model.parameters()` or `model.train()`."""
        return {
            render(call.func.value)
            for call in list_calls(self.module)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _MODULE_METHODS
        }

    def find_name(self, node: cst.CSTNode) -> str:
        """The qualified name of an expression such as `optim.AdamW`; "" where it is not known."""
        found = self._names.get(node, ())
        names = found() if callable(found) else found  # libcst resolves them on demand
        return next((name.name for name in sorted(names, key=lambda name: name.name)), "")

    def find_statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """The line of statements around an expression; None inside of a lambda, which has none of its own."""
        while not isinstance(node, cst.SimpleStatementLine):
            if isinstance(node, cst.Lambda | cst.Module):
                return None
            node = self._parents[node]
        return node

    def count_stored(self) -> Counter[str]:
        """How often each name is written to: assigned in any way, a parameter, or the target of a loop."""
        contexts = self._wrapper.resolve(ExpressionContextProvider)
        stored = Counter(
            node.value
            for node, context in contexts.items()
            if isinstance(node, cst.Name) and context is ExpressionContext.STORE
        )
        parameters = matchers.findall(self.module, matchers.Param(name=matchers.Name()))
        return stored + Counter(each.name.value for each in parameters if isinstance(each, cst.Param))

    def list_model_statements(self) -> list[tuple[cst.SimpleStatementLine, cst.BaseExpression]]:
        """The statements that first give a model to an optimizer, each with the model's expression.

        In two functions the same name may be two models.
        """
        found: dict[tuple[int, str], tuple[cst.SimpleStatementLine, cst.BaseExpression]] = {}
        for each in self.list_optimizers():
            statement = self.find_statement(each.call)
            if statement is not None and each.model is not None:
                found.setdefault((id(self._find_scope(statement)), render(each.model)), (statement, each.model))
        return list(found.values())

    def _find_scope(self, node: cst.CSTNode) -> cst.CSTNode:
        while not isinstance(node, cst.FunctionDef | cst.Module):
            node = self._parents[node]
        return node


def render(node: cst.CSTNode) -> str:
    """The source of a node."""
    return cst.Module([]).code_for_node(node)


def list_called(node: cst.CSTNode) -> list[str]:
    """The sources of everything that is called within a node: `model`, `F.cross_entropy`."""
    return [render(call.func) for call in list_calls(node)]


def list_assigned(statement: cst.BaseStatement | cst.BaseSmallStatement) -> list[str]:
    """The names that a line of statements assigns to."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return []
    targets: list[str] = []
    for small in statement.body:
        if isinstance(small, cst.Assign):
            targets += [render(target.target) for target in small.targets]
        elif isinstance(small, cst.AnnAssign | cst.AugAssign):
            targets.append(render(small.target))
    return [name.strip() for target in targets for name in target.strip("()").split(",")]


def _find_model(call: cst.Call) -> cst.BaseExpression | None:
    """`model` of `AdamW(model.parameters(), ...)`; None for groups of parameters, which need not be all."""
    values = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "params"][:1]
    match values:
        case [cst.Call(func=cst.Attribute(value=model, attr=cst.Name("parameters")))]:
            return model
    return None


def list_imported(module: cst.Module) -> list[str]:
    """The names that plain imports at the top of a module bind: `torch` of `import torch.nn`."""
    imports = [
        small
        for statement in module.body
        if isinstance(statement, cst.SimpleStatementLine)
        for small in statement.body
        if isinstance(small, cst.Import)
    ]
    return [render(alias.name).partition(".")[0] for each in imports for alias in each.names if alias.asname is None]


def list_calls(node: cst.CSTNode) -> list[cst.Call]:
    """All calls within a node."""
    return [call for call in matchers.findall(node, matchers.Call()) if isinstance(call, cst.Call)]


def replace_nodes(module: cst.Module, replace: Replace) -> cst.Module:
    """The module with what `replace` makes of each node, from the leaves up: it gets the node and the node with its
    replaced children."""

    class _Replacer(cst.CSTTransformer):
        def on_leave(self, original_node: Any, updated_node: Any) -> Any:
            return replace(original_node, updated_node)

    return module.visit(_Replacer())


def insert_before(module: cst.Module, additions: Sequence[tuple[cst.SimpleStatementLine, str]]) -> cst.Module:
    """Insert a line of source before each of these statements of the module."""

    def insert(original: cst.CSTNode, updated: cst.CSTNode) -> Any:
        lines = [cst.parse_statement(line) for statement, line in additions if statement is original]
        return cst.FlattenSentinel([*lines, updated]) if lines else updated

    return replace_nodes(module, insert)


def find_training_loops(module: cst.Module) -> list[cst.For | cst.While]:
    """The innermost loops in which `backward` is called."""
    training = [loop for loop in _list_loops(module) if _calls_backward(loop)]
    return [loop for loop in training if not any(map(_calls_backward, _list_loops(loop.body)))]


def _list_loops(node: cst.CSTNode) -> list[cst.For | cst.While]:
    found = [*matchers.findall(node, matchers.For()), *matchers.findall(node, matchers.While())]
    return [loop for loop in found if isinstance(loop, cst.For | cst.While)]


def _calls_backward(node: cst.CSTNode) -> bool:
    return any(name.rpartition(".")[2] == "backward" for name in list_called(node))
