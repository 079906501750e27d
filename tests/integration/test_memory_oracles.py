"""The peak of perfkit's account against instruments that share nothing with it: closed forms, torch's MemTracker,
a count of what torch's allocator asks the C library for, and the profiler's events added up as they come."""

import ctypes
import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from torch.distributed._tools.mem_tracker import MemTracker
from torch.profiler import ProfilerActivity, profile

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.allocations import WORKSPACE, Ints
from tests.fixtures.memory_oracles import count_step
from tests.fixtures.memory_oracles.gpt_memory import standing
from tests.fixtures.memory_oracles.memory_runs import accounts, over_time, run_memory
from tests.fixtures.memory_oracles.setups import Setup, compare, label, training
from tests.fixtures.memory_oracles.training_step import Trained, train

ROOT = Path(__file__).parents[2]
FIXTURES = Path(count_step.__file__).parent

PARAMETERS = {"seq_len": 64, "batch_size": 4}  # the fewest tokens with the peak in backward
WORKLOAD = label(PARAMETERS)
VARIANTS = ("baseline", "amp", "ckpt+flash")
INTERPOSED = ("baseline", "amp")  # a process each
TOLERANCE = 0.001


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory") / "suite"


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, MemoryAccount]:
    """The accounts of real runs."""
    return accounts(run_memory(WORKLOAD, ",".join(VARIANTS[1:]), folder, threads=1))


@pytest.fixture(scope="module")
def series(folder: Path, found: dict[str, MemoryAccount]) -> dict[str, dict[str, Ints]]:
    """The same by category at every moment."""
    return {name: over_time(folder, name) for name in found}


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def trained(variant: str) -> Iterator[Trained]:
    """The same training in this process."""
    threads = torch.get_num_threads()
    result = train(WORKLOAD, variant)
    yield result
    result.state.close()
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def interposer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`aligned.c`, compiled."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        pytest.skip("no C compiler: none of cc, gcc, clang is installed")
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("the interposer is written for glibc")
    library = tmp_path_factory.mktemp("interposer") / "aligned.so"
    options = ["-O1", "-shared", "-fPIC", "-pthread", "-o", str(library), str(FIXTURES / "aligned.c")]
    subprocess.run([compiler, *options], check=True, timeout=60)
    ctypes.CDLL(str(library))  # refused here rather than in the child
    return library


def test_every_byte_is_in_a_category(found: dict[str, MemoryAccount], variant: str) -> None:
    account = found[variant]
    assert sum(share.bytes for share in account.categories) == account.peak_bytes


def test_closed_forms(series: dict[str, dict[str, Ints]], variant: str) -> None:
    assert compare(Setup(PARAMETERS, variant), series[variant]).difference == pytest.approx(0, abs=TOLERANCE)


@pytest.mark.nightly
def test_closed_form_of_accumulated_gradients(tmp_path: Path) -> None:
    setup = Setup(PARAMETERS, "baseline", 2)
    run_memory(WORKLOAD, setup.variant, tmp_path / "suite", threads=1, accumulation=setup.accumulation)
    found = compare(setup, over_time(tmp_path / "suite", setup.variant))
    assert found.difference == pytest.approx(0, abs=TOLERANCE)


def test_what_stands_is_exact(found: dict[str, MemoryAccount], variant: str) -> None:
    shares = {share.category: share.bytes for share in found[variant].categories}
    expected = standing(training(Setup(PARAMETERS, variant)))
    assert {category: shares.get(category, 0) for category in expected} == expected


def test_mem_tracker(series: dict[str, dict[str, Ints]], variant: str, trained: Trained) -> None:
    """It follows tensors, and workspace is none."""
    tracker = MemTracker()
    tracker.track_external(trained.state.model, trained.state.optimizers[""])
    with tracker:
        trained.step()
        tracker.reset_mod_stats()
        trained.step()
    total = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    tensors = series[variant]["total"] - series[variant][WORKSPACE]
    assert tensors.max() == pytest.approx(total, rel=TOLERANCE)


@pytest.mark.nightly
@pytest.mark.parametrize("variant", INTERPOSED, scope="module")
def test_what_the_allocator_asks_for(found: dict[str, MemoryAccount], variant: str, interposer: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-m", count_step.__name__, WORKLOAD, variant],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(interposer), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert found[variant].peak_bytes == pytest.approx(int(child.stdout.splitlines()[-1]), rel=TOLERANCE)


def test_events_of_the_profiler(
    found: dict[str, MemoryAccount], variant: str, trained: Trained, tmp_path: Path
) -> None:
    expected = standing(training(Setup(PARAMETERS, variant)))
    before = sum(size for category, size in expected.items() if category != "input")  # the step makes its own copy
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        trained.step()
    path = tmp_path / "trace.json.gz"
    profiler.export_chrome_trace(str(path))
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    memory = sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: (e["ts"], e["args"]["Ev Idx"]))
    total = before + max(accumulate(event["args"]["Bytes"] for event in memory))
    assert found[variant].peak_bytes == pytest.approx(total, rel=TOLERANCE)
