"""Where no gain is simulated: what the replay cannot explain, and what it explains by the wrong thing."""

import json
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.replay.replay import simulate_what_if
from tests.fixtures.synthetic_machine.replayed import replayed_file


def _trace(path: Path, every_us: float, kernel_us: float, last_late_us: float = 0.0, count: int = 100) -> Path:
    """A launch `every_us`, its kernel right after it; the last one that much later, for no reason."""
    events: list[dict[str, Any]] = []
    for number in range(count):
        at, of = 1e6 + number * every_us, {"correlation": number + 1}
        begun = at + 7 + (last_late_us if number == count - 1 else 0.0)
        host = {"ph": "X", "pid": 1, "tid": 1, "ts": at}
        events.append({**host, "cat": "cpu_op", "name": "aten::mm", "dur": 6})
        events.append({**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 5, "args": of})
        where = {**of, "device": 0, "stream": 7}
        events.append(
            {
                "ph": "X",
                "cat": "kernel",
                "name": "gemm",
                "pid": 0,
                "tid": 7,
                "ts": begun,
                "dur": kernel_us,
                "args": where,
            }
        )
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    return path


def test_a_recording_that_is_not_explained_gets_no_gain(tmp_path: Path) -> None:
    replayed = replayed_file(_trace(tmp_path / "late.json", every_us=20, kernel_us=10, last_late_us=400))
    assert replayed is not None
    assert replayed.result.error < -0.10
    assert "10 %" in replayed.result.reason
    asked = simulate_what_if(replayed, "kernels=0.5")
    assert (asked.gain_s, asked.share, asked.reason) == (None, None, replayed.result.reason)
    assert asked.summed_s == pytest.approx(100 * 5e-6)


def test_what_is_explained_but_for_less_than_that_gets_one(tmp_path: Path) -> None:
    replayed = replayed_file(_trace(tmp_path / "late.json", every_us=20, kernel_us=10, last_late_us=150))
    assert replayed is not None
    assert -0.10 < replayed.result.error < -0.05
    assert replayed.result.reason == ""
    assert simulate_what_if(replayed, "kernels=0.5").gain_s is not None


@pytest.mark.parametrize(("kernel_us", "refused"), [(95, True), (80, False)])
def test_a_busy_device_is_not_held_up_by_the_host(kernel_us: float, refused: bool, tmp_path: Path) -> None:
    # Each kernel starts when it is launched, so that the path is the host's, of a device that hardly pauses.
    replayed = replayed_file(_trace(tmp_path / "busy.json", every_us=100, kernel_us=kernel_us))
    assert replayed is not None
    assert abs(replayed.result.error) < 0.01
    assert bool(replayed.result.reason) is refused
    if refused:
        assert "critical path" in replayed.result.reason
        assert replayed.result.busy_share > 0.90
        assert simulate_what_if(replayed, "host=0.5").gain_s is None
