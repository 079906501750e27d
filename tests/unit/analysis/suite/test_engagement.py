import pytest

from perfkit.analysis.suite.engagement import check_claims, is_engaged, is_engaged_in_part
from perfkit.analysis.trace.roofline.fact_bounds import Fact, FactBounds
from perfkit.core.record.claim import Claim, Relation
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import claim


def check(one: Claim, *facts: dict[str, Fact], baseline: dict[str, Fact] | None = None, **notes: str):
    (result,) = check_claims([one], facts, baseline, notes)
    return result


@pytest.mark.parametrize(
    ("relation", "value", "tolerance", "holds"),
    [
        (Relation.AT_LEAST, 100, 0, True),
        (Relation.AT_LEAST, 101, 0, False),
        (Relation.AT_MOST, 100, 0, True),
        (Relation.AT_MOST, 99, 0, False),
        (Relation.EQUAL, 100, 0, True),
        (Relation.EQUAL, 101, 0, False),
        (Relation.EQUAL, 101, 0.02, True),
    ],
)
def test_relations(relation: Relation, value: float, tolerance: float, holds: bool) -> None:
    assert check(claim("graphs", relation, value, tolerance=tolerance), {"graphs": 100.0}).holds is holds


def test_relative_to_a_fact_of_the_same_record() -> None:
    half = claim("saved_tensor_bytes", Relation.AT_MOST, 0.5, relative_to="reference_saved_tensor_bytes")
    result = check(half, {"saved_tensor_bytes": 1024.0, "reference_saved_tensor_bytes": 4096.0})
    assert (result.holds, result.expected, result.measured) == (True, 2048.0, 1024.0)
    assert list_figures(result.evidence) == ['1.00 KiB', '2.00 KiB', '0.500 x', '4.00 KiB']  # fmt: skip


def test_flops_have_their_unit() -> None:
    again = claim("recomputed_flops", Relation.AT_LEAST, 0.1, relative_to="block_flops")
    result = check(again, {"recomputed_flops": 2e9, "block_flops": 4e9})
    assert list_figures(result.evidence) == ["2.00 GFLOP", "400 MFLOP", "0.100 x", "4.00 GFLOP"]


def test_relative_to_the_baseline() -> None:
    half = claim("optimizer_state_bytes", Relation.EQUAL, 0.5, relative_to="baseline", tolerance=0.02)
    assert check(half, {"optimizer_state_bytes": 505.0}, baseline={"optimizer_state_bytes": 1000.0}).holds is True
    assert check(half, {"optimizer_state_bytes": 1000.0}, baseline={"optimizer_state_bytes": 1000.0}).holds is False
    for baseline, reason in ((None, "no baseline run"), ({}, "the baseline lacks optimizer_state_bytes")):
        result = check(half, {"optimizer_state_bytes": 505.0}, baseline=baseline)
        assert result.holds is None
        assert reason in result.evidence


FLASH = claim("op_calls:aten::flash", Relation.AT_LEAST, 1, technique="flash")
SHARD = claim("optimizer_state_bytes", Relation.AT_MOST, 0.5, technique="zero1", relative_to="baseline")
REDUCES = claim("op_calls:all_reduce", Relation.AT_LEAST, 1, technique="zero1")


@pytest.mark.parametrize(
    ("claims", "facts"),
    [
        ([FLASH], {"op_calls:aten::flash": 12.0}),
        ([SHARD, REDUCES], {"optimizer_state_bytes": 0.0, "op_calls:all_reduce": 4.0}),
    ],
)
def test_what_is_so_in_the_baseline_is_no_change(claims: list[Claim], facts: dict[str, Fact]) -> None:
    results = check_claims(claims, [facts], facts, {})
    assert is_engaged(results) is False
    assert all(result.holds_in_baseline and result.outcome == "already true" for result in results)
    shared = check_claims(claims, [facts], facts, {}, shared={claims[0].technique})
    assert (is_engaged(shared), [result.holds_in_baseline for result in shared]) == (True, [False] * len(claims))


def test_one_change_shows_that_a_technique_acts() -> None:
    base: dict[str, Fact] = {"optimizer_state_bytes": 1000.0, "op_calls:all_reduce": 4.0, "op_calls:aten::flash": 0.0}
    ours = {**base, "optimizer_state_bytes": 500.0}
    assert is_engaged(check_claims([SHARD, REDUCES], [ours], base, {})) is True
    (failed,) = check_claims([FLASH], [ours], base, {})
    assert (failed.holds, failed.holds_in_baseline, failed.outcome) == (False, False, "not active")


def test_a_baseline_without_the_fact_shows_nothing_to_be_so_already() -> None:
    assert is_engaged(check_claims([FLASH], [{"op_calls:aten::flash": 12.0}], {}, {})) is True


def test_the_worst_rank_decides() -> None:
    at_most = claim("optimizer_state_bytes", Relation.AT_MOST, 100)
    result = check(at_most, {"optimizer_state_bytes": 100.0}, {"optimizer_state_bytes": 200.0})
    assert (result.holds, result.outcome, result.measured) == (False, "not active", 200.0)
    assert "(rank 1 of 2)" in result.evidence
    assert check(at_most, {"optimizer_state_bytes": 100.0}, {}).holds is None


def test_a_missing_fact_is_undecided_and_a_note_is_shown() -> None:
    assert check(claim("graphs", Relation.AT_LEAST, 1), {}).outcome == "unknown"
    assert check(claim("graphs", Relation.AT_LEAST, 1)).holds is None
    noted = check(claim("graph_breaks", Relation.EQUAL, 0), {"graph_breaks": 2.0}, graph_breaks="print() in forward")
    assert list_figures(noted.evidence) == ["2", "0"]
    assert noted.evidence.endswith("; print() in forward")


