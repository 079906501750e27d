"""`stacks.json` of formats before today's."""

import json
from pathlib import Path

from perfkit.store.stacks import StackCall, StackSamples, read_stacks


def test_a_file_of_the_first_format_is_read_without_who_held_the_lock(tmp_path: Path) -> None:
    thread = {
        "thread": "loop",
        "pid": 1,
        "directory": "/me",
        "hz": 100.0,
        "seconds": 1.0,
        "functions": [{"name": "main", "file": "/me/train.py", "owner": "program"}],
        "calls": [[-1, 0, 10]],
        "taken": [[0, "data", "held", 3], [0, "data", "free", 2]],
        "cost_s": 0.1,
        "lock_s": 0.1,
        "late": 1,
        "late_s": 0.2,
        "cut": 0,
    }
    (tmp_path / "stacks.json").write_text(json.dumps({"schema_version": 1, "threads": [thread]}))
    [read] = read_stacks(tmp_path / "stacks.json").threads
    assert (read.samples, read.held) == (5, None)
    assert read.taken == (StackSamples(node=0, phase="data", count=3), StackSamples(node=0, phase="data", count=2))
    assert list(read.stack(0)) == [StackCall(parent=-1, function=0, line=10)]
