"""Finds the modules by which a loop may evaluate what it trains, other than those that its training steps call."""

from collections.abc import Iterable, Iterator

from torch import nn

from perfkit.instruments.training.live_objects import find_instances

_CONTAINERS = (nn.ModuleList, nn.ModuleDict)


def find_evaluation_modules(called: Iterable[nn.Module]) -> tuple[nn.Module, ...]:
    """Find modules beside `called`: what wrappers among these hold, their parts (which a `sample` method calls), and
    copies of them (an average of the weights).

    Stock modules of torch have no methods that call their parts.
    """
    models = list(dict.fromkeys(inner for module in called for inner in list_inner_modules(module)))
    parts = [part for model in models if not _is_stock(model) for part in _list_parts(model)]
    others = dict.fromkeys([*models, *parts, *_find_copies(models)])
    for module in called:
        others.pop(module, None)
    return tuple(others)


def list_inner_modules(module: nn.Module) -> Iterator[nn.Module]:
    """`module`, and what it holds that has all of its parameters, from the outermost on."""
    yield module
    own = {id(parameter) for parameter in module.parameters()}
    for child in module.children():
        if own and own == {id(parameter) for parameter in child.parameters()}:
            yield from list_inner_modules(child)


def _list_parts(module: nn.Module) -> Iterator[nn.Module]:
    """The children with parameters; of lists and dictionaries of modules theirs."""
    for child in module.children():
        if isinstance(child, _CONTAINERS):
            yield from _list_parts(child)
        elif next(child.parameters(), None) is not None:
            yield child


def _find_copies(models: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Modules of a class of `models` and with parameters of the same names and shapes, that are no parts of them."""
    shapes: dict[type, list[list[tuple[str, tuple[int, ...]]]]] = {}
    own: set[int] = set()
    for model in models:
        own.update(map(id, model.modules()))
        if next(model.parameters(), None) is not None:
            shapes.setdefault(type(model), []).append(_list_shapes(model))
    for module in find_instances(*shapes):
        alike = shapes.get(type(module))
        if alike and "_modules" in module.__dict__ and id(module) not in own and _list_shapes(module) in alike:
            yield module


def _list_shapes(module: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, tuple(parameter.shape)) for name, parameter in module.named_parameters()]


def _is_stock(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.")
