"""Parameters are held against the function's signature before it is called."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import pytest
import torch

from perfkit.core.errors import UsageError
from perfkit.workloads.user_signature import can_take_one, fit_arguments
from perfkit.workloads.workload import Workload

if TYPE_CHECKING:
    from somewhere import Unknown


def build(
    depth: int = 2,
    lr: float = 0.1,
    kind: Literal["a", "b"] = "a",
    name: str = "",
    seq_len: int | None = None,
    *,
    causal: bool = True,
    heads: Annotated[int, msgspec.Meta(ge=1)] = 4,
    path: Path | None = None,
    depths: list[int] | None = None,
    scales: tuple[float, ...] = (),
    words: Sequence[str] = (),
    note: str | None = None,
    sizes=(1,),
    plain=3,
    switch=False,
    word="x",
):
    raise AssertionError("never called")


@pytest.mark.parametrize(
    ("key", "given", "fitting"),
    [
        ("depth", 3, 3),
        ("depth", 3.0, 3),
        ("lr", 1, 1.0),
        ("name", 3, "3"),
        ("name", True, "true"),
        ("seq_len", 5, 5),
        ("causal", False, False),
        ("path", "x/y", "x/y"),  # what is made of more than words and numbers is the function's to judge
        ("depths", "[3,4]", [3, 4]),
        ("scales", "[1, 0.5]", (1.0, 0.5)),
        ("words", "[a,'b:c']", ["a", "b:c"]),
        ("sizes", "[[2, 3], [true]]", [[2, 3], [True]]),
        ("sizes", "[2", "[2"),
        ("note", "[3,4]", "[3,4]"),
        ("note", "'x:y'", "x:y"),
        ("name", '"7"', "7"),
        ("name", "[3]", "[3]"),
        ("word", "'3'", "3"),
        ("plain", 0.5, 0.5),
        ("switch", True, True),
        ("word", 3, 3),
    ],
)
def test_what_fits_is_passed_in_the_type_of_the_signature(key, given, fitting) -> None:
    (value,) = fit_arguments(build, {key: given}, "mine.py:build").values()
    assert value == fitting
    assert type(value) is type(fitting)


@pytest.mark.parametrize(
    ("key", "given", "message"),
    [
        ("depth", "abc", r"workload 'mine.py:build': depth=abc: Expected `int`, got `str`"),
        ("depth", 2.5, "depth=2.5: Expected `int`"),
        ("depth", True, "depth=true: Expected `int`, got `bool`"),
        ("lr", "fast", "lr=fast: Expected `float`"),
        ("kind", "c", "kind=c: Invalid enum value 'c'"),
        ("seq_len", "long", "seq_len=long: Expected `int"),
        ("causal", "maybe", "causal=maybe: Expected `bool`"),
        ("heads", 0, "heads=0: Expected `int` >= 1"),
        ("plain", "abc", "plain=abc: Expected `int"),
        ("switch", "abc", "switch=abc: Expected `bool`"),
        ("dept", 3, r"unknown parameter of mine.py:build 'dept': did you mean 'depth'"),
    ],
)
def test_what_does_not_fit_is_a_usage_error(key, given, message) -> None:
    with pytest.raises(UsageError, match=message):
        fit_arguments(build, {key: given}, "mine.py:build")


def test_functions_that_say_little_take_anything() -> None:
    def anything(**options): ...

    def unreadable(depth: "Unknown", width: int = 2): ...

    @functools.wraps(build)
    def wrapped(*args, **kwargs): ...

    assert fit_arguments(anything, {"a": "b"}, "f") == {"a": "b"}
    assert fit_arguments(unreadable, {"depth": "x"}, "f") == {"depth": "x"}
    with pytest.raises(UsageError, match="depth=abc"):
        fit_arguments(wrapped, {"depth": "abc"}, "f")


def test_a_function_of_one_argument_is_told_from_one_of_none_or_two() -> None:
    assert can_take_one(lambda model: model)
    assert can_take_one(lambda model, deep=True: (model, deep))
    assert can_take_one(functools.partial(max, 1))  # partial of what has no signature
    assert not can_take_one(lambda: ())
    assert not can_take_one(lambda model, deep: (model, deep))


def make_without_generator() -> dict[str, torch.Tensor]:
    return {}


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ({"make_batch": make_without_generator}, "make_batch of the workload odd must take the generator"),
        ({"make_batch": lambda generator: {}, "blocks": lambda: ()}, "blocks of the workload odd must take the model"),
    ],
)
def test_a_workload_names_its_function_without_the_parameter(functions: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Workload(name="odd", unit="samples", units_per_batch=1, build_model=list, build_optimizer=list, **functions)
