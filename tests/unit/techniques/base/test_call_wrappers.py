"""Being around the calls of a module."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from perfkit.techniques.base.call_wrappers import wrap_calls


class Around:
    """Counts calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return original(*args, **kwargs)

        return counted


def test_no_module_is_kept_alive() -> None:
    module = nn.Linear(3, 3)
    freed, take_away = weakref.ref(module), wrap_calls(module, Around())
    del module
    gc.collect()
    assert freed() is None
    take_away()


def test_every_call_passes_until_it_is_taken_away() -> None:
    module, around = nn.Linear(3, 3), Around()
    x = torch.randn(2, 3)
    before = dict(module.__dict__)
    take_away = wrap_calls(module, around)
    assert torch.equal(module(x), nn.functional.linear(x, module.weight, module.bias))
    assert around.calls == 1
    take_away()
    module(x)
    assert around.calls == 1
    assert module.__dict__ == before


def test_one_around_the_other() -> None:
    module, first, second = nn.Linear(3, 3), Around(), Around()
    outer = [wrap_calls(module, each) for each in (first, second)]
    module(torch.randn(2, 3))
    assert (first.calls, second.calls) == (1, 1)
    for each in reversed(outer):
        each()
    assert "_compiled_call_impl" not in module.__dict__


def test_a_module_that_is_compiled_in_place_meanwhile_stays_so() -> None:
    module = nn.Linear(3, 3)
    take_away = wrap_calls(module, Around())
    module.compile(backend="eager")
    compiled = module._compiled_call_impl
    take_away()
    assert module._compiled_call_impl is compiled


def test_one_that_was_compiled_in_place_is_so_again() -> None:
    module = nn.Linear(3, 3)
    module.compile(backend="eager")
    compiled, around = module._compiled_call_impl, Around()
    take_away = wrap_calls(module, around)
    module(torch.randn(2, 3))
    take_away()
    assert around.calls == 1
    assert module._compiled_call_impl is compiled


def test_copies_are_called_directly() -> None:
    module, around = nn.Linear(3, 3), Around()
    wrap_calls(module, around)
    attributes = copy.deepcopy(module.__dict__)  # as torch.fx copies modules
    assert attributes["_compiled_call_impl"] is None
    assert pickle.loads(pickle.dumps(module.__dict__))["_compiled_call_impl"] is None
    for each in (copy.deepcopy(module), copy.copy(module), pickle.loads(pickle.dumps(module))):
        each(torch.randn(2, 3))
    assert around.calls == 0


def test_a_scripted_module() -> None:
    module, around = torch.jit.script(nn.Linear(3, 3)), Around()
    take_away = wrap_calls(module, around)
    module(torch.randn(2, 3))
    take_away()
    module(torch.randn(2, 3))
    assert around.calls == 1
