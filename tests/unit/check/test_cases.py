"""From configured cases to planned runs."""

import pytest

from perfkit.check.cases import COUNTED, Machine, find_thresholds, plan_cases
from perfkit.check.config import CheckCase, CheckConfig
from perfkit.check.judge.check_thresholds import parse_threshold
from perfkit.core.errors import UsageError
from perfkit.core.spec import ENERGY_S

CPU = Machine(device="cpu", name="a CPU", count=1, cores=4)


def config(*cases: CheckCase) -> CheckConfig:
    return CheckConfig(root=".", cases=cases, threads=3)


def test_the_named_variants_are_judged_and_their_baseline_is_run() -> None:
    (case,) = plan_cases(config(CheckCase(workload="gpt:size=nano", technique="amp,ckpt", batch_size=2)), CPU, COUNTED)
    assert case.workload == "gpt:size=nano:batch_size=2"
    assert [spec.variant for spec in case.specs] == ["amp", "ckpt"]
    assert {spec.launch.threads for spec in case.specs} == {3}
    assert case.request.schedule == COUNTED


def test_a_technique_of_several_ranks_is_judged_alone() -> None:
    (alone,) = plan_cases(config(CheckCase(workload="gpt:size=nano", technique="zero1")), CPU, COUNTED)
    assert [spec.variant for spec in alone.specs] == ["zero1@2"]
    (both,) = plan_cases(config(CheckCase(workload="gpt:size=nano", technique="zero1,baseline")), CPU, COUNTED)
    assert [spec.variant for spec in both.specs] == ["baseline", "baseline@2", "zero1@2"]


def test_a_stored_variant_has_the_thresholds_of_its_case_without_a_plan() -> None:
    lax, strict = (parse_threshold(text, "FLOP", more_is_worse=True) for text in ("7%", "1%"))
    common = CheckConfig(root=".", thresholds={"flops": None}).thresholds
    cases = (
        CheckCase(workload="gpt:size=nano", technique="zero1,baseline", thresholds={"flops": lax}),
        CheckCase(workload="gpt:size=nano", batch_size=2, technique="amp", thresholds={"flops": strict}),
        CheckCase(workload="gpt:size=nano", technique="zero1", world_size=4, thresholds={"flops": strict}),
    )
    checked = CheckConfig(root=".", cases=cases, thresholds=common)

    def find(workload: str, variant: str) -> object:
        return find_thresholds(checked, workload, variant)["flops"]

    for case in plan_cases(checked, CPU, COUNTED):
        assert {find(case.workload, spec.variant) for spec in case.specs} == {case.thresholds["flops"]}
    assert find("gpt:size=nano", "zero1@2") == lax
    assert find("gpt:size=nano", "zero1@4") == strict
    assert find("gpt:size=nano:batch_size=2", "amp") == strict
    assert find("gpt:size=nano", "amp") is None


def test_equal_workloads_have_folders_of_their_own() -> None:
    same = CheckCase(workload="train.py:build")
    first, second = plan_cases(config(same, same), CPU, COUNTED)
    assert first.folder != second.folder
    assert ":" not in first.folder


def test_energy_gets_a_pass_of_its_own_where_it_is_gated() -> None:
    gated = CheckCase(workload="gpt:size=nano", thresholds={"energy": parse_threshold("5%", "J", more_is_worse=True)})
    (case,) = plan_cases(config(gated), CPU, COUNTED)
    assert {spec.schedule.energy_s for spec in case.specs} == {ENERGY_S}


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (CheckCase(workload="gpt", technique="ampp"), "'amp'"),
        (CheckCase(workload="gpt", technique=""), "empty technique"),
        (CheckCase(workload=""), "empty workload"),
        (
            CheckCase(workload="gpt", technique="amp+batch:auto"),
            r"amp\+batch:auto .*perfkit bench",
        ),
    ],
)
def test_what_is_wrong(case: CheckCase, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan_cases(config(case), CPU, COUNTED)


def test_nothing_to_check_shows_how_to_say_what() -> None:
    with pytest.raises(UsageError, match=r"tool\.perfkit\.check\.cases"):
        plan_cases(config(), CPU, COUNTED)
