"""Which devices a trace has, and what ran on each."""

from pathlib import Path

from tests.fixtures.trace_events import event, kernel, launch, ops_of


def test_a_single_device_is_all(tmp_path: Path) -> None:
    ops = ops_of(tmp_path, launch(1, 0), launch(2, 5), kernel("k", 10, 5, 1, device=3), kernel("k", 20, 5, 2, device=3))
    assert (ops.devices.number, ops.devices.process, ops.devices.rows) == ((3,), ("",), (slice(None),))


def test_devices_of_a_process_are_told_apart_by_number(tmp_path: Path) -> None:
    found = [launch(number, number) for number in (1, 2, 3)]
    found += [kernel("k", 10, 5, 1, device=2), kernel("k", 20, 5, 2, device=1), kernel("k", 30, 5, 3, device=2)]
    devices = ops_of(tmp_path, *found).devices
    assert (devices.number, devices.of.tolist(), devices.process) == ((1, 2), [1, 0, 1], ("", ""))
    assert [rows.tolist() for rows in devices.rows if not isinstance(rows, slice)] == [[1], [0, 2]]


def test_processes_that_share_a_device_share_it(tmp_path: Path) -> None:
    """They are of several devices only if their work is written as that of several."""
    found = [launch(1, 0, pid=10), launch(2, 5, pid=11), kernel("k", 10, 5, 1), kernel("k", 20, 5, 2)]
    assert len(ops_of(tmp_path, *found).devices) == 1
    apart = event("k", 20, 5, "kernel", tid=7, pid=600, device=0, stream=7, correlation=2)
    devices = ops_of(tmp_path, *found[:3], apart).devices
    assert (devices.number, devices.process) == ((0, 0), ("10", "11"))


def test_work_without_a_launch_is_of_the_device_with_its_number(tmp_path: Path) -> None:
    found = [launch(1, 0), kernel("k", 10, 5, 1), event("k", 20, 5, "gpu_memcpy", pid=600, tid=8, device=0, stream=8)]
    assert len(ops_of(tmp_path, *found).devices) == 1


def test_equal_ranks_in_one_file_have_a_device_each(tmp_path: Path) -> None:
    """Their launches have the same ids, and those of rank 1 come later."""
    found = [launch(1, 0, pid=10), launch(1, 3, pid=11)]
    found += [event("k", 20, 5, "kernel", tid=7, pid=pid, device=0, stream=7, correlation=1) for pid in (500, 600)]
    ops = ops_of(tmp_path, *found)
    assert (ops.devices.number, ops.devices.process) == ((0, 0), ("10", "11"))
