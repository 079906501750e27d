"""Rounds with a suite that is made of numbers and a clock that is advanced by hand."""

import math

import msgspec
import pytest

from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.measure import rounds
from perfkit.measure.rounds import _RoundMeasurement
from perfkit.measure.run_events import RoundFinished, RoundStarted
from perfkit.measure.schedule import build_schedule
from perfkit.store.layout import MeasurementSession, Suite, SuiteRun, SuiteSampling
from perfkit.store.request import BenchRequest
from perfkit.techniques.base.technique import RankRequirement
from tests.fixtures.figures import list_figures

GIB = 2.0**30


class FakeMaking:
    """A suite whose steps take what `steps` gives of a variant and a repeat; each process takes `process_s`.

    `log` has who was measured with whom (`a b` together, `a, b` after each other), `turns_s` how long their turns may
    take; `fails` names a variant and the
    repeat in which it does.
    """

    def __init__(self, steps, process_s=10.0, fails=(), sizes=None):
        session = MeasurementSession(created_at="", command="", request=None)
        self.suite = Suite(created_at="", perfkit="", command="", variants=(), baselines={}, sessions=(session,))
        self.ended = set()
        self.log = []
        self.turns_s = []
        self.now = 0.0
        self.by_turns_before = True
        self._steps, self._process_s, self._fails, self._sizes = steps, process_s, fails, sizes or {}

    @property
    def next_repeat(self):
        return max((run.repeat + 1 for run in self.suite.runs), default=0)

    def update_session(self, **fields):
        session = msgspec.structs.replace(self.suite.sessions[-1], **fields)
        self.suite = msgspec.structs.replace(self.suite, sessions=(session,))

    def have(self, repeat, *variants):
        """Enter runs as if they had been made before."""
        made = tuple(SuiteRun(variant=name, repeat=repeat, path=f"{name}/{repeat}") for name in variants)
        self.suite = msgspec.structs.replace(self.suite, runs=(*self.suite.runs, *made))

    def first_repeat(self, variant):
        return min((run.repeat for run in self.suite.runs if run.variant == variant), default=None)

    def turns(self, variant, repeat):
        together = [run.variant for run in self.suite.runs if run.repeat == repeat]
        return tuple(together) if self.by_turns_before and repeat != self.first_repeat(variant) else ()

    def run_by_turns(self, specs, repeat, progress, *, round_index, turns, turns_s):
        names = [spec.variant for spec in specs]
        self.turns_s.append(turns_s)
        self.log.append(" ".join(names))
        self.now += sum(self._process_s(name) if callable(self._process_s) else self._process_s for name in names)
        failed = {name for name in names if (name, repeat) in self._fails}
        self.ended |= failed
        return not failed

    def run(self, item, progress, index, total):
        self.log.append(item.spec.variant)
        self.now += self._process_s
        if (item.spec.variant, item.repeat) in self._fails:
            self.ended.add(item.spec.variant)

    def samples(self, spec, repeat):
        return StepSamples(wall_s=(self._steps(spec.variant, repeat),))

    def resident_bytes(self, spec):
        return self._sizes.get(spec.variant, GIB)


def measure(making, text="amp,ckpt", *, available=64 * GIB, device="cpu", ended=(), used_s=0.0, **options):
    """The rounds' events."""
    request = BenchRequest(
        workload=WorkloadSpec(name="gpt"), variants=tuple(parse_variants(text)), device=device, device_count=1, cores=2,
        **options,
    )  # fmt: skip
    making.ended |= set(ended)
    events = []
    schedule = build_schedule(
        request, lambda techniques: RankRequirement(2 if techniques and techniques[0].name == "zero1" else 1)
    )
    if not making.suite.runs:
        making.have(0, *schedule.variants)
    _RoundMeasurement(
        making, schedule, request, events.append, lambda: making.now, lambda: available, used_s=used_s
    ).measure()
    return events


def noisy(**spread):
    """Steps of 1 s; a variant's log step goes up and down by its `spread` from repeat to repeat."""
    return lambda name, repeat: math.exp(spread.get(name, 0.0) * (-1) ** repeat)


