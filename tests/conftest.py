"""What all tests share: skipping what needs a GPU where there is none, a browser, and the real command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import settings

from perfkit.measure.launch.rank_processes import COMPILE_CACHE
from perfkit_cli.main import commands
from tests.fixtures.made_once import common, made_once

pytest_plugins = ["tests.tiers", "tests.light_tests"]

_CACHES = count()

# Machines are noisy: no example fails for the time that it takes. By night ten times as many are tried.
settings.register_profile("few", deadline=None, max_examples=30)
settings.register_profile("many", deadline=None, max_examples=300)
settings.load_profile("few")

# A shell's background jobs are started deaf to SIGINT, which tests of interruption send to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Chromium's headless shell first: the same engine without a browser around it opens a page in half the CPU time.
BROWSERS = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)

# The smallest suite: a small model, few steps, one process per variant, no calibration.
TINY_SCHEDULE = ("--steps", "3", "--warmup", "1", "--rounds", "0", "--no-calibrate", "--threads", "1")
TINY = ("--workload", "gpt:size=nano", "--batch-size", "1", "--seq-len", "8", *TINY_SCHEDULE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch  # only where a test asks for a GPU: the import takes seconds

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what its user keeps, or what another test has kept."""
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path_factory.getbasetemp() / "caches" / str(next(_CACHES))))


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The path of a Chromium or Chrome; the test is skipped where there is none.

    The environment variable PERFKIT_BROWSER names another one.
    """
    candidates = [os.environ.get("PERFKIT_BROWSER"), *map(shutil.which, BROWSERS)]
    found = next((path for path in candidates if path), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    return found


class CommandLine:
    """The installed `perfkit`, as a user runs it, in a folder of its own."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        script = Path(sys.executable).with_name("perfkit")
        self.command = [str(script)] if script.exists() else [sys.executable, "-m", "perfkit_cli"]
        # COLUMNS so that no message is broken into lines that a test would have to join.
        self.environment = {**os.environ, "PERFKIT_CACHE": str(cache), "COLUMNS": "250", "NO_COLOR": "1"}
        self.environment.pop("PERFKIT_DEBUG", None)

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run to the end; output is captured."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start and return the process."""
        return subprocess.Popen(
            [*self.command, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def variants(self, suite: str) -> dict[str, dict[str, Any]]:
        """The variants of a suite's report.json by name."""
        report = json.loads((self.folder / suite / "report.json").read_text())
        return {variant["name"]: variant for variant in report["variants"]}


class InProcess(CommandLine):
    """The same within this process, for tests of which none of its own is asked: torch is imported here already."""

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*map(str, arguments)]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["perfkit", *command])  # which reports quote
            result = CliRunner().invoke(commands, command, prog_name="perfkit", env=self.environment)
        err = result.stderr
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            err += "".join(traceback.format_exception(result.exception))
        return subprocess.CompletedProcess(command, result.exit_code, result.stdout, err)


@pytest.fixture
def perfkit_process(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The real command line in an empty folder, with a cache of its own."""
    return CommandLine(tmp_path, tmp_path_factory.getbasetemp() / "cache")


@pytest.fixture
def perfkit_in_process(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The same in this process."""
    return InProcess(tmp_path, tmp_path_factory.getbasetemp() / "cache")


@pytest.fixture
def perfkit(perfkit_process: CommandLine) -> CommandLine:
    """The command line: a process of its own, unless a file says otherwise."""
    return perfkit_process


@pytest.fixture(scope="session")
def tiny() -> tuple[str, ...]:
    """Arguments of `perfkit bench` that make a run take seconds."""
    return TINY


@pytest.fixture(scope="session")
def tiny_schedule() -> tuple[str, ...]:
    """The same without a workload."""
    return TINY_SCHEDULE


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Benches find what others have compiled: they leave caches alone that their user has chosen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COMPILE_CACHE, str(common(tmp_path_factory) / "compiled"))
        yield


@pytest.fixture(scope="session")
def bench_result(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One `perfkit bench --technique amp,ckpt --plan` with the smallest settings, and its folder: `suite` lies in it.

    Shared by many tests: copy the suite before changing it.
    """

    def bench(folder: Path) -> None:
        command = CommandLine(folder, tmp_path_factory.getbasetemp() / "cache")
        ended = command("bench", *TINY, "--technique", "amp,ckpt", "--plan", "--out", "suite")
        (folder / "ended.json").write_text(json.dumps([ended.returncode, ended.stdout, ended.stderr]))

    folder = made_once(tmp_path_factory, "bench", bench)
    return subprocess.CompletedProcess("bench", *json.loads((folder / "ended.json").read_text())), folder


@pytest.fixture
def suite(bench_result: tuple[subprocess.CompletedProcess[str], Path], perfkit: CommandLine) -> Path:
    """A fresh copy of that suite, as `suite` in the folder of `perfkit`."""
    result, folder = bench_result
    assert result.returncode == 0, result.stderr
    return Path(shutil.copytree(folder / "suite", perfkit.folder / "suite"))
