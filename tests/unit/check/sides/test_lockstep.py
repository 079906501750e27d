"""A pair: who begins, where both run, and whose steps are whose."""

import pytest

from perfkit.check.sides import lockstep
from perfkit.check.sides.side import MeasuredSide
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec


@pytest.mark.parametrize(("index", "order"), [(0, ["old", "new"]), (1, ["new", "old"])])
def test_every_other_pair_begins_with_the_other_side(monkeypatch, tmp_path, index, order):
    seen = []

    def step(teams, *, limit_s, report):
        seen.extend(teams)
        return tuple(StepSamples(wall_s=(1.0 if team.label == "old" else 2.0,)) for team in teams)

    monkeypatch.setattr(lockstep, "step_by_turns", step)
    monkeypatch.setattr(lockstep, "list_usable_cpus", lambda: (2, 5))
    old, new = (MeasuredSide(label=label, root=tmp_path, tree=tmp_path) for label in ("old", "new"))
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(threads=1))
    pair = lockstep.measure_pair(old, new, spec, tmp_path / "pair", index=index, report=lambda text: None)
    assert [team.label for team in seen] == order
    assert [team.folder.name for team in seen] == [{"old": "before", "new": "after"}[label] for label in order]
    assert {sorted(cores.own)[0] for team in seen for cores in team._cores} == {2}  # the same core for both
    assert (pair.before.wall_s, pair.after.wall_s) == ((1.0,), (2.0,))
