"""Which packages an environment has, and what depends on what."""

import sys
from pathlib import Path

import pytest

from perfkit.check.environments.installed_packages import (
    Package,
    find_dependents,
    find_required,
    list_installed,
    list_versions,
    normalize_name,
    read_requirement_name,
)


class Found:
    """A distribution as `importlib.metadata` gives it."""

    def __init__(self, name, version, requires=(), origin=None):
        self.name, self.version, self.requires, self._origin = name, version, list(requires), origin

    def read_text(self, name):
        return self._origin if name == "direct_url.json" else None


def test_the_first_of_a_name_counts_and_extras_do_not():
    packages = list_installed(
        [
            Found("My_Pkg", "1", ["torch>=2", "Extra-Thing>1; extra == 'x'", "typing_extensions; python_version<'4'"]),
            Found("my-pkg", "2"),
            Found("here", "0", origin='{"url": "file:///src", "dir_info": {"editable": true}}'),
            Found("wheel-of", "0", origin='{"url": "file:///a.whl", "archive_info": {}}'),
        ]
    )
    assert packages["my-pkg"] == Package("my-pkg", "1", frozenset({"torch", "typing-extensions"}), is_local=False)
    assert packages["here"].is_local
    assert not packages["wheel-of"].is_local


def test_dependencies_are_followed_both_ways():
    packages = {
        name: Package(name, "1", frozenset(requires), is_local=False)
        for name, requires in {
            "torch": ("triton", "sympy"),
            "triton": (),
            "sympy": ("mpmath",),
            "mpmath": (),
            "vision": ("torch", "numpy"),
            "numpy": (),
            "models": ("vision",),
        }.items()
    }
    assert find_required(packages, {"torch"}) == {"triton", "sympy", "mpmath"}
    assert find_dependents(packages, {"torch"}) == {"vision", "models"}


def test_names_are_normalized():
    assert normalize_name("A__b.-C") == "a-b-c"
    assert read_requirement_name(" Torch_Vision[x]>=1 ; python_version>'3'") == "torch-vision"
    assert read_requirement_name("==1") == ""


def test_this_environment_has_what_it_runs_with():
    assert {"msgspec", "numpy"} <= list_versions().keys()
    assert "pip" not in list_versions()


def test_copies_that_setuptools_brings_are_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    versions = list_versions()
    copy = tmp_path / "_vendor" / "bundled_thing-1.0.dist-info" / "METADATA"
    copy.parent.mkdir(parents=True)
    copy.write_text("Metadata-Version: 2.1\nName: bundled-thing\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "_vendor"))
    assert str(tmp_path / "_vendor") in sys.path
    assert list_versions() == versions
