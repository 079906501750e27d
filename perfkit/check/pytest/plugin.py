"""The pytest plugin: the fixture `perfkit_check`, `--perfkit-update` and `--perfkit-fail-on`. See docs/pytest.md.

Every pytest run with perfkit installed loads it, so it imports nothing until a test needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from perfkit.check.pytest.check import PerfkitCheck, TestFigures

FILE = "tests/perfkit-baseline.json"

_ON_REPORT = "perfkit"  # attribute of a test report
_FAIL_ON = ("fail", "worse")
_FOUND: pytest.StashKey[TestFigures] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("perfkit")
    group.addoption(
        "--perfkit-update",
        action="store_true",
        help="store the figures of perfkit_check instead of comparing them",
    )
    group.addoption(
        "--perfkit-fail-on",
        choices=_FAIL_ON,
        help="`worse`: also fail on figures worse than stored but within the threshold  [perfkit_fail_on, fail]",
    )
    parser.addini("perfkit_fail_on", "fail or worse, like --perfkit-fail-on  [fail]", default=_FAIL_ON[0])
    parser.addini("perfkit_baseline", f"file of stored figures, relative to the root folder  [{FILE}]", default=FILE)


def pytest_configure(config: pytest.Config) -> None:
    fail_on = config.getini("perfkit_fail_on")
    if fail_on not in _FAIL_ON:
        raise pytest.UsageError(f"perfkit_fail_on = {fail_on!r}: expected {' or '.join(_FAIL_ON)}")
    config.pluginmanager.register(_PytestRun(config), "perfkit-run")


@pytest.fixture
def perfkit_check(request: pytest.FixtureRequest) -> PerfkitCheck:
    """Measures a step's memory, FLOPs and ops, and judges them by the test's thresholds. See docs/pytest.md."""
    from perfkit.check.pytest.check import PerfkitCheck, TestFigures

    config = request.config
    figures = TestFigures(
        request.node.nodeid,
        config.rootpath / config.getini("perfkit_baseline"),
        updating=config.option.perfkit_update,
        fails_on_worse=(config.option.perfkit_fail_on or config.getini("perfkit_fail_on")) == "worse",
    )
    request.node.stash[_FOUND] = figures
    return PerfkitCheck(figures)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    if "perfkit.check.pytest.figure" not in sys.modules:
        return None
    from perfkit.check.pytest.messages import explain_comparison

    return explain_comparison(op, left, right)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the figures to the report as plain values: pytest-xdist sends it to the controller."""
    report = yield
    figures = item.stash.get(_FOUND, None)
    if call.when == "call" and figures is not None:
        from perfkit.check.pytest.messages import convert_to_plain

        vars(report)[_ON_REPORT] = convert_to_plain(figures)
    return report


class _PytestRun:
    """One pytest run, in the controller process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._path = config.rootpath / config.getini("perfkit_baseline")
        self._found: dict[str, dict[str, Any]] = {}
        self._passed: set[str] = set()
        self._files: set[str] = set()  # fully collected files
        self._tests: set[str] = set()
        self._stale: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.passed and "::" not in report.nodeid:
            self._files.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Runs before any test is deselected."""
        self._tests = {item.nodeid for item in items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        figures = vars(report).get(_ON_REPORT)
        if figures is not None:
            self._found[report.nodeid] = figures
            if report.passed:
                self._passed.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workerinput"):  # a worker of pytest-xdist: the controller stores
            return
        updating = self._config.option.perfkit_update
        # Import nothing if no test needs figures, even if the file exists.
        if not self._found and not (updating and self._path.exists()):
            return
        from perfkit.check.pytest.run import find_removed_tests, store_figures

        self._stale = find_removed_tests(self._path, self._config.rootpath, self._list_whole_files(), self._tests)
        if updating:
            store_figures(self._path, self._found, self._passed, self._stale)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        from_all = terminalreporter.config.get_verbosity() > 0
        lines = {test: figures for test, figures in self._found.items() if from_all or test not in self._passed}
        improved = [(test, line) for test, figures in self._found.items() for line in figures["improvements"]]
        worse = [(test, line) for test, figures in self._found.items() for line in figures["worsenings"]]
        if not (lines or improved or worse or self._stale or self._count_kept()):
            return
        terminalreporter.section("perfkit")
        for line in self._format_lines(lines, improved, worse):
            terminalreporter.line(line)

    def _format_lines(
        self, shown: dict[str, dict[str, Any]], improved: list[tuple[str, str]], worse: list[tuple[str, str]]
    ) -> Iterable[str]:
        updating = self._config.option.perfkit_update
        for test, told in shown.items():
            yield from (f"{test} ({name}): {figures}" for name, figures in told["shown"])
        yield from (f"worse than stored, within the threshold: {test} ({line})" for test, line in worse)
        yield from (f"better than stored: {test} ({line})" for test, line in improved)
        if improved:
            yield "to store the improvement: `pytest --perfkit-update`"
        action = "removed from" if updating else "still in"
        yield from (f"{action} {self._path.name}, no such test: {test}" for test in self._stale)
        stored_count = self._count_kept()
        if stored_count:
            yield f"stored figures of {stored_count} test{'' if stored_count == 1 else 's'} in {self._path}"

    def _count_kept(self) -> int:
        return sum(1 for figures in self._found.values() if figures["kept"])

    def _list_whole_files(self) -> set[str]:
        """Fully collected files: no arguments and no earlier failures select tests from them."""
        option = self._config.option
        if getattr(option, "lf", False) or getattr(option, "numprocesses", None):
            return set()
        picked = {str(argument).partition("::")[0] for argument in self._config.args if "::" in str(argument)}
        return set() if picked else self._files
