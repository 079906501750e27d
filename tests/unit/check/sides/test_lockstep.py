"""Taking turns, with steps that are numbers and a clock that is advanced by hand."""

import pytest

from perfkit.check.sides import lockstep, protocol
from perfkit.check.sides.lockstep import steps_of_turn, take_turns, warm_up
from perfkit.check.sides.side import Side
from perfkit.errors import PerfkitError
from perfkit.record import Samples
from perfkit.spec import LaunchSpec, RunSpec, Schedule, WorkloadSpec


class FakeSides:
    """Two sides whose steps take the given seconds of a clock of their own, and the order in which they ran."""

    def __init__(self, first_s=(), second_s=(), otherwise_s=1.0):
        self.order = ""
        self.now = 0.0
        self.otherwise_s = otherwise_s
        self.counts = []
        self.steppers = (lambda count: self._turn("A", first, count), lambda count: self._turn("B", second, count))
        first, second = iter(first_s), iter(second_s)

    def clock(self):
        return self.now

    def _turn(self, name, times, count):
        self.order += name
        self.counts.append(count)
        took = next(times, self.otherwise_s)
        self.now += took
        return Samples(wall_s=(took,), cpu_s=(took,))


def test_turns_are_abba():
    sides = FakeSides(first_s=(1, 2, 3, 4), second_s=(10, 20, 30, 40))
    first, second = take_turns(sides.steppers, 4, 4, 0.0, sides.clock)
    assert sides.order == "ABBAABBA"
    assert first.wall_s == (1, 2, 3, 4)
    assert second.cpu_s == (10, 20, 30, 40)


@pytest.mark.parametrize(
    ("for_s", "count"),
    [
        (0.0, 4),  # the least, however long they take
        (10.0, 6),  # a pair takes two seconds: five, and the ABBA is made whole
        (1000.0, 8),  # the most, however much time there is
    ],
)
def test_steps_go_on_for_a_time_within_bounds(for_s, count):
    sides = FakeSides()
    first, second = take_turns(sides.steppers, 4, 8, for_s, sides.clock)
    assert len(first.wall_s) == len(second.wall_s) == count


def test_a_turn_has_as_many_steps_as_it_is_told():
    sides = FakeSides()
    take_turns(sides.steppers, 4, 4, 0.0, sides.clock, steps=7)
    assert sides.counts == [7] * 8


@pytest.mark.parametrize(
    ("first_s", "second_s", "steps"),
    [
        ((9.0, 0.1, 0.1, 0.1), (9.0, 0.1, 0.1, 0.1), 1),  # a step takes longer than a turn need
        ((9.0, 0.006, 0.005, 0.001), (9.0, 0.006, 0.006, 0.006), 4),  # the faster side fills the turn, in the median
        ((0.003,), (0.004,), 7),  # fewer than a window were warm-up
        ((), (), 1),  # without a warm-up nothing is known
    ],
)
def test_turns_of_short_steps_have_several(first_s, second_s, steps):
    assert lockstep.TURN_S == 0.02
    assert steps_of_turn((Samples(wall_s=first_s), Samples(wall_s=second_s))) == steps


def test_warm_up_ends_when_both_sides_are_steady():
    sides = FakeSides(first_s=(9, 2, 1), second_s=(9, 9, 9, 2, 1, 1))
    first, second = warm_up(sides.steppers, 2, 30)
    assert first.cpu_s[:3] == (9, 2, 1)
    # Of the second side, the medians of the last three steps and of the three before then agree: (2, 1, 1), (1, 1, 1).
    assert len(second.cpu_s) == 9
    assert set(sides.counts) == {1}


def test_warm_up_is_bounded():
    sides = FakeSides(first_s=[2.0**n for n in range(99)])
    assert len(warm_up(sides.steppers, 2, 12)[0].wall_s) == 12
    assert len(warm_up(FakeSides().steppers, 8, 12)[0].wall_s) == 8
    assert warm_up(FakeSides().steppers, 0, 0)[0] == Samples()


class FakeTeam:
    """A side without processes, which answers each command at once; `log` has what happened, for all of them."""

    log: list[str] = []

    def __init__(self, side, place, spec, folder, cores):
        self.side = side
        self.value = 1.0 if side.label == "old" else 2.0
        self.answer = protocol.ready_line()
        self.cores = [sorted(each.own) for each in cores]

    def start(self):
        self.log.append(f"start {self.side.label}")

    def settle(self):
        self.log.append(f"{self.side.label} on {self.cores}")

    def say(self, line):
        self.answer = protocol.steps_line(Samples(wall_s=(self.value,), cpu_s=(self.value,)))

    def dismiss(self):
        self.log.append("dismiss")

    def end(self):
        self.log.append("end")


class FakeConversation:
    def __init__(self, teams, deadline, report):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def wait(self, teams):
        return [[team.answer] for team in teams]


@pytest.mark.parametrize(("index", "started"), [(0, ["old", "new"]), (1, ["new", "old"])])
def test_every_other_pair_begins_with_the_other_side(monkeypatch, tmp_path, index, started):
    monkeypatch.setattr(FakeTeam, "log", [])
    monkeypatch.setattr(lockstep, "Team", FakeTeam)
    monkeypatch.setattr(lockstep, "Conversation", FakeConversation)
    old, new = (Side(label=label, root=tmp_path, tree=tmp_path) for label in ("old", "new"))
    monkeypatch.setattr(lockstep, "usable_cpus", lambda: (2, 5))
    spec = RunSpec(
        workload=WorkloadSpec(name="gpt"),
        schedule=Schedule(warmup=1, max_warmup=2),
        launch=LaunchSpec(threads=1),
    )
    pair = lockstep.measure_pair(old, new, spec, tmp_path / "pair", index=index, report=lambda text: None)
    assert FakeTeam.log == [
        *(f"start {side}" for side in started),
        *(f"{side} on [[2]]" for side in started),  # the same core for both
        *("dismiss", "dismiss", "end", "end"),
    ]
    assert set(pair.before.wall_s) == {1.0}
    assert set(pair.after.wall_s) == {2.0}
    assert len(pair.before.wall_s) == len(pair.after.wall_s) >= lockstep.LEAST_TURNS


def test_another_protocol_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(lockstep, "Team", FakeTeam)
    monkeypatch.setattr(lockstep, "Conversation", FakeConversation)
    monkeypatch.setattr(FakeConversation, "wait", lambda self, teams: [["ready 99"] for _ in teams])
    side = Side(label="old", root=tmp_path, tree=tmp_path)
    spec = RunSpec(workload=WorkloadSpec(name="gpt"))
    with pytest.raises(PerfkitError, match=r"old: its perfkit says 'ready 99'"):
        lockstep.measure_pair(side, side, spec, tmp_path / "pair", index=0, report=lambda text: None)
