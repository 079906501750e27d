"""Taking turns, with steps that are numbers and a clock that is advanced by hand."""

import pytest

from perfkit.core.errors import PerfkitError
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import RunSpec, Schedule, WorkloadSpec
from perfkit.measure.interleaving import lockstep, protocol
from perfkit.measure.interleaving.lockstep import choose_turn_steps, take_turns, warm_up


class FakeTeams:
    """Teams whose steps take the given seconds of a clock of their own, and the order in which they ran."""

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
        return StepSamples(wall_s=(took,), cpu_s=(took,))


def test_turns_are_abba():
    teams = FakeTeams(first_s=(1, 2, 3, 4), second_s=(10, 20, 30, 40))
    first, second = take_turns(teams.steppers, 4, 4, 0.0, teams.clock)
    assert teams.order == "ABBAABBA"
    assert first.wall_s == (1, 2, 3, 4)
    assert second.cpu_s == (10, 20, 30, 40)


def test_of_three_every_other_round_of_turns_is_reversed():
    order = []
    steppers = [lambda count, name=name: order.append(name) or StepSamples(wall_s=(1.0,)) for name in "ABC"]
    taken = take_turns(steppers, 2, 2, 0.0)
    assert "".join(order) == "ABCCBA"
    assert [len(team.wall_s) for team in taken] == [2, 2, 2]


@pytest.mark.parametrize(
    ("for_s", "count"),
    [
        (0.0, 4),  # the least, however long they take
        (10.0, 6),  # a pair takes two seconds: five, and the ABBA is made whole
        (1000.0, 8),  # the most, however much time there is
    ],
)
def test_steps_go_on_for_a_time_within_bounds(for_s, count):
    teams = FakeTeams()
    first, second = take_turns(teams.steppers, 4, 8, for_s, teams.clock)
    assert len(first.wall_s) == len(second.wall_s) == count


def test_a_turn_has_as_many_steps_as_it_is_told():
    teams = FakeTeams()
    take_turns(teams.steppers, 4, 4, 0.0, teams.clock, steps=7)
    assert teams.counts == [7] * 8


@pytest.mark.parametrize(
    ("first_s", "second_s", "steps"),
    [
        ((9.0, 0.3, 0.3, 0.3), (9.0, 0.3, 0.3, 0.3), 1),  # a step takes longer than a turn need
        ((9.0, 0.06, 0.05, 0.01), (9.0, 0.06, 0.06, 0.06), 4),  # the faster side fills the turn, in the median
        ((0.03,), (0.04,), 7),  # fewer than a window were warm-up
        ((), (), 1),  # without a warm-up nothing is known
    ],
)
def test_turns_of_short_steps_have_several(first_s, second_s, steps):
    assert lockstep.TURN_S == 0.2
    assert choose_turn_steps((StepSamples(wall_s=first_s), StepSamples(wall_s=second_s))) == steps


def test_warm_up_ends_when_all_are_steady():
    teams = FakeTeams(first_s=(9, 2, 1), second_s=(9, 9, 9, 2, 1, 1))
    first, second = warm_up(teams.steppers, 2, 30)
    assert first.cpu_s[:3] == (9, 2, 1)
    # Of the second side, the medians of the last three steps and of the three before then agree: (2, 1, 1), (1, 1, 1).
    assert len(second.cpu_s) == 9
    assert set(teams.counts) == {1}


def test_one_that_was_steady_is_not_waited_for_again():
    # The first is steady after six steps, the second after nine, when a slow step of the first is in its last three.
    teams = FakeTeams(first_s=(1, 1, 1, 1, 1, 1, 1, 9, 9), second_s=(9, 9, 9, 2, 1, 1))
    first, _ = warm_up(teams.steppers, 2, 30)
    assert len(first.cpu_s) == 9


def test_steady_before_the_least_of_steps_is_not_warm():
    # The first is steady after six steps and not after the least of seven, when two slow ones are in its last three.
    teams = FakeTeams(first_s=(1, 1, 1, 1, 1, 9, 9, 9, 9))
    first, _ = warm_up(teams.steppers, 7, 30)
    assert len(first.cpu_s) > 7


def test_warm_up_is_bounded():
    teams = FakeTeams(first_s=[2.0**n for n in range(99)])
    assert len(warm_up(teams.steppers, 2, 12)[0].wall_s) == 12
    assert len(warm_up(FakeTeams().steppers, 8, 12)[0].wall_s) == 8
    assert warm_up(FakeTeams().steppers, 0, 0)[0] == StepSamples()


class FakeTeam:
    """A team without processes, which answers each command at once; `log` has what happened, for all of them."""

    log: list[str] = []

    def __init__(self, label, value):
        self.label = label
        self.value = value
        self.spec = RunSpec(workload=WorkloadSpec(name="gpt"), schedule=Schedule(warmup=1, max_warmup=2))
        self.answer = protocol.format_ready()

    def start(self):
        self.log.append(f"start {self.label}")

    def settle(self):
        self.log.append(f"settle {self.label}")

    def say(self, line):
        self.answer = protocol.format_steps(StepSamples(wall_s=(self.value,), cpu_s=(self.value,)))

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


def by_turns(monkeypatch, *teams, **options):
    monkeypatch.setattr(FakeTeam, "log", [])
    monkeypatch.setattr(lockstep, "Conversation", FakeConversation)
    return lockstep.step_by_turns(teams, limit_s=60.0, report=lambda text: None, **options)


def test_teams_start_settle_step_and_end_together(monkeypatch):
    first, second = by_turns(monkeypatch, FakeTeam("old", 1.0), FakeTeam("new", 2.0))
    assert FakeTeam.log == [
        *("start old", "start new", "settle old", "settle new"),
        *("dismiss", "dismiss", "end", "end"),
    ]
    assert set(first.wall_s) == {1.0}
    assert set(second.wall_s) == {2.0}
    assert len(first.wall_s) == len(second.wall_s) >= lockstep.LEAST_TURNS


def test_as_many_turns_as_are_asked_for(monkeypatch):
    [taken] = by_turns(monkeypatch, FakeTeam("alone", 1.0), turns=3)
    assert len(taken.wall_s) == 3


def test_no_more_turns_than_their_time_allows(monkeypatch):
    [taken] = by_turns(monkeypatch, FakeTeam("alone", 1.0), turns_s=0.0)
    assert len(taken.wall_s) == lockstep.LEAST_TURNS


def test_another_protocol_is_named(monkeypatch):
    monkeypatch.setattr(FakeConversation, "wait", lambda self, teams: [["ready 99"] for _ in teams])
    with pytest.raises(PerfkitError, match=r"^old: .*'ready 99'"):
        by_turns(monkeypatch, FakeTeam("old", 1.0))
