"""Whether a graph is being captured, asked of the right GPU and without touching another."""

import pytest
import torch

from perfkit.instruments.graph_capture import is_capturing
from tests.fixtures.two_gpus import two_gpus

CPU, FIRST, SECOND = torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("captured_on", "device", "expected"),
    [
        (None, FIRST, False),
        (None, SECOND, False),
        (0, FIRST, True),
        (1, SECOND, True),  # the current device is the first
        (0, SECOND, True),  # waiting for the second would void the capture on the first
        (1, FIRST, False),
        (0, CPU, True),  # nothing is known of the loop yet
        (1, CPU, False),
    ],
)
def test_the_models_stream_and_the_current_one_are_asked(monkeypatch, captured_on, device, expected):
    gpus = two_gpus(monkeypatch)
    gpus.launch(1, 1)
    gpus.capturing = captured_on
    assert is_capturing(device) is expected
    assert (gpus.current, gpus.contexts) == (0, {1})


def test_without_cuda_nothing_is_asked(monkeypatch):
    gpus = two_gpus(monkeypatch)
    gpus.capturing = 0
    assert not is_capturing(CPU)
    assert gpus.contexts == set()


def test_a_build_without_cuda_has_no_captures():
    assert not is_capturing(CPU)
