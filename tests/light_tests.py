"""Tests in an environment without torch: files that import a package which is missing are left out, and counted.

So are tests that are told what to install. What passed is listed in the file that `PERFKIT_LIGHT_TESTED` names, and
where torch is installed the tests which that file lists are left out: each is run once.
"""

import os
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perfkit.core.errors import UnavailableError
from perfkit.core.optional_deps import is_torch_installed

_OWN = ("perfkit", "perfkit_cli", "perfkit_reports", "tests")
_LEFT_OUT = pytest.StashKey[dict[str, str]]()  # files, and the package that each lacks
_OUTPUT = "left_out"
_TESTED = "PERFKIT_LIGHT_TESTED"


class _Module(pytest.Module):
    def collect(self) -> Sequence[Any]:
        try:
            return [*super().collect()]
        except self.CollectError as error:
            missing = error.__cause__
            package = (missing.name or "") if isinstance(missing, ModuleNotFoundError) else ""
            if not package or package.partition(".")[0] in _OWN:
                raise
            self.config.stash[_LEFT_OUT][self.nodeid] = package
            raise pytest.skip.Exception(f"needs {package}", allow_module_level=True) from None


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LEFT_OUT] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not is_torch_installed() or _TESTED not in os.environ:
        return
    tested = set(Path(os.environ[_TESTED]).read_text(encoding="utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in tested])
    items[:] = [item for item in items if item.nodeid not in tested]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """List what passed: workers report to the process that started them, which alone writes."""
    listed = _TESTED in os.environ and "PYTEST_XDIST_WORKER" not in os.environ and not is_torch_installed()
    if listed and report.when == "call" and report.passed:
        with Path(os.environ[_TESTED]).open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """With torch every file has to be imported."""
    return None if is_torch_installed() else _Module.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """With torch every test has to end."""
    try:
        return (yield)
    except UnavailableError as error:
        if is_torch_installed() or error.id != "skip.package":
            raise
        raise pytest.skip.Exception(str(error)) from None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one, which collects nothing itself."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_OUTPUT] = session.config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_LEFT_OUT].update(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    left_out = config.stash[_LEFT_OUT]
    if left_out:
        lacking = ", ".join(f"{package} ({count})" for package, count in Counter(left_out.values()).most_common())
        terminalreporter.write_line(f"left out: {len(left_out)} files, for want of {lacking}")