def test_equal_rounds_are_enough_when_there_are_four():
    making = FakeMaking(noisy())
    events = measure(making)
    assert making.log == ["ckpt amp baseline", "amp ckpt baseline", "baseline ckpt amp", "ckpt baseline amp"]
    sampling = making.suite.sampling
    assert msgspec.structs.replace(sampling, end_reason="") == SuiteSampling(
        precision=0.05, budget_s=rounds.BUDGET_S, rounds=4, seconds=120.0
    )
    assert list_figures(sampling.end_reason) == ["5.0 %"]
    assert [event.number for event in events if isinstance(event, RoundFinished)] == [1, 2, 3, 4]


def test_a_comparison_that_is_precise_is_left_out_of_the_next_rounds():
    making = FakeMaking(noisy(ckpt=0.06), process_s=1.0)
    events = measure(making)
    assert all(len(names.split()) == 3 for names in making.log[:4])
    assert all(set(names.split()) == {"baseline", "ckpt"} for names in making.log[4:])
    assert list_figures(making.suite.sampling.end_reason) == ["5.0 %"]
    assert [sorted(event.widths) for event in events if isinstance(event, RoundFinished)][-1] == ["ckpt"]


def race(**levels):
    """Steps whose logs are at the level of a variant, and go up and down by a tenth from repeat to repeat."""
    return lambda name, repeat: math.exp(levels.get(name, 0.0) + 0.1 * (-1) ** repeat * (name != "baseline"))


def count_rounds(making, name):
    return sum(name in names.split() for names in making.log)


def test_in_a_race_a_variant_is_measured_until_it_is_decided_whether_it_is_faster():
    making = FakeMaking(race(amp=-1.0, ckpt=1.0, flash=-0.15), process_s=1.0)
    measure(making, "amp,ckpt,flash", race=True, budget_s=200.0)
    # ckpt shows no gain, and flash is certainly slower than amp before it is certainly faster than the baseline.
    assert [count_rounds(making, name) for name in ("amp", "ckpt", "flash")] == [3, 2, 3]
    assert making.suite.sampling.rounds == len(making.log)


def test_in_a_race_variants_are_compared_with_the_one_that_they_extend():
    levels = {"amp": -0.5, "amp+flash": -0.505, "amp+inplace": -0.4, "amp+ckpt": -0.1}
    making = FakeMaking(noisy_levels(levels), process_s=1.0)
    (base,) = parse_variants("amp")
    measure(making, "amp,amp+flash,amp+inplace,amp+ckpt", race=True, race_base=base, budget_s=200.0)
    assert count_rounds(making, "amp") == len(making.log)
    # All are certainly faster than the baseline at once, and none but amp+flash seems faster than amp.
    assert (count_rounds(making, "amp+inplace"), count_rounds(making, "amp+ckpt")) == (2, 2)
    assert count_rounds(making, "amp+flash") == len(making.log) == 4  # narrow


def test_the_variant_that_others_extend_is_in_every_group_of_a_round():
    levels = {"amp": -0.5, "amp+flash": -0.6, "amp+inplace": -0.6}
    making = FakeMaking(noisy_levels(levels))
    (base,) = parse_variants("amp")
    measure(making, "amp,amp+flash,amp+inplace", race=True, race_base=base, budget_s=45.0, available=4 * GIB)
    assert [set(group.split()) for group in making.log[:2]] == [
        {"baseline", "amp", "amp+flash"},
        {"baseline", "amp", "amp+inplace"},
    ]


def test_once_the_gain_is_known_the_margin_over_another_variant_is_measured_without_the_baseline():
    making = FakeMaking(noisy_levels({"amp": -0.8, "amp+flash": -0.805}), process_s=1.0)
    (base,) = parse_variants("amp")
    measure(making, "amp,amp+flash", precision=0.001, race_base=base, budget_s=400.0)
    groups = [set(group.split()) for group in making.log]
    alone = [group for group in groups if "baseline" not in group]
    assert len(groups) - len(alone) == rounds.LEAST_ROUNDS
    assert alone == [{"amp", "amp+flash"}] * len(alone)
    # Of a margin of 0.005, half is more than the precision.
    assert 0 < len(alone) < 100
    assert making.suite.sampling.rounds == len(groups)
    assert list_figures(making.suite.sampling.end_reason) == ["0.1 %"]


