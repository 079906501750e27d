"""Private names of torch: each has one module, and this release of torch has them."""

import ast

import pytest

from tests import private_names
from tests.private_names import SHARED, find_private_name, is_private, list_private_names

NAMES = list_private_names()


def test_a_private_name_has_one_module() -> None:
    """A second one takes it from the first; what all need is in `SHARED`."""
    several = {name: files for name, files in NAMES.items() if len(files) > 1 and name not in SHARED}
    assert several == {}


def test_what_is_shared_is_used_by_several() -> None:
    assert [name for name in sorted(SHARED) if len(NAMES.get(name, ())) < 2] == []


def test_this_torch_has_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # setuptools, which a module of torch imports, refuses a `distutils` that another test has imported before.
    monkeypatch.setenv("SETUPTOOLS_USE_DISTUTILS", "stdlib")
    assert [name for name in NAMES if not find_private_name(name)] == []


@pytest.mark.parametrize(
    ("name", "private"),
    [
        ("torch._C._autograd", True),
        ("torch.utils._pytree.tree_leaves", True),
        ("torch.nn.functional.linear", False),
        ("torch.__version__", False),
    ],
)
def test_names_that_are_private(name: str, private: bool) -> None:
    assert is_private(name) == private


def test_names_are_found_in_imports_and_in_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from torch._ops import OpOverload\nimport torch._dynamo\ntorch.utils._x.y(torch._C.z().w)\nother._C.z\n"
    monkeypatch.setattr(private_names, "list_nodes", lambda: {"a.py": list(ast.walk(ast.parse(source)))})
    assert list(list_private_names()) == ["torch._C.z", "torch._dynamo", "torch._ops.OpOverload", "torch.utils._x.y"]


def test_a_name_that_torch_does_not_have_is_missing() -> None:
    assert not find_private_name("torch._C._no_such_name")
    assert not find_private_name("torch._no_such_module.name")
