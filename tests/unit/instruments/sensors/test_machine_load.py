"""How busy the machine is, from /proc and control groups as real machines show them."""

from pathlib import Path

import pytest

from perfkit.instruments.sensors.machine_load import LoadReading, compute_load, read_load

OWN = 4100


class Machine:
    """A fake /proc and control group. CPU times are in ticks of 10 ms, as `user system idle steal`, a core a line."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.cgroup = folder / "proc", folder / "cgroup"

    def cores(self, *times: tuple[int, int, int, int], first: int = 0) -> None:
        lines = [f"cpu{first + n} {u} 0 {s} {i} 0 0 0 {stolen} 0 0" for n, (u, s, i, stolen) in enumerate(times)]
        self._write(self.proc / "stat", "\n".join(["cpu  9 9 9 9 9 9 9 9 9 9", *lines, "ctxt 12", "btime 1", ""]))

    def process(self, pid: int, parent: int, ticks: int, *, ended: int = 0, name: str = "python") -> None:
        """`ended` are the ticks of its children that it has waited for."""
        self._write(
            self.proc / str(pid) / "stat", f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 {ended} 0 20"
        )

    def ends(self, pid: int) -> None:
        (self.proc / str(pid) / "stat").unlink()

    def pressure(self, microseconds: int) -> None:
        self._write(self.proc / "pressure" / "cpu", f"some avg10=1.00 avg60=2.00 avg300=3.00 total={microseconds}\n")

    def limit(self, periods: int, throttled: int, path: str = "cpu.stat") -> None:
        self._write(self.cgroup / path, f"usage_usec 12\nnr_periods {periods}\nnr_throttled {throttled}\nburst 1\n")

    def read(self, at: float, cpus: tuple[int, ...] = (0, 1)) -> LoadReading:
        return read_load(self.proc, self.cgroup, root=OWN, cpus=cpus)._replace(time_s=at)

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.cores((0, 0, 0, 0), (0, 0, 0, 0))
    made.process(OWN, 1, 0)
    return made


def test_what_others_used_is_what_the_cores_did_without_the_own_tree(machine: Machine) -> None:
    machine.process(4200, OWN, 100)
    machine.process(9, 1, 0)
    start = machine.read(10.0)
    machine.cores((700, 50, 250, 0), (800, 50, 100, 50))
    machine.process(OWN, 1, 30)
    machine.process(4200, OWN, 300)
    machine.process(4300, 4200, 170, name="a (worse) name")
    machine.process(9, 1, 1200)
    load = compute_load(start, machine.read(20.0))
    assert load.seconds == pytest.approx(10)
    assert load.cores == 2
    assert load.own_cores == pytest.approx(0.4)
    assert load.other_cores == pytest.approx(1.2)
    assert load.stolen_cores == pytest.approx(0.05)


def test_processes_that_have_ended_stay_own(machine: Machine) -> None:
    machine.process(4200, OWN, 100)
    start = machine.read(0.0)
    machine.ends(4200)
    machine.process(OWN, 1, 0, ended=600)
    machine.cores((500, 0, 500, 0), (0, 0, 1000, 0))
    load = compute_load(start, machine.read(10.0))
    assert load.own_cores == pytest.approx(0.5)
    assert load.other_cores == 0


def test_only_cores_that_may_be_used_count(machine: Machine) -> None:
    machine.cores((0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))
    start = machine.read(0.0, (1,))
    machine.cores((1000, 0, 0, 0), (250, 0, 750, 0), (1000, 0, 0, 0))
    load = compute_load(start, machine.read(10.0, (1,)))
    assert (load.cores, load.other_cores) == (1, pytest.approx(0.25))


def test_where_cores_have_other_numbers_all_that_are_listed_count(machine: Machine) -> None:
    start = machine.read(0.0, (6, 7))
    machine.cores((500, 0, 500, 0), (250, 0, 750, 0))
    load = compute_load(start, machine.read(10.0, (6, 7)))
    assert (load.cores, load.other_cores) == (2, pytest.approx(0.75))


def test_waiting_is_a_share_of_the_time(machine: Machine) -> None:
    machine.pressure(5_000_000)
    start = machine.read(0.0)
    machine.pressure(7_500_000)
    assert compute_load(start, machine.read(10.0)).waiting_share == pytest.approx(0.25)


@pytest.mark.parametrize("path", ["cpu.stat", "cpu/cpu.stat"])
def test_a_container_that_was_stopped_by_its_limit(machine: Machine, path: str) -> None:
    machine.limit(100, 10, path)
    start = machine.read(0.0)
    machine.limit(200, 40, path)
    assert compute_load(start, machine.read(10.0)).throttled_share == pytest.approx(0.3)


def test_a_container_without_a_limit_is_not_throttled(machine: Machine) -> None:
    machine.limit(0, 0)
    assert compute_load(machine.read(0.0), machine.read(10.0)).throttled_share is None


def test_a_system_without_these_files_tells_nothing(tmp_path: Path) -> None:
    start, end = (read_load(tmp_path, tmp_path, root=OWN, cpus=(0, 1))._replace(time_s=at) for at in (0.0, 5.0))
    load = compute_load(start, end)
    assert load.seconds == 5
    assert load.cores == 2
    assert (load.own_cores, load.other_cores, load.stolen_cores, load.waiting_share, load.throttled_share) == (
        None,
    ) * 5


def test_a_sandbox_that_counts_nothing_is_not_called_idle(machine: Machine) -> None:
    load = compute_load(machine.read(0.0), machine.read(5.0))
    assert load.other_cores is None
    assert load.stolen_cores is None
    assert load.own_cores == 0


def test_a_process_that_ended_while_it_was_read_is_left_out(machine: Machine) -> None:
    (machine.proc / "4400").mkdir()
    (machine.proc / "4401").mkdir()
    (machine.proc / "4401" / "stat").write_text("")
    assert machine.read(0.0).own_s == 0


def test_this_machine() -> None:
    start = read_load()
    deadline = start.time_s + 0.2
    end = read_load()
    while end.time_s < deadline:
        sum(range(100_000))
        end = read_load()
    load = compute_load(start, end)
    assert load.seconds >= 0.2
    assert load.own_cores is None or 0 < load.own_cores <= load.cores + 1
