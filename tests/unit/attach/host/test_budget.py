"""What recordings may cost: the rules, on a clock and a host that stand still unless told."""

from pathlib import Path

import pytest

from perfkit.attach.host.budget import FLOOR_S, HostMemory, RecordingBudget, estimate_memory_cost_s, read_host_memory

GIB = 2**30


class Host:
    """A clock and a memory."""

    def __init__(self, resident: float = 1.0, available: float = 16.0, total: float = 32.0) -> None:
        self.now_s = 0.0
        self.resident, self.available, self.total = resident, available, total

    def clock(self) -> float:
        return self.now_s

    def memory(self) -> HostMemory:
        return HostMemory(int(self.resident * GIB), int(self.available * GIB), int(self.total * GIB))

    def budget(self, overhead: float = 0.05, max_memory: float | None = None) -> RecordingBudget:
        return RecordingBudget(overhead, max_memory, clock=self.clock, memory=self.memory)


def test_the_floor_holds_until_the_share_is_more() -> None:
    host = Host()
    budget = host.budget()
    budget.spent_s = FLOOR_S
    assert budget.check_progress() == ""
    budget.spent_s = FLOOR_S + 1
    assert "--overhead 5" in budget.check_progress()
    host.now_s = 20 * (FLOOR_S + 1)
    assert budget.check_progress() == ""


def test_what_is_expected_counts_before_it_begins() -> None:
    host = Host()
    budget = host.budget()
    budget.spent_s = FLOOR_S / 2
    assert budget.check_begin(FLOOR_S / 2) == ""
    assert "more" in budget.check_begin(FLOOR_S)
    host.now_s = 3600.0
    assert budget.check_begin(FLOOR_S) == ""


def test_a_recording_ends_before_its_closing_needs_more_than_a_quarter_of_what_there_is() -> None:
    host = Host(available=4.0)
    budget = host.budget()
    assert budget.check_begin() == ""
    host.resident += 0.19
    assert budget.check_progress() == ""
    host.resident += 0.02
    assert "--max-memory" in budget.check_progress()


def test_a_limit_of_memory_is_kept() -> None:
    host = Host()
    budget = host.budget(max_memory=GIB / 2)
    assert budget.check_begin() == ""
    host.resident += 0.11
    assert "--max-memory 512 MiB" in budget.check_progress()


@pytest.mark.parametrize(("available", "said"), [(1.7, False), (1.5, True)])
def test_near_the_hosts_limit_none_begins_and_one_under_way_ends(available: float, said: bool) -> None:
    host = Host()
    budget = host.budget(max_memory=100 * GIB)
    assert budget.check_begin() == ""
    host.available = available
    assert bool(budget.check_progress()) is said
    assert bool(budget.check_begin()) is said


def test_what_closing_takes_must_be_there_too() -> None:
    host = Host(available=8.0)
    host.now_s = -10_000.0
    budget = host.budget(max_memory=100 * GIB)
    host.now_s = 0.0
    assert budget.check_begin() == ""
    host.resident += 1.0
    assert budget.check_progress() == ""  # 4 GiB more to its end, of 8
    host.available = 5.0
    assert "5.00 GiB" in budget.check_progress()


def test_within_a_step_memory_is_looked_at_now_and_then() -> None:
    host = Host()
    budget = host.budget(max_memory=GIB / 2)
    budget.spent_s = 2 * FLOOR_S
    assert budget.check_begin() != ""
    assert budget.check_memory() == ""  # time is counted between steps
    host.resident += 1.0
    assert budget.check_memory() == ""  # it has just looked
    host.now_s += 1.0
    assert "--max-memory" in budget.check_memory()


def test_when_it_fits_and_with_which_share() -> None:
    host = Host()
    budget = host.budget()
    budget.spent_s, host.now_s = 5.0, 100.0
    assert budget.compute_wait_s(10.0) == pytest.approx(200.0)
    assert budget.compute_share(10.0) == pytest.approx(0.15)
    host.now_s = 300.0
    assert budget.compute_wait_s(10.0) == 0.0
    assert host.budget(overhead=0.0).compute_wait_s(1.0) == float("inf")


def test_the_limit_of_a_control_group_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.stat").write_text("file 80000\ninactive_file 50000\n")
    found = read_host_memory(tmp_path)
    assert (found.available, found.total) == (150_000, 1_000_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert read_host_memory(tmp_path).total > 1_000_000


def test_memory_is_expected_to_cost_a_multiple_of_the_traces_end() -> None:
    assert estimate_memory_cost_s(4.6, 3, 3) == pytest.approx(10.1, abs=0.1)
    assert estimate_memory_cost_s(4.6, 0, 3) == 0.0
