"""The public API: every name is there, and importing the package loads nothing heavy."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import perfkit


@pytest.mark.parametrize("name", perfkit.__all__)
def test_every_public_name_exists(name):
    assert getattr(perfkit, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'profle'"):
        _ = perfkit.profle


def test_no_public_name_is_hidden_by_a_submodule():
    modules = {module.name for module in pkgutil.iter_modules(perfkit.__path__)}
    assert modules & set(perfkit.__all__) == {"check", "plan", "tune"}, "packages that can be called"


_SUBMODULES = {"plan": "target", "check": "config", "tune": "model"}


@pytest.mark.parametrize(
    ("name", "parameter"), [("plan", "technique"), ("check", "against_ref"), ("tune", "objective")]
)
def test_a_package_can_be_called_whatever_of_it_is_imported(name: str, parameter: str) -> None:
    package = importlib.import_module(f"perfkit.{name}")
    importlib.import_module(f"perfkit.{name}.{_SUBMODULES[name]}")
    assert getattr(perfkit, name) is package
    assert callable(package)
    assert parameter in inspect.signature(package).parameters
    assert importlib.reload(package) is getattr(perfkit, name)
    assert callable(package)


def test_old_names_are_gone():
    for name in ("analyse", "analyse_traces", "analyse_memory", "compare_runs"):
        assert not hasattr(perfkit, name)


@pytest.mark.cold
@pytest.mark.slow
def test_importing_the_package_loads_no_torch():
    code = "import sys, perfkit; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
