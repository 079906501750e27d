"""What is on the shelf for a step, and what it risks."""

from perfkit.plan.advise.model import Goal
from perfkit.plan.advise.shelf import Place, candidate, risk, shelf
from perfkit.spec import parse_variants

HERE = Place("cpu", "fp32", 1)


def names(text: str, place: Place = HERE, goal: Goal = "time") -> list[str]:
    return [each.name for each in shelf(parse_variants(text), place, goal)[0]]


def left_out(text: str, place: Place = HERE, goal: Goal = "time") -> dict[str, str]:
    return {each.name: each.reason for each in shelf(parse_variants(text), place, goal)[1]}


def test_what_cannot_act_is_left_out_with_its_reason() -> None:
    assert names("baseline,amp,tf32,fp8,zero1") == ["amp"]
    reasons = left_out("tf32,fp8,zero1")
    assert "fp32 stays fp32" in reasons["tf32"]
    assert "no fp8 products" in reasons["fp8"]
    assert reasons["zero1"] == "needs at least 2 ranks: --world-size 2"
    assert names("zero1", Place("cpu", "fp32", 2)) == ["zero1"]


def test_other_work_is_compared_for_a_sample_alone() -> None:
    assert names("batch:size=8,seq:len=64") == []
    assert names("batch:size=8,seq:len=64", goal="cost") == ["batch:size=8"]


def test_a_risk_is_the_loosest_of_all() -> None:
    def of(text: str) -> tuple[bool, float | None]:
        (specs,) = parse_variants(text)
        found = risk(candidate(specs).techniques)
        return found.comparable, found.tolerance

    assert of("ckpt") == (True, 1e-5)
    assert of("amp+ckpt") == (True, 0.0625)
    assert of("amp+lora") == (False, None)