def noisy_levels(levels):
    """Steps whose logs are at the level of a variant, and go up and down by a hundredth, a variant's own way."""
    return lambda name, repeat: math.exp(
        levels.get(name, 0.0) + 0.01 * math.sin(7.0 * repeat + len(name)) * (name != "baseline")
    )


def test_without_a_race_a_slower_variant_is_measured_until_its_interval_is_narrow():
    making = FakeMaking(race(amp=-1.0, ckpt=1.0), process_s=1.0)
    measure(making, "amp,ckpt", budget_s=200.0)
    assert {"amp", "ckpt"} <= set(making.log[-1].split())


def test_the_budget_ends_it_and_what_is_left_is_told():
    making = FakeMaking(noisy(amp=1.0))
    events = measure(making, "amp", budget_s=130.0)
    assert making.suite.sampling.end_reason.count("2 min 10 s") == 1
    assert making.suite.sampling.rounds == 6  # of 20 s each
    left = [event.left_s for event in events if isinstance(event, RoundStarted)]
    assert left[0] is None
    assert left[2:] == [90.0, 70.0, 50.0, 30.0]


def test_first_runs_use_up_a_part_of_the_budget():
    making = FakeMaking(noisy(amp=1.0))
    measure(making, "amp", budget_s=130.0, used_s=70.0)
    assert making.suite.sampling.rounds == 3  # of 20 s each, in what is left of it
    assert making.suite.sampling.budget_s == 130.0
    assert making.suite.sampling.end_reason.count("2 min 10 s") == 1


@pytest.mark.parametrize(("options", "each"), [({}, 50.0), ({"budget_s": 60.0}, 10.0), ({"rounds": 1}, math.inf)])
def test_the_turns_of_three_rounds_fit_into_the_budget(options, each):
    """Two groups, since three processes of 1 GiB do not fit into 2.5 GiB."""
    making = FakeMaking(noisy(amp=1.0, ckpt=1.0))
    measure(making, available=2.5 / 0.8 * GIB, **options)
    assert len(making.log[0].split()) == 2
    assert set(making.turns_s) == {each}


@pytest.mark.parametrize(("budget_s", "least"), [(None, 3), (1.0, 1)])
def test_without_a_budget_of_ones_own_three_rounds_are_measured_however_long_they_take(budget_s, least):
    making = FakeMaking(noisy(amp=1.0), process_s=4000.0)
    measure(making, "amp", budget_s=budget_s)
    assert making.suite.sampling.rounds == least


def test_as_many_rounds_as_are_asked_for():
    making = FakeMaking(noisy())
    measure(making, rounds=2)
    assert making.suite.sampling == SuiteSampling(rounds=2, seconds=60.0, end_reason="2 rounds were requested")
    assert len(making.log) == 2
    none = FakeMaking(noisy())
    rounds.measure_rounds(none, None, BenchRequest(
        workload=WorkloadSpec(name="gpt"), variants=(), device="cpu", device_count=0, cores=1, rounds=0,
    ), print)  # fmt: skip
    assert none.suite.sampling is None


def test_a_variant_that_is_slow_is_measured_apart_and_the_others_go_on_when_it_no_longer_fits_into_the_budget():
    def steps(name, repeat):
        return math.exp({"amp": 0.5, "ckpt": 0.06}.get(name, 0.0) * (-1) ** repeat) * (24 if name == "amp" else 1)

    making = FakeMaking(steps, process_s=lambda name: 80.0 if name == "amp" else 5.0)
    measure(making, budget_s=300.0)
    assert [set(group.split()) for group in making.log[:6]] == [{"baseline", "ckpt"}, {"baseline", "amp"}] * 3
    assert all(set(group.split()) == {"baseline", "ckpt"} for group in making.log[6:])
    assert making.suite.sampling.end_reason.count("5 min 0 s") == 1
    assert 290 < making.suite.sampling.seconds <= 300


