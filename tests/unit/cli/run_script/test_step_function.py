"""Functions that are named as a step: each of their calls is told, and nothing else of the program changes."""

import inspect
import linecache
import re
from types import ModuleType
from typing import Any

import pytest

from perfkit_cli.run_script.step_function import DECORATOR, StepFunction, _list_defined_functions

SCRIPT = b'''
import functools

def twice(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args), function(*args)
    return wrapper

if True:
    def step(x):
        """A step."""
        return x + 1

@twice
def decorated(x): return -x

def recursive(n): return n and recursive(n - 1)

class Trainer:
    def step(self, x): return self, x
    @staticmethod
    def alone(x): return x
    @classmethod
    def of_class(cls, x): return cls, x
    def fails(self): raise ValueError("no")

lines = [f.__code__.co_firstlineno for f in (twice, recursive)]
'''


def run(name: str) -> tuple[StepFunction, ModuleType, list[int]]:
    """The script, with `name` as its step, and a list that grows by one with each step told."""
    steps = StepFunction(name)
    main = ModuleType("script")
    vars(main)[DECORATOR] = steps.wrap
    exec(compile(steps.decorate_script(SCRIPT, "script.py"), "script.py", "exec"), vars(main))
    told: list[int] = []
    steps.on_step = lambda: told.append(1)
    return steps, main, told


def test_a_function_under_a_condition() -> None:
    steps, main, told = run("step")
    assert main.step(1) == 2
    assert main.step(x=2) == 3
    assert len(told) == steps.calls == 2
    assert main.step.__doc__ == "A step."
    assert steps.describe_problem(main) == ""


def test_decorated_functions_count_from_outside() -> None:
    _, main, told = run("decorated")
    assert main.decorated(1) == (-1, -1)
    assert len(told) == 1


def test_calls_within_a_call_are_none() -> None:
    _, main, told = run("recursive")
    main.recursive(5)
    assert len(told) == 1


@pytest.mark.parametrize("name", ["step", "alone", "of_class"])
def test_methods(name: str) -> None:
    _, main, told = run(f"Trainer.{name}")
    trainer = main.Trainer()
    result = getattr(trainer, name)(3)
    assert result == {"step": (trainer, 3), "alone": 3, "of_class": (main.Trainer, 3)}[name]
    assert len(told) == 1


def test_a_call_that_fails_is_no_step() -> None:
    _, main, told = run("Trainer.fails")
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            main.Trainer().fails()
    assert told == []


def test_lines_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        linecache.cache, "script.py", (len(SCRIPT), None, SCRIPT.decode().splitlines(True), "script.py")
    )
    _, main, _ = run("decorated")
    plain: dict[str, Any] = {}
    exec(compile(SCRIPT, "script.py", "exec"), plain)
    assert main.lines == plain["lines"]
    source = inspect.getsource(main.decorated.__wrapped__.__wrapped__)
    assert source.splitlines() == ["@twice", "def decorated(x): return -x"]


def test_before_there_is_a_listener_nothing_counts() -> None:
    steps, main, _ = run("step")
    steps.on_step = None
    main.step(1)
    assert steps.calls == 0
    assert "--step-function step " in steps.describe_problem(main)


def test_an_unknown_name_is_told_with_what_there_is() -> None:
    steps, main, _ = run("Trainer.stp")
    assert re.search(r"'Trainer\.stp'.*'Trainer\.step'", steps.describe_problem(main))


def test_only_what_can_be_named_is_offered() -> None:
    source = b"""
import dataclasses, functools

@dataclasses.dataclass
class Config:
    rate: float = 0.1
    def of(self): return self.rate
    def __len__(self): return 1
    def __call__(self): return self.rate

handy = lambda: 1
def work():
    def inner(): return 1
    return inner()
"""
    steps = StepFunction("xyz")
    main = ModuleType("script")
    vars(main)[DECORATOR] = steps.wrap
    exec(compile(steps.decorate_script(source, "script.py"), "script.py", "exec"), vars(main))
    offered = [part.split()[-1] for part in steps.describe_problem(main).split(", ")]
    assert offered[-3:] == ["Config.__call__", "Config.of", "work"]
    module = ModuleType("some.module")
    exec(compile(source.replace(b"handy = lambda: 1", b""), "module.py", "exec"), vars(module))
    assert _list_defined_functions(module) == ["Config.of", "Config.__call__", "work"]


def test_a_script_without_functions_says_so() -> None:
    steps = StepFunction("train")
    steps.decorate_script(b"x = 1", "script.py")
    assert "'train'" in steps.describe_problem(ModuleType("script"))


def test_functions_of_modules() -> None:
    _, module, _ = run("nothing")
    steps = StepFunction("some.module:Trainer.step")
    steps.wrap_in_module(module)
    told: list[int] = []
    steps.on_step = lambda: told.append(1)
    trainer = module.Trainer()
    assert trainer.step(1) == (trainer, 1)
    assert len(told) == 1


def test_a_module_that_was_never_imported() -> None:
    assert "some.module" in StepFunction("some.module:step").describe_problem(None)


def test_what_torch_compiles_tells_nothing_and_is_whole() -> None:
    torch = pytest.importorskip("torch")
    _, main, told = run("step")
    compiled = torch.compile(main.step, fullgraph=True, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert told == []
