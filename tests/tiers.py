"""Which tests are `slow`, that no other test is, how both are dealt to the processes that run them, and warm starts.

Slow is what starts Python (a training, the command line, ranks), a browser or a tracker, or compiles: everything
in `SLOW_FOLDERS`, and elsewhere what carries the marker. `make test` leaves it out, `make test-all` runs everything
but `tests/clusters`, which is collected where it is named: `make test-clusters`. `nightly` are slow ones that
`make test-slow` leaves out, too: the second program, model or framework of a kind, and what waits for minutes.
"""

import gc
import multiprocessing.process
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from xdist.scheduler import LoadScopeScheduling

from perfkit.core.optional_deps import is_torch_installed
from tests.warm.command import zygote_environment
from tests.warm.starts import Starts, Zygote

_CLUSTERS = "clusters"
SLOW_FOLDERS = ("browser", _CLUSTERS, "gpu", "integration")
# Long files of slow tests that share nothing worth a second.
SINGLY = frozenset(
    {
        "test_ci_examples.py",
        "test_cli_check.py",
        "test_cli_failures.py",
        "test_cli_run.py",
        "test_every_command.py",
        "test_host_safety.py",
        "test_pairs.py",
        "test_pytest_plugin.py",
        "test_run_identical.py",
    }
)
_PYTHON = ("python", "perfkit", "torchrun")
_TESTS = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where all of a folder or file is left out, what it imports (frameworks, trackers) need not be."""
    if collection_path == _TESTS / _CLUSTERS:  # pytest asks about nothing that it is named
        return True
    if config.option.markexpr == "not slow" and collection_path.parent == _TESTS:
        return True if collection_path.name in SLOW_FOLDERS else None
    if config.option.markexpr.startswith("slow") and collection_path.name.startswith("test_"):
        return None if has_slow_tests(collection_path) else True
    return None


def has_slow_tests(path: Path) -> bool:
    """Whether a folder or file may have any: a file elsewhere than in `SLOW_FOLDERS` names the marker."""
    if path.is_dir() or _in_slow_folder(path):
        return True
    text = path.read_text(encoding="utf-8")
    return "pytest.mark.slow" in text or "pytest.mark.nightly" in text


def _in_slow_folder(path: Path) -> bool:
    return any(_TESTS / folder in path.parents for folder in SLOW_FOLDERS)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and put it first: what takes long is dealt first, so that nobody waits for it alone."""
    for item in items:
        if _in_slow_folder(item.path) or item.get_closest_marker("nightly"):
            item.add_marker("slow")
    long = {item.path for item in items if item.get_closest_marker("slow")}
    unsaid = [str(path) for path in long if not has_slow_tests(path)]
    if unsaid:
        raise pytest.UsageError(f"has slow tests and does not name pytest.mark.slow: {', '.join(unsaid)}")
    items.sort(key=lambda item: item.path not in long)


class _Dealing(LoadScopeScheduling):
    """Deals files, whose tests share what is made once for them, and the tests of `SINGLY` one by one.

    Not by xdist's groups: with pytest 9.2 xdist 3.8 marks none, and deals all tests one by one without a word.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if Path(file).name in SINGLY else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _Dealing(config, log)


def pytest_collection_finish() -> None:
    """No collection of garbage, and nothing that looks for objects among the collector's, walks what was imported."""
    gc.collect()
    gc.freeze()


_ADDRESS = "zygote"
_ZYGOTE = pytest.StashKey[Zygote]()
_STARTS = pytest.StashKey[Starts]()


def pytest_configure(config: pytest.Config) -> None:
    # A zygote finds what is installed, not what PYTHONPATH leads to.
    if sys.platform != "linux" or os.environ.get("PYTHONPATH"):
        return
    address = getattr(config, "workerinput", {}).get(_ADDRESS)
    if address is None:
        config.stash[_ZYGOTE] = Zygote()
        config.stash[_STARTS] = config.stash[_ZYGOTE].starts
    else:
        config.stash[_STARTS] = Starts(lambda: address, zygote_environment(os.environ), warm=False)
    config.stash[_STARTS].install()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """All processes that run tests have one zygote, of the process that started them; quick tests need none."""
    config = node.config
    if _ZYGOTE in config.stash and config.option.markexpr != "not slow" and is_torch_installed():
        node.workerinput[_ADDRESS] = config.stash[_ZYGOTE].start()


@pytest.fixture
def warm_starts(request: pytest.FixtureRequest) -> Starts:
    """What decides in this test whether a process is forked or started."""
    if _STARTS not in request.config.stash:
        pytest.skip("no warm starts here")
    return request.config.stash[_STARTS]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _ZYGOTE in config.stash:
        config.stash[_ZYGOTE].end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test that starts Python and is not marked as slow fails."""
    if item.get_closest_marker("slow"):
        if _STARTS not in item.config.stash:
            return (yield)
        starts = item.config.stash[_STARTS]
        starts.warm = item.get_closest_marker("cold") is None
        try:
            return (yield)
        finally:
            starts.warm = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", _start_unless_python)
        patch.setattr(multiprocessing.process.BaseProcess, "start", _refuse)
        return (yield)


_start = subprocess.Popen.__init__


def _start_unless_python(process: subprocess.Popen[Any], args: Any, *more: Any, **options: Any) -> None:
    program = args if isinstance(args, str | os.PathLike) else args[0]
    if Path(program).name.startswith(_PYTHON):
        _refuse()
    _start(process, args, *more, **options)


def _refuse(*_: object) -> NoReturn:
    pytest.fail("a test that starts Python is slow: mark it with pytest.mark.slow, see tests/tiers.py")
