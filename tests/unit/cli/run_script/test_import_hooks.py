"""Being told of imports changes nothing for who imports."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from perfkit_cli.run_script.import_hooks import call_after_import


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    """What was told of `awaited`, a module that shows its loader as it is executed."""
    (tmp_path / "awaited.py").write_text("seen = type(__loader__).__name__, type(__spec__.loader).__name__\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    modules: list[ModuleType] = []
    yield modules
    assert sys.meta_path == before
    sys.modules.pop("awaited", None)


def test_it_is_told_once_before_the_importer_goes_on(told: list[ModuleType]) -> None:
    call_after_import("awaited", told.append)
    assert told == []
    module = importlib.import_module("awaited")
    assert told == [module]
    importlib.reload(module)
    assert told == [module]


def test_the_module_sees_its_own_loader(told: list[ModuleType]) -> None:
    call_after_import("awaited", told.append)
    module = importlib.import_module("awaited")
    assert module.seen == ("SourceFileLoader", "SourceFileLoader")
    assert type(module.__loader__).__name__ == "SourceFileLoader"


def test_asking_whether_it_is_there_is_no_import(told: list[ModuleType]) -> None:
    call_after_import("awaited", told.append)
    spec = importlib.util.find_spec("awaited")
    assert "seen" in spec.loader.get_source("awaited")  # type: ignore[attr-defined]
    assert told == []
    module = importlib.import_module("awaited")
    assert told == [module]


def test_a_module_that_is_there_is_told_at_once(told: list[ModuleType]) -> None:
    module = importlib.import_module("awaited")
    call_after_import("awaited", told.append)
    assert told == [module]


def test_an_import_that_fails_is_told_when_it_succeeds(told: list[ModuleType], tmp_path: Path) -> None:
    good = (tmp_path / "awaited.py").read_text()
    (tmp_path / "awaited.py").write_text("1 / 0")
    call_after_import("awaited", told.append)
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("awaited")
    assert told == []
    (tmp_path / "awaited.py").write_text(good + "# another size than before\n")
    module = importlib.import_module("awaited")
    assert told == [module]
