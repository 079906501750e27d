"""What the first of several machines tells the others."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch._C._distributed_c10d import TCPStore

from perfkit.core.errors import PerfkitError, UsageError
from perfkit.measure.launch import nodes
from perfkit.measure.launch.join_secret import make_secret
from perfkit.measure.launch.nodes import NodeCoordinator, parse_endpoint, wait_for_first_node
from tests.fixtures.endpoints import free_endpoint


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("PERFKIT_SECRET", raising=False)
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))
    return tmp_path


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
    first.wait_for_others(2, told.append, within_s=10.0)
    assert first.get_node_address(1) == "127.0.0.1"
    for folder in (Path("/shared/a/0"), Path("/shared/b/0")):
        first.give(folder)
        assert other.wait_for_run() == folder
        assert not other.is_run_over()
        other.report_done(1)
        first.end(2, within_s=10)
        assert other.is_run_over()
    with ThreadPoolExecutor() as threads:
        left = threads.submit(first.leave)
        assert other.wait_for_run() is None
    assert left.result() is None


def test_whom_the_first_waits_for_is_said_and_who_has_left_ends_the_bench(cache: Path) -> None:
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
    assert f"machine 1: perfkit join {endpoint} --node-rank 1, " in waiting_for
    assert waiting_for.endswith(str(cache / "join-secret"))
    assert (cache / "join-secret").read_text().strip() not in waiting_for
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


def listen(endpoint: str) -> TCPStore:
    """The store of somebody who listens there, and knows no secret."""
    host, port = parse_endpoint(endpoint)
    return TCPStore(host, port, is_master=True, wait_for_workers=False)


def connect(endpoint: str) -> TCPStore:
    host, port = parse_endpoint(endpoint)
    return TCPStore(host, port, is_master=False)


@pytest.mark.parametrize("message", ["/tmp/stranger", "", '{"nonce":"a","value":"/tmp/stranger","code":"b"}'])
def test_a_run_that_a_stranger_names_is_refused(message: str) -> None:
    endpoint = free_endpoint()
    stranger = listen(endpoint)
    stranger.set("first", "ff" * 16)
    other = NodeCoordinator(endpoint, first=False)
    other.join(1)
    assert stranger.check(["joined 1"])
    stranger.set("run 1 1", message)
    with pytest.raises(PerfkitError, match=endpoint) as error:
        other.wait_for_run()
    assert error.value.id == "join.secret"


def test_a_run_that_was_named_to_another_is_refused() -> None:
    """A message of the same bench to another machine, or to this one before it joined again."""
    endpoint = free_endpoint()
    first = NodeCoordinator(endpoint, first=True)
    machines = [NodeCoordinator(endpoint, first=False) for _ in range(2)]
    for node, machine in enumerate(machines, 1):
        machine.join(node)
    first.wait_for_others(3, lambda _: None, within_s=10.0)
    first.give(Path("/shared/x"))
    again = NodeCoordinator(endpoint, first=False)
    again.join(1)
    with pytest.raises(PerfkitError) as error:
        again.wait_for_run()
    assert error.value.id == "join.secret"
    store = connect(endpoint)
    store.set("run 1 2", store.get("run 1 1"))
    with pytest.raises(PerfkitError) as error:
        machines[1].wait_for_run()
    assert error.value.id == "join.secret"


def test_a_machine_with_another_secret_is_refused_and_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = free_endpoint()
    first = NodeCoordinator(endpoint, first=True)
    monkeypatch.setenv("PERFKIT_SECRET", make_secret())
    other = NodeCoordinator(endpoint, first=False)

    def run_other() -> None:
        try:
            other.wait_for_run()
        finally:
            other.announce_quit()

    other.join(1)
    with ThreadPoolExecutor() as threads:
        joined = threads.submit(run_other)
        for refused in (lambda: first.wait_for_others(2, lambda _: None, within_s=10.0), joined.result):
            with pytest.raises(PerfkitError, match="PERFKIT_SECRET") as error:
                refused()
            assert error.value.id == "join.secret"


def test_what_a_machine_said_in_an_earlier_bench_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_LEAVE_S", 0.0)  # nobody is there who could hear of it
    said = []
    for _ in range(2):
        endpoint = free_endpoint()
        first, store = NodeCoordinator(endpoint, first=True), connect(endpoint)
        if said:
            store.set("joined 1", said[0])
            break
        NodeCoordinator(endpoint, first=False).join(1)
        said.append(store.get("joined 1"))
    with pytest.raises(PerfkitError) as error:
        first.wait_for_others(2, lambda _: None, within_s=10.0)
    assert error.value.id == "join.secret"
