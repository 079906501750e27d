"""Figures that are there already: a baseline against a run, a run against another."""

from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest

from perfkit.check.cases import Machine
from perfkit.check.check_options import CheckOptions
from perfkit.check.config import CheckCase, CheckConfig
from perfkit.check.judge.check_thresholds import parse_threshold
from perfkit.check.judge.result import Check, JudgedQuantity, Verdict
from perfkit.check.stored_comparison import (
    FigureSource,
    build_baseline,
    compare_stored,
    make_baseline_source,
    read_run_source,
)
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.record.rank_record import Flops, RankRecord, RunStatus
from perfkit.store.baseline import read_baseline, write_baseline
from tests.fixtures.suites import ENVIRONMENT, counted, record, write_suite

CONFIG = CheckConfig(root=".")


def run(folder: Path, flops: float = 2e9, step_s: float = 0.1, **variants: list[RankRecord | None]) -> FigureSource:
    """Three processes of a baseline, and of what else is given."""
    processes: list[RankRecord | None] = [
        record(step_s * factor, flops=Flops(model=counted(2e9), hardware=counted(flops)))
        for factor in (1, 1.001, 0.999)
    ]
    write_suite(folder, {"baseline": processes, **variants})
    return read_run_source(folder)


def order(*, timed: bool = True) -> CheckOptions:
    machine = Machine(device="cpu", name="a CPU", count=1, cores=2)
    return CheckOptions(machine=machine, command="perfkit check", timed=timed, progress=lambda event: None)


def compared(before: FigureSource, after: FigureSource, config: CheckConfig = CONFIG, *, timed: bool = True) -> Check:
    return compare_stored(config, before, after, order(timed=timed), began=monotonic())


def judged(check: Check, variant: str = "baseline") -> dict[str, JudgedQuantity]:
    (found,) = [each for each in check.variants if each.variant == variant]
    return {each.quantity: each for each in found.quantities}


def test_a_run_against_another(tmp_path: Path) -> None:
    check = compared(run(tmp_path / "old"), run(tmp_path / "new", flops=2.1e9, step_s=0.2))
    found = judged(check)
    assert (found["flops"].verdict, found["flops"].change) == (Verdict.FAIL, pytest.approx(0.05))
    assert found["cpu_time"].verdict is Verdict.FAIL
    assert check.verdict is Verdict.FAIL
    assert (check.before.label, check.after.label) == (str(tmp_path / "old"), str(tmp_path / "new"))


def test_a_written_baseline_holds_what_the_run_did(tmp_path: Path) -> None:
    source = run(tmp_path / "old")
    write_baseline(tmp_path / "b.json", build_baseline(source, timed=True))
    stored = make_baseline_source(read_baseline(tmp_path / "b.json"), "b.json")
    check = compared(stored, source)
    assert judged(check)["flops"].change == 0
    assert check.verdict in (Verdict.PASS, Verdict.INCONCLUSIVE)
    assert check.variants[0].explanation is None


def test_a_baseline_without_times_refuses_none_and_judges_what_is_exact(tmp_path: Path) -> None:
    source = run(tmp_path / "old")
    write_baseline(tmp_path / "b.json", build_baseline(source, timed=False))
    stored = read_baseline(tmp_path / "b.json")
    (variant,) = stored.variants["gpt"].values()
    assert variant.processes == {}
    check = compared(make_baseline_source(stored, "b.json"), run(tmp_path / "new", step_s=9.0), timed=False)
    assert check.verdict is Verdict.PASS
    assert "cpu_time" not in judged(check)


def test_times_from_another_machine(tmp_path: Path) -> None:
    baseline = build_baseline(run(tmp_path / "old"), timed=True)
    elsewhere = msgspec.structs.replace(
        baseline, environment=msgspec.structs.replace(ENVIRONMENT, hostname="", cpu_model="another")
    )
    check = compared(make_baseline_source(elsewhere, "b.json"), run(tmp_path / "new", step_s=9.0))
    assert "cpu_model: another" in judged(check)["cpu_time"].reason
    assert any("cpu_model" in each for each in check.environment_differences)
    assert check.verdict is Verdict.PASS


def test_what_only_one_side_has_is_a_note(tmp_path: Path) -> None:
    check = compared(run(tmp_path / "old", amp=[record()]), run(tmp_path / "new", ckpt=[record()]))
    assert [each.variant for each in check.variants] == ["baseline"]
    assert [(note.id, note.figures["variant"]) for note in check.notes] == [
        ("check.only_after", "ckpt"),
        ("check.only_before", "amp"),
    ]


def test_nothing_in_common(tmp_path: Path) -> None:
    old = run(tmp_path / "old")
    other = FigureSource("other", {"resnet": old.cases["gpt"]})
    with pytest.raises(UsageError, match="in common"):
        compared(old, other)


def test_a_run_that_failed_is_no_baseline(tmp_path: Path) -> None:
    dead: Any = record(status=RunStatus.FAILED, reason="planted")
    with pytest.raises(PerfkitError, match="planted"):
        build_baseline(run(tmp_path / "old", amp=[dead]), timed=True)


def test_thresholds_of_the_case_that_a_run_is_of(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    lax, off = parse_threshold("10%", "FLOP", more_is_worse=True), None
    old, new = run(tmp_path / "old"), run(tmp_path / "new", flops=2.1e9)
    case = CheckCase(workload="gpt", thresholds={"flops": lax})
    assert judged(compared(old, new, CheckConfig(root=".", cases=(case,)), timed=False))["flops"].verdict == "worse"
    assert judged(compared(old, new, CheckConfig(root=".", thresholds={"flops": off})))["flops"].threshold is None