def test_what_does_not_fit_into_memory_together_is_measured_in_groups_that_share_the_baseline():
    making = FakeMaking(noisy())
    measure(making, "amp,ckpt,compile", available=4 * GIB, rounds=1)  # 80 % of it: three processes of 1 GiB
    assert [set(group.split()) for group in making.log] == [{"baseline", "amp", "ckpt"}, {"baseline", "compile"}]


def test_what_does_not_even_fit_beside_the_baseline_alternates_with_it():
    making = FakeMaking(noisy(), sizes={"ckpt": 3 * GIB})
    measure(making, available=4 * GIB, rounds=1)
    assert making.log == ["amp baseline", "ckpt", "baseline"]


def test_each_baseline_is_measured_with_its_own_variants():
    making = FakeMaking(noisy())
    measure(making, "amp,zero1", rounds=1)
    assert [set(group.split()) for group in making.log] == [{"baseline", "amp"}, {"baseline@2", "zero1@2"}]


def test_on_a_gpu_whole_processes_alternate_and_the_first_run_counts():
    making = FakeMaking(noisy())
    measure(making, device="cuda")
    assert making.log == [*("ckpt", "amp", "baseline"), *("amp", "ckpt", "baseline"), *("baseline", "ckpt", "amp")]
    assert making.suite.sampling.rounds == 3  # and the first runs are the fourth pair


def test_a_variant_that_fails_in_a_round_is_left_out_and_the_others_go_on():
    making = FakeMaking(noisy(), fails={("amp", 2)})
    events = measure(making)
    assert making.ended == {"amp"}
    assert list_figures(making.suite.sampling.end_reason) == ["5.0 %"]
    assert all("amp" not in names for names in making.log[2:])
    assert making.suite.sampling.rounds == 5  # the one that it ended told nothing
    assert [sorted(event.widths) for event in events if isinstance(event, RoundFinished)][-1] == ["ckpt"]


def test_without_its_baseline_nothing_goes_on():
    making = FakeMaking(noisy(), fails={("baseline", 1)})
    measure(making)
    assert making.suite.sampling.rounds == 1
    assert "nothing left" in making.suite.sampling.end_reason


def test_a_baseline_alone_is_measured_until_its_step_time_is_precise():
    making = FakeMaking(noisy(baseline=0.06), process_s=1.0)
    measure(making, "baseline")
    assert set(making.log) == {"baseline"}
    assert making.suite.sampling.rounds > 4


def test_what_did_not_end_well_alone_is_in_no_round():
    making = FakeMaking(noisy())
    measure(making, ended=["amp"], rounds=1)
    assert [set(group.split()) for group in making.log] == [{"baseline", "ckpt"}]
    lost = FakeMaking(noisy())
    measure(lost, ended=["amp", "ckpt", "baseline"])
    assert lost.log == []
    assert "nothing left" in lost.suite.sampling.end_reason


def test_variants_whose_baseline_failed_are_measured_alone():
    making = FakeMaking(noisy())
    measure(making, ended=["baseline"])
    assert set(making.log) == {"amp", "ckpt"}


def test_a_failed_measurement_of_size_counts_as_too_large(monkeypatch):
    making = FakeMaking(noisy())
    monkeypatch.setattr(making, "resident_bytes", lambda spec: None)
    measure(making, "amp", rounds=1)
    assert making.log == ["amp", "baseline"]


def test_the_order_changes_so_that_no_variant_is_always_first():
    making = FakeMaking(noisy())
    measure(making, rounds=12)
    first = [names.split()[0] for names in making.log]
    assert {name: first.count(name) for name in set(first)} == {"baseline": 4, "amp": 4, "ckpt": 4}


def test_a_budget_that_was_used_up_before_an_interruption_is_no_new_one():
    making = FakeMaking(noisy(amp=1.0, ckpt=1.0))
    making.update_session(sampling=SuiteSampling(precision=0.05, budget_s=100.0, rounds=3, seconds=90.0))
    measure(making, budget_s=100.0)  # a round has taken 30 s
    assert making.log == []
    assert making.suite.sampling.end_reason.count("100 s") == 1
