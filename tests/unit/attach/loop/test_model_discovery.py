"""Which modules a program trains, found by its optimizers' parameters."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Optimizer

from perfkit.attach.loop.model_discovery import drop_contained_roots, find_trained_roots, name_models, unwrap_module

pytestmark = pytest.mark.slow  # real steps


class Wrapper(nn.Module):
    """As DDP holds what it wraps."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


class Net(nn.Module):
    partner: Any
    head: Any

    def __init__(self, width: int = 2) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)


class Other(Net):
    pass


@pytest.fixture(autouse=True)
def _no_modules_of_other_tests() -> Iterator[None]:
    gc.collect()
    yield
    gc.collect()


def of(*modules: nn.Module) -> Optimizer:
    return SGD([parameter for module in modules for parameter in module.parameters()], lr=0.1)


def test_the_outermost_module() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    assert find_trained_roots([of(model)]) == (model,)


def test_what_is_not_trained_is_not_found() -> None:
    frozen, model = nn.Linear(2, 2), nn.Linear(2, 2)
    assert find_trained_roots([of(model)]) == (model,)
    del frozen


def test_a_module_of_which_only_a_part_is_trained() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert find_trained_roots([of(model[1])]) == (model,)


def test_without_optimizers_there_is_nothing() -> None:
    model = nn.Linear(2, 2)
    assert find_trained_roots([]) == ()
    del model


def test_parameters_that_are_in_no_module() -> None:
    assert find_trained_roots([SGD([nn.Parameter(torch.ones(2))], lr=0.1)]) == ()


def test_wrappers_are_what_a_program_calls() -> None:
    wrapped = Wrapper(Wrapper(Net()))
    assert find_trained_roots([of(wrapped)]) == (wrapped,)


def test_a_compiled_module() -> None:
    model = Net()
    compiled: Any = torch.compile(model)
    assert find_trained_roots([of(model)]) == (compiled,)
    assert unwrap_module(compiled) is model


def test_two_models_with_an_optimizer_each_the_largest_first() -> None:
    small, large = Net(2), Net(8)
    assert find_trained_roots([of(small), of(large)]) == (large, small)


def test_two_models_with_one_optimizer() -> None:
    small, large = Net(2), Net(8)
    assert find_trained_roots([of(small, large)]) == (large, small)


def test_size_is_that_of_what_is_trained() -> None:
    adapted, small = nn.Sequential(Net(64), Net(1)), Net(2)
    assert find_trained_roots([of(adapted[1]), of(small)]) == (small, adapted)


def test_two_views_of_the_same_parameters() -> None:
    model = nn.Sequential(Net(), Net())
    view = nn.ModuleList([model[0]])
    roots = find_trained_roots([of(model)])
    assert roots == (model, view)
    assert drop_contained_roots(roots) == (model,)


def test_shared_parameters_of_two_models() -> None:
    first, second = Net(), Net()
    second.layer.weight = first.layer.weight
    roots = find_trained_roots([SGD({*first.parameters(), *second.parameters()}, lr=0.1)])
    assert set(roots) == {first, second}
    assert drop_contained_roots(roots) == roots  # each has a bias of its own


def test_modules_that_refer_to_each_other() -> None:
    first, second = Net(), Net()
    first.partner = [second]  # not a child: in a list, as programs do that want no cycle of modules
    second.partner = [first]
    assert set(find_trained_roots([of(first, second)])) == {first, second}


def test_a_module_within_a_cycle_is_not_a_root() -> None:
    outer, first, second = Net(), Net(), Net()
    outer.inner, outer.other = first, second
    first.partner, second.partner = [second], [first]
    assert find_trained_roots([of(outer)]) == (outer,)


def test_proxies_that_raise_when_they_are_looked_at() -> None:
    class Proxy:
        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            raise RuntimeError("not bound")

    proxy, model = Proxy(), Net()
    assert find_trained_roots([of(model)]) == (model,)
    del proxy


def test_a_module_whose_constructor_has_not_run() -> None:
    unfinished, model = Net.__new__(Net), Net()
    assert find_trained_roots([of(model)]) == (model,)
    del unfinished


def test_a_module_without_some_of_its_children() -> None:
    model = Net()
    model.head = None
    model.register_parameter("scale", None)
    assert find_trained_roots([of(model)]) == (model,)


def test_modules_before_the_first_lazy_call() -> None:
    lazy, model = nn.LazyLinear(2), Net()
    assert find_trained_roots([of(model)]) == (model,)
    del lazy


def test_one_that_nobody_holds_any_more_is_gone() -> None:
    model = Net()
    optimizer = of(model)
    copy = nn.ModuleList([model])
    del copy
    assert find_trained_roots([optimizer]) == (model,)


def test_a_single_model_has_no_name() -> None:
    model = Net()
    assert name_models([model]) == {"": model}
    assert name_models([]) == {}


def test_several_are_called_by_their_classes_and_numbered_where_these_are_the_same() -> None:
    models = [Net(), Wrapper(Net()), Other(), Net()]
    assert name_models(models) == dict(zip(("Net", "Net2", "Other", "Net3"), models, strict=True))


def test_what_is_inside_of_wrappers() -> None:
    model = Net()
    assert unwrap_module(Wrapper(Wrapper(model))) is model
    assert unwrap_module(model) is model
