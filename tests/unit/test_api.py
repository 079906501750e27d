"""The public API: every name is there, and importing the package loads nothing heavy."""

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
    assert modules & set(perfkit.__all__) == set()


@pytest.mark.cold
@pytest.mark.slow
def test_importing_the_package_loads_no_torch():
    code = "import sys, perfkit; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
