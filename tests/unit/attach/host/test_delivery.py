"""Loggers that answer, that stall and that fail."""

import logging
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest

from perfkit.attach.host.delivery import WAITING, Delivery


class Recorder:
    """A logger that keeps what it is told, and waits or fails as asked."""

    def __init__(self, failing: bool = False) -> None:
        self.calls: list[object] = []
        self.failing = failing
        self.entered = Event()
        self.free = Event()
        self.free.set()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self.entered.set()
        self.free.wait(30)
        self.calls.append((step, dict(values)))
        if self.failing:
            raise ConnectionError("the server is away")

    def report(self, folder: Path) -> None:
        self.calls.append(folder)

    def close(self) -> None:
        self.calls.append("closed")


def test_everything_arrives_in_order() -> None:
    logger = Recorder()
    delivery = Delivery(logger)
    for step in range(3):
        delivery.scalars(step, {"a": float(step)})
    assert delivery.close(30, report=Path("runs/today"))
    assert logger.calls == [(0, {"a": 0.0}), (1, {"a": 1.0}), (2, {"a": 2.0}), Path("runs/today"), "closed"]
    assert delivery.dropped == 0


def test_a_logger_that_stalls_costs_figures_and_no_time(caplog: pytest.LogCaptureFixture) -> None:
    logger = Recorder()
    logger.free.clear()
    delivery = Delivery(logger)
    delivery.scalars(0, {})
    assert logger.entered.wait(30)
    for step in range(1, WAITING + 4):
        delivery.scalars(step, {})
    assert delivery.dropped == 3
    assert caplog.text.count("is slow") == 1
    assert not delivery.close(0.01)
    assert "did not finish" in caplog.text
    logger.free.set()


def test_a_logger_that_fails_is_told_once_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    logger = Recorder(failing=True)
    delivery = Delivery(logger)
    with caplog.at_level(logging.WARNING):
        for step in range(3):
            delivery.scalars(step, {})
        assert delivery.close(30)
    assert logger.calls == [(0, {})]
    assert isinstance(delivery.failure, ConnectionError)
    assert caplog.text.count("switched itself off") == 1
    assert "the logger Recorder" in caplog.text


def test_values_may_change_after_they_were_given() -> None:
    logger = Recorder()
    logger.free.clear()
    delivery = Delivery(logger)
    values = {"a": 1.0}
    delivery.scalars(0, values)
    values["a"] = 2.0
    logger.free.set()
    assert delivery.close(30)
    assert logger.calls[0] == (0, {"a": 1.0})
