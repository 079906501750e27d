import sys
from pathlib import Path

import pytest

from benchmarks.gpu.bench_results import Command, run_together


@pytest.mark.slow
def test_commands_run_at_the_same_time_and_none_outlives_the_limit(tmp_path: Path) -> None:
    programs = {
        "done": "import os; print(os.environ['GIVEN'])",
        "failed": "raise SystemExit(3)",
        "hung": "import time; print('waiting', flush=True); time.sleep(600)",
    }
    commands = {
        name: Command([sys.executable, "-c", code], tmp_path / f"{name}.log", {"GIVEN": "1"})
        for name, code in programs.items()
    }
    ended = run_together(commands, 3.0)
    assert list(ended) == ["done", "failed", "hung"]
    assert {name: each.code for name, each in ended.items()} == {"done": 0, "failed": 3, "hung": None}
    assert ended["done"].tail == "1\n"
    assert ended["hung"].tail.startswith("waiting")
    assert ended["hung"].seconds < 20
