"""What perfkit asks of devices: whose stream is timed, whose context is made, what fp32 is computed in."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from perfkit.instruments.clock import EventClock
from perfkit.instruments.environment import read_environment

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

_PARENT = """
import torch
from perfkit.devices.machine.device_choice import find_device
assert find_device("cuda").visible > 0
print(torch.cuda.is_initialized())
"""


def products(device: torch.device) -> Callable[[int], None]:
    """A step that takes the device milliseconds and the host microseconds."""
    left = torch.randn(4096, 4096, device=device)
    out = torch.empty_like(left)

    def step(_index: int) -> None:
        for _ in range(4):
            torch.mm(left, left, out=out)

    for index in range(5):
        step(index)
    torch.cuda.synchronize(device)
    return step


def step_times_are_the_devices(device: torch.device) -> None:
    step = products(device)
    start = time.perf_counter()
    for index in range(20):
        step(index)
    torch.cuda.synchronize(device)
    by_hand = time.perf_counter() - start
    assert sum(EventClock(device).time_steps(step, 0, 20).device_s) == pytest.approx(by_hand, rel=0.1)


def test_a_step_takes_as_long_as_a_clock_that_waits_says() -> None:
    step_times_are_the_devices(torch.device("cuda", 0))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_steps_of_another_gpu_than_the_current_one_are_timed_there() -> None:
    assert torch.cuda.current_device() == 0
    step_times_are_the_devices(torch.device("cuda", 1))


def test_the_parent_of_a_bench_does_not_initialise_cuda() -> None:
    said = subprocess.run([sys.executable, "-c", _PARENT], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


@pytest.fixture
def tf32() -> Iterator[None]:
    """Allowed by torch's newer switch, after which the older ones cannot be asked."""
    matmul: Any = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    yield
    matmul.fp32_precision = before


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0), reason="no TF32 before 8.0"
)
def test_tf32_is_told_whichever_switch_allowed_it(tf32: None) -> None:
    assert read_environment(torch.device("cuda", 0)).matmul_precision == "high"


@pytest.mark.slow
def test_flash_and_amp_are_seen_in_replayed_cuda_graphs(perfkit: Any, tiny_schedule: tuple[str, ...]) -> None:
    variant = "amp+flash+compile:mode=reduce-overhead"
    done = perfkit("bench", "-w", "gpt:size=nano", "-t", variant, "--device", "cuda", *tiny_schedule, "--out", "suite")
    assert done.returncode == 0, done.stderr
    found = perfkit.variants("suite")[variant]
    assert found["active"] is True, [claim["evidence"] for claim in found["claims"]]
