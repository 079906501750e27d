"""What uv is asked for, and that it is asked once."""

import subprocess

import pytest

from perfkit.check.environments import create_environment as module
from perfkit.check.environments.create_environment import create_environment, list_wanted
from perfkit.check.environments.installed_packages import Package
from perfkit.check.environments.named_environment import NamedEnvironment
from perfkit.core.errors import PerfkitError

INSTALLED = {
    name: Package(name, version, frozenset(requires), is_local=name == "mine")
    for name, version, requires in (
        ("torch", "2.13.0", ("triton",)),
        ("triton", "3.7", ()),
        ("torchvision", "0.28", ("torch",)),
        ("numpy", "2.4", ()),
        ("mine", "0", ("torch",)),
        ("pip", "23", ()),
    )
}
NAMED = NamedEnvironment("torch==2.14.1", requirements=("torch==2.14.1",))


def test_only_what_depends_on_the_named_package_may_change():
    assert list_wanted(("torch==2.14.1",), INSTALLED) == ("torch==2.14.1", "torchvision", "numpy==2.4")
    assert list_wanted(("numpy<2",), INSTALLED) == (
        "numpy<2",
        "torch==2.13.0",
        "triton==3.7",
        "torchvision==0.28",
    )


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """The commands given to uv, which does nothing; `fails` makes one fail."""
    given = []

    def run(command, **options):
        given.append(command)
        failed = "fails" in given
        return subprocess.CompletedProcess(command, int(failed), "", "no solution\n" if failed else "")

    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))
    monkeypatch.setenv("UV_INDEX", "https://example.org")
    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.setattr(module, "list_installed", lambda: INSTALLED)
    return given


def test_an_environment_is_created_once(commands, tmp_path):
    told = []
    first = create_environment(NAMED, told.append)
    assert len(commands) == len(told) == 3
    folder = first.parent.parent.parent
    assert folder.parent == tmp_path / "environments"
    assert "torchvision" in (folder / "requirements.in").read_text().split()
    assert "torch==2.13.0" in (folder / "requirements.txt").read_text().split()  # preferred where it is free
    assert create_environment(NAMED, told.append) == first
    assert len(commands) == 3
    assert create_environment(NAMED._replace(requirements=("torch==2.14.0",)), told.append) != first


def test_what_cannot_be_resolved_leaves_nothing(commands, tmp_path):
    commands.append("fails")
    with pytest.raises(PerfkitError, match="no solution") as raised:
        create_environment(NAMED, lambda _: None)
    assert raised.value.id == "check.no_environment"
    assert not list((tmp_path / "environments").iterdir())


def test_pips_indexes_are_given_to_uv(commands, monkeypatch):
    monkeypatch.delenv("UV_INDEX")
    listed = "global.extra-index-url='https://a.org https://b.org'\n:env:.find-links='/wheels'\nglobal.cert='x'\n"
    monkeypatch.setattr(
        module.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, listed, "")
    )
    assert module._list_index_options() == [
        *("--index", "https://a.org"),
        *("--index", "https://b.org"),
        *("--find-links", "/wheels"),
    ]


def test_a_relative_folder_of_wheels_is_given_whole(commands, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wheels").mkdir()
    listed = ":env:.find-links='wheels https://a.org'\n"
    monkeypatch.setattr(module.subprocess, "run", lambda *given, **_: subprocess.CompletedProcess(given, 0, listed, ""))
    for name in module._INDEX_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert module._list_index_options() == ["--find-links", str(tmp_path / "wheels"), "--find-links", "https://a.org"]
