"""What reproduces a printed figure."""

from typing import Any

import pytest

from perfkit.mfu.audit import audit_mfu
from perfkit.mfu.audit_model import MfuClaim

LLAMA: dict[str, Any] = {"model": "llama-3-8b", "seq_len": 8192, "gpu": "h100", "gpus": 8, "accumulation": 4}
N, LOOKUP, PAIRS = 8030261248, 128256 * 4096, 32 * 4096 * 8192
TITAN = 6 * (N - LOOKUP) + 12 * PAIRS  # torchtitan's


def explain(claimed: str | float, **options: Any) -> MfuClaim:
    claim = audit_mfu(**{**LLAMA, "tokens_per_s": 8 * 5000.0, **options}, claimed=claimed).claim
    assert claim is not None
    return claim


def found(claim: MfuClaim) -> set[tuple[str, str]]:
    return {(match.convention, match.mistake.id if match.mistake else "") for match in claim.matches}


def test_a_convention_comes_before_a_mistake() -> None:
    claim = explain(f"{TITAN * 5000 / 989.4e12:.4%}")
    assert claim.matches[0].convention == "torchtitan"
    assert claim.matches[0].mistake is None
    assert [match.mistake is None for match in claim.matches] == sorted(
        (match.mistake is None for match in claim.matches), reverse=True
    )


@pytest.mark.parametrize(
    ("mistake", "factor"),
    [
        ("peak.sparse", 1 / 2),
        ("peak.a100-sxm-80gb", 989.4 / 312),
        ("peak.h100-nvl", 989.4 / 835.5),
        ("gpus.one_peak", 8),
        ("gpus.all_peaks", 1 / 8),
        ("accumulation.twice", 4),
        ("accumulation.once", 1 / 4),
        ("forward_only", 1 / 3),
        ("attention.twice", (TITAN + 12 * PAIRS) / TITAN),
        ("params.sharded", (6 * (N - LOOKUP) / 8 + 12 * PAIRS) / TITAN),
    ],
)
def test_each_mistake_is_named(mistake: str, factor: float) -> None:
    share = TITAN * 5000 / 989.4e12
    claim = explain(share * factor)
    assert ("torchtitan", mistake) in found(claim)
    match = next(each for each in claim.matches if each.convention == "torchtitan" and each.mistake is not None)
    assert match.corrected == pytest.approx(share)


def test_experts_that_a_token_does_not_pass() -> None:
    claim = explain((6 * 46702792704 + 12 * 32 * 4096 * 4096) * 5000 / 989.4e12, model="mixtral-8x7b", seq_len=4096)
    assert ("palm", "experts.all") in found(claim)


def test_flops_need_no_peak() -> None:
    rate = explain("289.6TFLOP/s", gpu=None)
    assert ("torchtitan", "") in found(rate)
    assert not any(match.mistake and match.mistake.id.startswith("peak") for match in rate.matches)
    per_token = explain("57.91GFLOP", gpu=None, tokens_per_s=None)
    assert ("torchtitan", "") in found(per_token)


def test_what_nothing_gives_has_the_nearest_ways() -> None:
    claim = explain("99.99%")
    assert claim.matches == ()
    assert len(claim.nearest) == 3
    assert abs(claim.nearest[0].difference) <= abs(claim.nearest[1].difference)


def test_few_digits_are_said_to_match_by_chance() -> None:
    assert explain("29.27%").by_chance < 0.5 < explain("29%").by_chance


def test_tolerance_is_of_all_figures_given() -> None:
    exact = explain("29.27%")
    written = explain("29.27%", tokens_per_s="40k")
    assert exact.tolerance == pytest.approx(0.005 / 29.27 + 0.0006)
    assert written.tolerance == pytest.approx(exact.tolerance + 0.5 / 40)
