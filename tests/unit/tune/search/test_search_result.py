"""Why a search ends, what it leaves undecided, and what its proof says."""

import pytest

from perfkit.tune.model.tune_result import Proof, Trial
from perfkit.tune.search.search_result import conclude_search, explain_end, find_best_single
from tests.fixtures.figures import list_figures


def make_trial(
    variant: str, outcome: str, ratio: float, low: float, high: float, base: str = "", pairs: int = 4
) -> Trial:
    return Trial(
        stage=1, variant=variant, base=base, outcome=outcome, reason="", ratio=ratio, low=low, high=high,  # type: ignore[arg-type]
        gain_ratio=ratio, gain_low=low, gain_high=high, pairs=pairs, peak_bytes=1.0,
    )  # fmt: skip


def test_an_end_names_what_more_rounds_would_decide() -> None:
    trials = [
        make_trial("amp", "accepted", 0.5, 0.45, 0.55),
        make_trial("flash", "undecided", 0.9, 0.8, 1.01),  # of the stage before
        make_trial("amp+flash", "undecided", 0.9, 0.81, 1.0, "amp"),
        make_trial("amp+inplace", "undecided", 0.9, 0.72, 1.125, "amp"),
        make_trial("amp+ckpt", "undecided", 1.1, 0.9, 1.3, "amp"),  # may not improve
    ]
    end = explain_end(trials, ["amp+flash"])
    assert ("amp+flash" in end, "amp+inplace" in end, "amp+ckpt" in end, " flash" in end) == (True, True, False, False)
    # The interval of amp+flash is as wide as its gain; that of amp+inplace 2.1 times, which takes 4.5 times the rounds.
    assert list_figures(end) == ["1", "14"]
    assert list_figures(explain_end(trials[:1], ())) == []


def test_the_best_technique_alone_is_one_that_extends_nothing() -> None:
    trials = [
        make_trial("amp", "improves", 0.6, 0.5, 0.7),
        make_trial("bf16", "accepted", 0.5, 0.4, 0.6),
        make_trial("amp+flash", "improves", 0.4, 0.3, 0.5),  # together
        make_trial("bf16+flash", "accepted", 0.3, 0.2, 0.4, "bf16"),
    ]
    assert find_best_single(trials, "time") == "bf16"
    assert find_best_single([], "time") == ""


@pytest.mark.parametrize(
    ("best", "proof", "conclusion"),
    [
        ("", None, "no gain"),
        ("amp", None, "not proven"),
        ("amp", {}, "proven"),
        ("amp", {"verdict": "inconclusive"}, "not proven"),
        ("amp", {"parity": "differs"}, "not proven"),
        ("amp", {"active": False}, "not proven"),
    ],
)
def test_a_proof_holds_if_it_is_faster_with_its_losses(
    best: str, proof: dict[str, object] | None, conclusion: str
) -> None:
    fields = {
        "ratio": 0.5, "low": 0.4, "high": 0.6, "verdict": "faster", "pairs": 4, "step_s": 1.0, "baseline_step_s": 2.0,
        "peak_bytes": 1.0, "baseline_peak_bytes": 1.0, "parity": "equal", "largest_difference": 0.0, "tolerance": 0.1,
        "active": True,
    }  # fmt: skip
    made = None if proof is None else Proof(**(fields | proof))  # type: ignore[arg-type]
    assert conclude_search("time", best, made, refused=("differs",)) == conclusion