def test_engaged_needs_every_claim() -> None:
    good = check(claim("graphs", Relation.AT_LEAST, 1), {"graphs": 1.0})
    bad = check(claim("graphs", Relation.AT_LEAST, 2), {"graphs": 1.0})
    open_ = check(claim("graphs", Relation.AT_LEAST, 2), {})
    assert is_engaged([good, good]) is True
    assert is_engaged([good, open_]) is None
    assert is_engaged([good, open_, bad]) is False
    assert is_engaged([]) is None


@pytest.mark.parametrize(
    ("relation", "value", "holds"),
    [
        (Relation.AT_LEAST, 2, True),
        (Relation.AT_LEAST, 3, None),
        (Relation.AT_LEAST, 6, False),
        (Relation.AT_MOST, 5, True),
        (Relation.AT_MOST, 4, None),
        (Relation.AT_MOST, 1, False),
        (Relation.EQUAL, 3, None),
        (Relation.EQUAL, 1, False),
        (Relation.EQUAL, 6, False),
    ],
)
def test_bounds_decide_where_all_between_them_agrees(relation: Relation, value: float, holds: bool | None) -> None:
    result = check(claim("op_calls:a", relation, value), {"op_calls:a": FactBounds(2, 5, "three are unclear")})
    assert (result.holds, result.measured) == (holds, 2)
    assert result.outcome == {True: "active", False: "not active", None: "unknown"}[holds]
    assert {"2", "5"} <= {*list_figures(result.evidence)}
    assert result.evidence.endswith("; three are unclear")


def test_nothing_is_relative_to_a_fact_that_has_bounds() -> None:
    half = claim("optimizer_state_bytes", Relation.AT_MOST, 0.5, relative_to="baseline")
    unclear = FactBounds(0, 9, "nobody knows")
    result = check(half, {"optimizer_state_bytes": 1.0}, baseline={"optimizer_state_bytes": unclear})
    assert result.holds is None
    assert list_figures(result.evidence)[-1:] == ["1 B"]


def test_the_time_of_products_stands_for_their_flops() -> None:
    share = claim("matmul_flops_share:bf16", Relation.AT_LEAST, 0.9)
    by_time = check(share, {"matmul_time_share:bf16": 0.95})
    assert by_time.holds is True
    assert list_figures(by_time.evidence) == ["95.0 %", "90.0 %"]
    assert check(share, {"matmul_time_share:bf16": 0.1, "matmul_flops_share:bf16": 0.95}).holds is True
    assert check(share, {"matmul_time_share:fp16": 0.95}).holds is None


WHOLE = claim("fused_calls", Relation.AT_LEAST, 1, relative_to="calls", whole=True, technique="flash")


@pytest.mark.parametrize(
    ("fused", "calls", "outcome"),
    [
        (12.0, 12.0, "active"),
        (11.0, 12.0, "active"),
        (10.0, 12.0, "in part"),
        (1.0, 12.0, "in part"),
        (0.0, 12.0, "not active"),
        (0.0, 0.0, "not active"),
        (FactBounds(2.0, 12.0, ""), 12.0, "unknown"),
        (FactBounds(2.0, 5.0, ""), 12.0, "in part"),
    ],
)
def test_a_part_of_a_whole_is_not_credited(fused: Fact, calls: float, outcome: str) -> None:
    result = check(WHOLE, {"fused_calls": fused, "calls": calls})
    assert (result.outcome, result.expected) == (outcome, calls)
    assert is_engaged([result]) is {"active": True, "unknown": None}.get(outcome, False)
    assert is_engaged_in_part([result]) is (outcome == "in part")


def test_a_part_that_the_baseline_has_too_is_no_effect() -> None:
    before = {"fused_calls": 3.0, "calls": 12.0}
    assert check(WHOLE, {"fused_calls": 6.0, "calls": 24.0}, baseline=before).outcome == "not active"
    assert check(WHOLE, {"fused_calls": 4.0, "calls": 12.0}, baseline=before).outcome == "in part"
    assert check(WHOLE, {"fused_calls": 12.0, "calls": 12.0}, baseline=before).outcome == "active"


def test_the_worst_rank_counts_and_a_failed_claim_outweighs_one_in_part() -> None:
    part, none = {"fused_calls": 5.0, "calls": 12.0}, {"fused_calls": 0.0, "calls": 12.0}
    assert check(WHOLE, {"fused_calls": 12.0, "calls": 12.0}, part).outcome == "in part"
    assert check(WHOLE, part, none).outcome == "not active"
    results = check_claims([WHOLE, FLASH], [{**part, "op_calls:aten::flash": 0.0}], None, {})
    assert (is_engaged(results), is_engaged_in_part(results)) == (False, False)


def test_a_part_is_counted_first() -> None:
    whole = Claim(
        technique="flash",
        statement="attention is fused",
        fact="fused_attention_calls",
        relation=Relation.AT_LEAST,
        value=1.0,
        relative_to="all_attention_calls",
        whole=True,
        counted="attention calls",
    )
    result = check(whole, {"fused_attention_calls": 3.0, "all_attention_calls": 12.0})
    assert (result.outcome, list_figures(result.evidence)[:2]) == ("in part", ["3", "12"])
    assert "attention calls" in result.evidence
