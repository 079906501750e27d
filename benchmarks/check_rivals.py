"""What else people gate step times with, on the same series as `perfkit check`.

`pytest-benchmark --benchmark-compare-fail=mean:3%`: the mean of one run against a stored mean. Mann-Whitney's U, the
usual test of two samples whose distribution is not known, on all steps and on the medians of processes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from scipy.stats import mannwhitneyu

from perfkit.store.pairs import Pair

LIMIT = 0.03
LEVEL = 0.01

# A benchmark whose rounds take as long as the given steps: its function moves the clock that times it.
_TEST = """
import json
import os
from pathlib import Path

import pytest

STEPS = json.loads(Path(os.environ["STEPS"]).read_text())


class Clock:
    now = 0.0

    def __call__(self):
        Clock.now += 1e-9
        return Clock.now


clock = Clock()


@pytest.mark.benchmark(timer=clock)
def test_step(benchmark):
    steps = iter(STEPS)

    def step():
        Clock.now += next(steps)

    benchmark.pedantic(step, rounds=len(STEPS), iterations=1)
"""


def mean_regressed(stored: Sequence[float], current: Sequence[float]) -> bool:
    """pytest-benchmark's rule: the mean is more than 3 % above the stored one."""
    return fmean(current) / fmean(stored) - 1 > LIMIT


def u_test_of_steps(pairs: Sequence[Pair], clock: str) -> bool:
    """Mann-Whitney's U, one-sided at 1 %, on all steps of all processes of a side."""
    before = [step for pair in pairs for step in getattr(pair.before, clock)]
    after = [step for pair in pairs for step in getattr(pair.after, clock)]
    return bool(mannwhitneyu(after, before, alternative="greater").pvalue < LEVEL)


def u_test_of_processes(pairs: Sequence[Pair], clock: str) -> bool:
    """The same on one median a process."""
    before = [median(getattr(pair.before, clock)) for pair in pairs]
    after = [median(getattr(pair.after, clock)) for pair in pairs]
    return bool(mannwhitneyu(after, before, alternative="greater").pvalue < LEVEL)


def real_pytest_benchmark(stored: Sequence[float], current: Sequence[float], folder: Path) -> bool:
    """Whether pytest-benchmark itself calls `current` a regression from `stored`, having saved that."""
    folder.mkdir(parents=True)
    (folder / "test_series.py").write_text(_TEST, encoding="utf-8")
    _pytest(folder, stored, "--benchmark-save=stored")
    ended = _pytest(folder, current, "--benchmark-compare=0001", f"--benchmark-compare-fail=mean:{LIMIT:.0%}")
    said = "Performance has regressed" in ended.stdout + ended.stderr
    if ended.returncode not in (0, 1) or said != (ended.returncode == 1):
        raise RuntimeError(f"pytest-benchmark could not compare:\n{ended.stdout}\n{ended.stderr}")
    return said


def _pytest(folder: Path, steps: Sequence[float], *options: str) -> subprocess.CompletedProcess[str]:
    series = folder / "steps.json"
    series.write_text(json.dumps(list(steps)), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "-c", os.devnull]
    return subprocess.run(
        [*command, "test_series.py", "--benchmark-storage=file://store", *options],
        cwd=folder,
        env={**os.environ, "STEPS": str(series)},
        capture_output=True,
        text=True,
        check=False,
    )
