"""What the first of several machines tells the others."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perfkit.core.errors import PerfkitError, UsageError
from perfkit.measure.launch.nodes import NodeCoordinator, parse_endpoint, wait_for_first_node
from tests.fixtures.endpoints import free_endpoint


@pytest.mark.parametrize("endpoint", ["", "host", "host:", ":29500", "host:port", "host:0", "host:65535"])
def test_an_endpoint_is_a_host_and_a_port_with_one_after_it(endpoint: str) -> None:
    assert parse_endpoint("node-1.cluster:29500") == ("node-1.cluster", 29500)
    with pytest.raises(UsageError, match="HOST:PORT"):
        parse_endpoint(endpoint)


def test_the_others_hear_of_each_run_and_of_its_end() -> None:
    endpoint = free_endpoint()
    with pytest.raises(PerfkitError, match=f"^{endpoint}: "):
        wait_for_first_node(endpoint, within_s=0.0)
    first = NodeCoordinator(endpoint, first=True)
    wait_for_first_node(endpoint, within_s=0.0)
    other = NodeCoordinator(endpoint, first=False)
    told: list[str] = []
    with pytest.raises(PerfkitError, match=r"\b1, 2 of 3\b.*`perfkit join 127\."):
        first.wait_for_others(3, told.append, within_s=0.0)
    other.join(1)
    assert first.get_node_address(1) == "127.0.0.1"  # which waits until the store has heard of it
    first.wait_for_others(2, told.append, within_s=10.0)
    assert not told
    for folder in (Path("/shared/a/0"), Path("/shared/b/0")):
        first.give(folder)
        assert other.wait_for_run() == folder
        assert not other.is_run_over()
        other.report_done(1)
        first.end(2, within_s=10)
        assert other.is_run_over()
    with ThreadPoolExecutor() as threads:
        left = threads.submit(first.leave, 2)
        assert other.wait_for_run() is None
    assert left.result() is None


def test_whom_the_first_waits_for_is_said_and_who_has_left_ends_the_bench() -> None:
    endpoint = free_endpoint()
    first = NodeCoordinator(endpoint, first=True)
    told: list[str] = []
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(first.wait_for_others, 2, told.append, within_s=10.0)
        while not told and not waiting.done():
            time.sleep(0.01)
        other = NodeCoordinator(endpoint, first=False)
        other.join(1)
        waiting.result()
    (waiting_for,) = told
    assert waiting_for.endswith(f"machine 1: perfkit join {endpoint} --node-rank 1")
    other.announce_quit()
    with pytest.raises(PerfkitError, match=r"1.*2.*`perfkit bench --resume FOLDER`"):
        first.wait_for_others(2, told.append)


def test_the_others_go_when_the_first_has_ended_without_a_word() -> None:
    endpoint = free_endpoint()
    first = NodeCoordinator(endpoint, first=True)
    other = NodeCoordinator(endpoint, first=False)
    del first
    assert other.wait_for_run() is None
    assert other.is_run_over()
    other.report_done(1)
