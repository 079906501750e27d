"""The user's own workloads: how they are found, and that what is wrong is explained in the user's terms."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import perfkit
from perfkit.core.errors import UsageError
from perfkit.core.spec import ParamValue
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.user_code import NO_USER_CODE
from perfkit.workloads.user_workload import (
    UserCodeError,
    find_defined_names,
    format_user_traceback,
    get_source_file,
    load_user_workload,
)
from perfkit.workloads.workload import Workload

FILES = Path(__file__).parents[2] / "fixtures" / "workloads"
OWN = str(Path(perfkit.__file__).parent)


@pytest.fixture(autouse=True)
def _restore_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(name: str, **params: ParamValue) -> Workload:
    return load_user_workload(name, params)


def test_file_and_function_with_parameters() -> None:
    workload = load(f"{FILES}/mlp.py:build", width=8, batch_size=3)
    model = workload.build_model()
    batch = workload.make_batch(torch.Generator().manual_seed(0))
    assert workload.description == "width 8"
    assert batch["x"].shape == (3, 16)
    assert compute_loss(workload, model, batch).ndim == 0
    for name in workload.blocks(model):
        model.get_submodule(name)


def test_module_and_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text((FILES / "mlp.py").read_text())
    monkeypatch.chdir(tmp_path)
    assert load("mypackage.task:build").name == "mlp"
    assert get_source_file("mypackage.task:build") == package / "task.py"


def test_file_imports_its_neighbour_and_has_dataclasses(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_mine.py").write_text("WIDTH = 4\n")
    (tmp_path / "mine.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom neighbour_of_mine import WIDTH\n"
        "@dataclass\nclass Sizes:\n    width: int = WIDTH\n" + (FILES / "mlp.py").read_text().split('"""', 2)[2]
    )
    assert load(f"{tmp_path}/mine.py:build", width=5).description == "width 5"


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("nowhere/x.py:build", {}, "'nowhere/x.py'"),
        (f"{FILES}/mlpp.py:build", {}, "'.*/mlp.py'"),
        (f"{FILES}/mlp.py:buidl", {}, "mlp.py.*'buidl'.*'build'"),
        (f"{FILES}/broken.py:not_a_function", {}, r"\bint\b"),
        (f"{FILES}/mlp.py:", {}, "path/to/file.py:function"),
        ("no_such_package.sub:f", {}, " 'no_such_package'"),
        ("torch.no_such_part:f", {}, " 'torch.no_such_part'"),
        ("a..b:f", {}, "'a..b'"),
        (f"{FILES}/mlp.py:build", {"widht": 3}, "mlp.py:build.*'widht'.*'width'"),
        (f"{FILES}/broken.py:returns_nothing", {"width": 3}, "'width'"),
        (f"{FILES}/broken.py:needs_argument", {}, "'width'.*:key=value"),
        (f"{FILES}/broken.py:returns_nothing", {}, "None.*perfkit.Workload"),
        (f"{FILES}/broken.py:returns_model", {}, "Linear.*perfkit.Workload"),
    ],
)
def test_bad_requests(name: str, params: dict[str, ParamValue], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(name, **params)


def test_error_in_the_function_shows_the_users_traceback_alone() -> None:
    with pytest.raises(UserCodeError) as caught:
        load(f"{FILES}/broken.py:raises", depth=7)
    trace = caught.value.traceback
    assert f"'{FILES}/broken.py:raises'" in str(caught.value)
    assert str(caught.value).endswith(f"ValueError\n{trace}")
    assert trace.splitlines()[-1].startswith("ValueError: ")
    assert "KeyError: 7" in trace  # the chained cause stays
    assert trace.count("in raises") == 1
    assert "in _inner" in trace
    assert OWN not in trace
    assert "importlib" not in trace
    assert isinstance(caught.value.__cause__, ValueError)
    assert format_user_traceback(caught.value, FILES / "broken.py") == trace


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("def build(:\n", "SyntaxError"),
        ("import no_such_dependency\n", "ModuleNotFoundError: No module named 'no_such_dependency'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
    ids=["syntax", "import", "exit", "division"],
)
def test_error_while_importing(code: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mistaken.py").write_text(code + "def build(): ...\n")
    monkeypatch.chdir(tmp_path)
    for name in ("mistaken.py:build", "mistaken:build"):
        with pytest.raises(UserCodeError) as caught:
            load(name)
        trace = caught.value.traceback
        assert error in trace
        assert str(tmp_path / "mistaken.py") in trace
        assert OWN not in trace
        assert "importlib" not in trace


def test_a_script_that_leaves_is_an_error_like_any_other() -> None:
    with pytest.raises(UserCodeError, match="SystemExit: the user's"):
        load(f"{FILES}/broken.py:leaves")


def test_later_errors_begin_in_the_users_file() -> None:
    workload = load(f"{FILES}/mlp.py:build")
    model = nn.Linear(3, 3)
    with pytest.raises(RuntimeError) as caught:
        compute_loss(workload, model, workload.make_batch(torch.Generator()))
    trace = format_user_traceback(caught.value, get_source_file(f"{FILES}/mlp.py:build"))
    first_frame = trace.splitlines()[1]
    assert str(FILES / "mlp.py") in first_frame
    assert "in loss" in first_frame
    assert __file__ not in trace


def test_errors_outside_the_users_file_keep_their_frames() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.ones(2).backward()
    trace = format_user_traceback(caught.value, FILES / "mlp.py")
    assert "require grad" in trace
    assert f"in {test_errors_outside_the_users_file_keep_their_frames.__name__}" in trace


def test_builtin_workloads_have_no_source_file() -> None:
    assert get_source_file("gpt") is None
    assert get_source_file("hf:LlamaConfig") is None


TEXT = """
import os.path, numpy as np
from math import sqrt as root
LIMIT: int = 3
if LIMIT:
    def inner_if(): local = 1
else:
    class Kept:
        hidden = 2
for step in range(3):
    loss, (a, *rest) = 1, (2, 3)
with open(os.devnull) as file:
    pass
try:
    pass
except ValueError as error:
    pass
async def later(): pass
def sets():
    global from_within
    from_within = 1
model.eval()
print(vars(args), model.modules())
"""


def test_all_that_the_modules_own_code_binds(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    found = find_defined_names(path)
    assert found is not None
    names, functions = found
    expected = "os np root LIMIT inner_if Kept step loss a rest file later sets from_within"
    assert names == set(expected.split())
    assert functions == ("inner_if", "later", "sets")


@pytest.mark.parametrize(
    "line",
    [
        "def (",
        "from x import *",
        "globals()['build'] = 1",
        "exec('def build(): pass')",
        "def __getattr__(name): pass",
        "setattr(module, 'build', 1)",
        "sys.modules[__name__].build = 1",
        "vars()['build'] = 1",
        "module.__dict__['build'] = 1",
    ],
)
def test_a_text_that_does_not_tell(tmp_path: Path, line: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"build_ = 1\n{line}\n")
    assert find_defined_names(path) is None


def test_a_process_that_must_not_run_code_does_not_read_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NO_USER_CODE, "1")
    with pytest.raises(UsageError) as refused:
        load("no_such_file.py:build")
    assert refused.value.id == "usage.user_code"
