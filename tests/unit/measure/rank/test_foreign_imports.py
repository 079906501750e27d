"""Which loaded modules belong to the other side's tree."""

import sys
from types import ModuleType

import pytest

from perfkit.core.errors import PerfkitError
from perfkit.measure.rank.foreign_imports import OTHER_TREE, OWN_TREE, check_imports, find_foreign_modules


def test_a_module_of_the_other_tree_is_foreign():
    files = {
        "model": "/other/src/model.py",
        "mine": "/own/src/model.py",
        "neighbour": "/other2/model.py",
        "json": "/usr/lib/python3/json/__init__.py",
        "builtin": None,
    }
    assert find_foreign_modules(files, "/own", "/other") == {"model": "/other/src/model.py"}


def test_an_environment_within_the_tree_is_no_side():
    files = {
        "torch": "/other/.venv/lib/python3/site-packages/torch/__init__.py",
        "json": "/other/tools/lib/python3/json/__init__.py",
    }
    assert find_foreign_modules(files, "/own", "/other", ("/other/tools",)) == {}


def test_a_tree_below_the_interpreters_prefix_is_a_side():
    files = {"model": "/usr/src/app/model.py"}
    assert find_foreign_modules(files, "/own", "/usr/src/app", ("/usr",)) == files


def test_one_tree_may_lie_in_the_other():
    inner, outer = "/code/trees/old", "/code"
    files = {"inner": f"{inner}/model.py", "outer": f"{outer}/model.py"}
    assert set(find_foreign_modules(files, inner, outer)) == {"outer"}
    assert set(find_foreign_modules(files, outer, inner)) == {"inner"}


def test_links_are_followed(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "other")
    files = {"model": str(tmp_path / "link" / "model.py")}
    assert find_foreign_modules(files, str(tmp_path / "own"), str(tmp_path / "other")) == files


def test_the_error_names_module_file_and_remedy(monkeypatch, tmp_path):
    module = ModuleType("perfkit_test_foreign")
    module.__file__ = str(tmp_path / "other" / "model.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv(OWN_TREE, str(tmp_path / "own"))
    monkeypatch.setenv(OTHER_TREE, str(tmp_path / "other"))
    with pytest.raises(PerfkitError) as caught:
        check_imports()
    for part in ("'perfkit_test_foreign'", module.__file__, "python_path", '["src"]', "editable"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)  # a record's reason is its first line


def test_both_sides_may_be_the_same_tree(monkeypatch, tmp_path):
    module = ModuleType("perfkit_test_foreign")
    module.__file__ = str(tmp_path / "model.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv(OWN_TREE, str(tmp_path))
    monkeypatch.setenv(OTHER_TREE, str(tmp_path))
    check_imports()
    monkeypatch.delenv(OTHER_TREE)
    check_imports()
