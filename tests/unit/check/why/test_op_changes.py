from math import fsum
from statistics import median

import pytest

from perfkit.analysis.model.difference import ChangeRow
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.work.ops_by_step import make_op_key
from perfkit.check.why import op_changes as module
from perfkit.check.why.op_changes import Drift, find_changed_ops, list_drift_notes
from perfkit.check.why.side import TracedSteps
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import rank_trace, row

Steps = tuple[float, ...]

# Ten ops whose work and time are the same on both sides: what the machine does is told by them.
QUIET = [(f"aten::quiet{number}", (0.02, 0.02, 0.02)) for number in range(10)]


def traced(*ops: tuple[str, Steps] | tuple[str, Steps, dict[str, object]], factor: float = 1.0) -> TracedSteps:
    rows: list[OpRow] = []
    steps: dict[tuple[str, str, str, str], Steps] = {}
    for name, series, *fields in ops:
        made = row(name, median(series) * factor, **(fields[0] if fields else {}))
        rows.append(made)
        steps[make_op_key(made)] = tuple(value * factor for value in series)
    return TracedSteps(rank_trace(ops=tuple(rows)), steps)


def judged(
    before: TracedSteps, after: TracedSteps, **allocated: dict[tuple[str, str, str], float]
) -> dict[str, ChangeRow]:
    found, _ = find_changed_ops(before, after, (allocated.get("was", {}), allocated.get("now", {})))
    return {change.name: change for change in found.changes}


def test_counts_of_calls_and_inputs_are_exact_evidence() -> None:
    before = traced(
        *QUIET,
        ("aten::gone", (0.1, 0.1)),
        ("aten::more", (0.1, 0.1), {"calls": 1.0}),
        ("aten::fewer", (0.1, 0.1), {"calls": 4.0}),
        ("aten::cast", (0.1, 0.1), {"shapes": "fp32[8]"}),
    )
    after = traced(
        *QUIET,
        ("aten::new", (0.1, 0.1)),
        ("aten::more", (0.1, 0.1), {"calls": 2.0}),
        ("aten::fewer", (0.1, 0.1), {"calls": 3.0}),
        ("aten::cast", (0.1, 0.1), {"shapes": "fp64[8]"}),
    )
    found = judged(before, after)
    told = {name.removeprefix("aten::"): change.evidence for name, change in found.items() if "quiet" not in name}
    assert told == {
        "new": "new",
        "gone": "gone",
        "more": "more calls",
        "fewer": "fewer calls",
        "cast": "other inputs",
    }
    assert all(change.evidence == "noise" for name, change in found.items() if "quiet" in name)


def test_an_op_is_slower_only_if_it_is_in_every_step_against_every_other() -> None:
    before = traced(*QUIET, ("aten::a", (0.10, 0.11, 0.10)), ("aten::b", (0.10, 0.11, 0.10)))
    after = traced(*QUIET, ("aten::a", (0.20, 0.21, 0.20)), ("aten::b", (0.20, 0.10, 0.20)))
    found = judged(before, after)
    assert found["aten::a"].evidence == "slower"
    assert found["aten::b"].evidence == "noise"
    assert judged(after, before)["aten::a"].evidence == "faster"


def test_one_step_in_which_the_process_was_held_up_changes_nothing() -> None:
    before = traced(*QUIET, ("aten::a", (0.01, 0.01, 0.01)))
    after = traced(*QUIET, ("aten::a", (0.01, 0.01, 4.0)))
    change = judged(before, after)["aten::a"]
    assert (change.after_s, change.evidence) == (0.01, "noise")


def test_what_all_ops_do_is_the_machine() -> None:
    before = traced(*QUIET, ("aten::a", (0.1, 0.1, 0.1)))
    found, drift = find_changed_ops(before, traced(*QUIET, ("aten::a", (0.1, 0.1, 0.1)), factor=1.3), ({}, {}))
    assert drift.ratio == pytest.approx(1.3)
    assert {change.evidence for change in found.changes} == {"noise"}
    assert {"1.30"} <= {*list_figures(list_drift_notes(drift)[0].text)}
    assert "not listed" not in list_drift_notes(drift)[0].text


def test_on_a_machine_that_was_held_up_no_op_is_named_for_its_time() -> None:
    before = traced(*QUIET, ("aten::a", (0.1, 0.1, 0.1)))
    found, drift = find_changed_ops(before, traced(*QUIET, ("aten::a", (0.9, 0.9, 0.9)), factor=2.0), ({}, {}))
    assert {change.evidence for change in found.changes} == {"noise"}
    assert "not listed" in list_drift_notes(drift)[0].text


def test_nothing_is_said_of_a_machine_that_was_the_same() -> None:
    assert list_drift_notes(Drift(1.02, 0.1)) == []


def test_the_module_is_the_one_in_which_the_memory_pass_saw_the_calls_that_changed() -> None:
    before = traced(*QUIET, ("aten::mm", (0.1, 0.1), {"calls": 2.0}))
    after = traced(*QUIET, ("aten::mm", (0.1, 0.1), {"calls": 3.0}))
    was = {("aten::mm", "forward", "h.0"): 1.0, ("aten::mm", "forward", "h.1"): 1.0}
    for now, expected in (
        ({**was, ("aten::mm", "forward", "h.1"): 2.0}, "h.1"),
        ({**was, ("aten::mm", "forward", "h.0"): 2.0, ("aten::mm", "forward", "h.1"): 2.0}, "h.*"),
        ({**was, ("aten::mm", "forward", "h.1.up"): 1.0, ("aten::mm", "forward", "h.1.down"): 1.0}, "h.1"),
        ({**was, ("aten::mm", "forward", "head"): 1.0, ("aten::mm", "forward", "h.1"): 2.0}, ""),
        (was, ""),
    ):
        assert judged(before, after, was=was, now=now)["aten::mm"].module == expected


def test_what_the_trace_says_of_a_module_goes_before() -> None:
    after = traced(*QUIET, ("aten::mm", (0.1, 0.1), {"module": "Net/Block"}))
    found = judged(traced(*QUIET), after, now={("aten::mm", "forward", "h.1"): 1.0})
    assert found["aten::mm"].module == "Net/Block"


def test_rows_and_rests_sum_to_all_ops_and_the_exact_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHANGES", 3)
    before = traced(*QUIET, ("aten::held", (0.1, 0.5, 0.5)))
    after = traced(*QUIET, ("aten::held", (0.9, 0.1, 0.9)), ("aten::new", (0.001, 0.001)))
    found, _ = find_changed_ops(before, after, ({}, {}))
    assert [change.name for change in found.changes[:2]] == ["aten::new", "aten::held"]
    assert len(found.changes) == 3
    total = fsum(change.after_s or 0.0 for change in found.changes) + found.rest_after_s
    assert total == pytest.approx(fsum(op.seconds for op in after.trace.ops), rel=1e-12)
