"""A process that watches its loop is killed: what it had written is readable, and the next run goes on from there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

from perfkit.attach.live.live_watch import open_watch
from perfkit.store.live import LiveEvent, LiveStart, LiveWindow, read_live

PROGRAM = """
import os, sys, time
from pathlib import Path
import torch
from perfkit.attach.live.live_options import LiveOptions
from perfkit.attach.live.trace_triggers import TraceTriggers
from perfkit.attach.live.live_watch import open_watch
from perfkit.store.live import LiveStart

path = Path(sys.argv[1])
start = LiveStart(time_s=time.time(), pid=os.getpid(), hostname="h", name="n", device_name="cpu")
triggers = TraceTriggers(["signal"], path.parent, period_s=0.01)
watch = open_watch(path, start, torch.device("cpu"), options=LiveOptions(period_s=0.01), triggers=triggers)
watch.start(time.perf_counter_ns())
while True:
    time.sleep(0.001)
    watch.step(time.perf_counter_ns())
    if triggers.get_due_reason(watch.last):
        triggers.mark_started(time.perf_counter_ns())
        watch.write_event("trace", "asked for")
"""


def until_lines(path: Path, kind: type, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and sum(isinstance(line, kind) for line in read_live(path)) >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"fewer than {count} lines of {kind.__name__} in {path}")


def test_the_log_of_a_killed_process_is_readable_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "rank0" / "live.jsonl"
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)])
    try:
        until_lines(path, LiveWindow, 5)  # read while it is written
        os.kill(program.pid, signal.SIGUSR1)
        until_lines(path, LiveEvent, 1)
    finally:
        program.kill()
        program.wait()
    before = list(read_live(path))
    assert isinstance(before[0], LiveStart)
    assert before[0].pid == program.pid
    assert [line.text for line in before if isinstance(line, LiveEvent) and line.kind == "trace"] == ["asked for"]

    again = LiveStart(time_s=0.0, pid=1, hostname="h", name="n", device_name="cpu")
    watch = open_watch(path, again, torch.device("cpu"))
    watch.close("done")
    after = list(read_live(path))
    assert after[: len(before)] == before
    assert after[len(before)] == again
