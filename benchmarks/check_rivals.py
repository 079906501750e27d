"""What else people gate step times with, on the same series as `perfkit check`.

`pytest-benchmark --benchmark-compare-fail=mean:3%`: the mean of one run against a stored mean. Mann-Whitney's U, the
usual test of two samples whose distribution is not known: on the steps of two runs, as it is mostly used, on those of
all pairs, which were run side by side, and on the medians of their processes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from scipy.stats import mannwhitneyu

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


def u_test(before: Iterable[float], after: Iterable[float]) -> bool:
    """Mann-Whitney's U, one-sided at 1 %: whether `after` is larger."""
    return bool(mannwhitneyu(list(after), list(before), alternative="greater").pvalue < LEVEL)


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
