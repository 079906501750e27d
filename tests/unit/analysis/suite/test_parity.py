import pytest

from perfkit.analysis.suite.parity import OTHER_UPDATES, SEEDED, check_parity, compare_gradients
from perfkit.core.record.claim import ParityRule
from perfkit.core.record.rank_record import RankRecord
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, spec

RULE = ParityRule(relative=0.01, basis="rounding of bf16")


@pytest.mark.parametrize(
    ("losses", "verdict", "worst"),
    [
        ((3.0, 2.0, 1.0), "equal", 0.0),
        ((3.0, 2.00001, 1.0), "equal", 5e-6),
        ((3.0, 2.0, 1.005), "within tolerance", 0.005),
        ((3.0, 2.2, 1.0), "differs", 0.1),
    ],
)
def test_verdict_by_the_largest_relative_difference(losses: tuple[float, ...], verdict: str, worst: float) -> None:
    result = check_parity(record(losses=losses, parity=RULE), spec("amp"), record(), spec())
    assert result.verdict == verdict
    assert result.max_relative == pytest.approx(worst)
    assert (result.tolerance, result.basis, result.steps) == (0.01, "rounding of bf16", 3)


def test_a_technique_that_trains_another_function_is_not_comparable_but_must_stay_finite() -> None:
    other = ParityRule(relative=None, basis="only the adapters are trained")
    result = check_parity(record(losses=(3.0, 2.9, 2.8), parity=other), spec("amp"), record(), spec())
    assert (result.verdict, result.max_relative, result.basis) == ("not comparable", None, other.basis)
    broken = check_parity(record(losses=(3.0, None, 1.0), parity=other), spec("amp"), record(), spec())
    assert broken.verdict == "differs"


def test_skipped_updates_are_named_as_the_cause() -> None:
    skipping = record(losses=(3.0, 3.0, 2.0), parity=RULE, facts={"skipped_updates_compared": 1.0})
    result = check_parity(skipping, spec("amp"), record(), spec())
    assert result.verdict == "differs"
    basis, cause = result.basis.split("; ")
    assert basis == "rounding of bf16"
    assert "scaler skipped 1 " in cause


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"random_forward": 1.0, "graphs": 2.0}, "not comparable"),
        ({"random_forward": 1.0}, "differs"),  # techniques that compile nothing draw the baseline's numbers
        ({"random_forward": 1.0, "graphs": 0.0}, "differs"),
        ({"random_forward": 0.0, "graphs": 2.0}, "differs"),
    ],
)
def test_compiled_code_draws_other_random_numbers(facts: dict[str, float], verdict: str) -> None:
    result = check_parity(record(losses=(3.0, 2.5, 1.0), parity=RULE, facts=facts), spec("compile"), record(), spec())
    assert result.verdict == verdict
    assert ("compiled code draws" in result.basis) == (verdict == "not comparable")
    alike = check_parity(record(losses=(3.0, 2.0, 1.0), parity=RULE, facts=facts), spec("compile"), record(), spec())
    assert alike.verdict == "equal"


def test_updates_that_draw_random_numbers_leave_others_to_the_forward() -> None:
    """Of a model that draws some itself: without dropout its losses must follow the baseline's."""
    for forward, verdict in ((1.0, "not comparable"), (0.0, "differs")):
        facts = {"random_forward": forward, "random_updates": 1.0}
        result = check_parity(record(losses=(3.0, 2.5, 1.0), parity=RULE, facts=facts), spec("bf16"), record(), spec())
        assert result.verdict == verdict
        assert (result.basis == OTHER_UPDATES) == (verdict == "not comparable")


def test_only_the_scheduled_steps_count() -> None:
    result = check_parity(
        record(losses=(3.0, 2.0, 1.0, 99.0), parity=RULE), spec("amp"), record(losses=(3.0, 2.0, 1.0, 1.0)), spec()
    )
    assert (result.verdict, result.steps) == ("equal", 3)


def test_a_loss_that_is_not_finite_differs() -> None:
    result = check_parity(record(losses=(3.0, None, 1.0), parity=RULE), spec("amp"), record(), spec())
    assert (result.verdict, result.max_relative) == ("differs", None)
    assert {"2"} <= {*list_figures(result.basis)}
    assert result.not_finite_step == 2


def test_any_step_must_be_finite_whatever_there_is_to_compare_with() -> None:
    late = (3.0, 2.0, 1.0, None)
    assert check_parity(record(losses=late, parity=RULE), spec("amp"), record(losses=late), spec()).not_finite_step == 4
    assert check_parity(record(losses=(None,)), spec("amp"), None, None).verdict == "differs"
    fine = check_parity(record(parity=RULE), spec("amp"), record(losses=(None, None, None)), spec())
    assert (fine.verdict, fine.not_finite_step) == ("unknown", None)


@pytest.mark.parametrize(
    ("variant", "baseline", "reason"),
    [
        (spec("amp", world_size=2), spec(), "world size (1, here 2)"),
        (spec("amp", seed=1), spec(), "seed"),
        (spec("amp", accumulation=4), spec(), "accumulation"),
    ],
)
def test_other_training_is_not_compared(variant, baseline, reason: str) -> None:
    result = check_parity(record(parity=RULE), variant, record(), baseline)
    assert result.verdict == "unknown"
    assert reason in result.basis


def test_unknown_without_baseline_losses_or_tolerance() -> None:
    assert check_parity(record(), spec("amp"), None, None).verdict == "unknown"
    assert "recorded no losses" in check_parity(record(losses=()), spec("amp"), record(), spec()).basis
    assert "no tolerance" in check_parity(record(losses=(3.0, 2.0, 1.5)), spec("amp"), record(), spec()).basis
    assert {"1"} <= {*list_figures(check_parity(record(), spec("amp"), record(losses=(None, 2.0)), spec()).basis)}


def test_the_comparison_ends_where_the_baseline_leaves_its_own_echo() -> None:
    chaotic = record(losses=(3.0, 2.0, 1.0), perturbed_losses=(3.0, 2.000001, 1.4))  # off by 0, 5e-7 and 0.4
    result = check_parity(record(losses=(3.0, 2.0, 1.4), parity=RULE), spec("amp"), chaotic, spec())
    assert (result.verdict, result.steps, result.recorded_steps) == ("equal", 2, 3)
    assert list_figures(result.basis)[:2] == ["2", "3"]
    calm = check_parity(record(losses=(3.0, 2.0, 1.0), parity=RULE), spec("amp"), record(), spec())
    assert (calm.steps, calm.recorded_steps) == (3, 3)


def test_a_wrong_loss_within_the_predictable_steps_differs() -> None:
    chaotic = record(losses=(3.0, 2.0, 1.0), perturbed_losses=(3.0, 2.0, 1.4))
    assert check_parity(record(losses=(3.0, 2.2, 1.0), parity=RULE), spec("amp"), chaotic, spec()).verdict == "differs"


def test_the_first_step_always_counts() -> None:
    wild = record(losses=(3.0, 2.0, 1.0), perturbed_losses=(3.1, None, 1.4))
    result = check_parity(record(losses=(3.3, 2.0, 1.0), parity=RULE), spec("amp"), wild, spec())
    assert (result.verdict, result.steps) == ("differs", 1)
    assert list_figures(result.basis)[:2] == ["1", "3"]


def test_compiled_code_is_compared_by_what_it_does_with_the_random_numbers_of_eager_code() -> None:
    drawn = {"random_forward": 1.0, "graphs": 2.0}
    same = record(losses=(3.3, 2.2, 1.1), seeded_losses=(3.0, 2.0, 1.0), facts=drawn, parity=RULE)
    result = check_parity(same, spec("compile"), record(), spec())
    assert (result.verdict, result.max_relative) == ("equal", 0.0)
    assert SEEDED in result.basis
    wrong = record(losses=(3.0, 2.0, 1.0), seeded_losses=(3.0, 2.2, 1.0), facts=drawn, parity=RULE)
    assert check_parity(wrong, spec("compile"), record(), spec()).verdict == "differs"
    broken = record(losses=(3.0, 2.0, 1.0), seeded_losses=(3.0, None, 1.0), facts=drawn, parity=RULE)
    assert {"2"} <= {*list_figures(check_parity(broken, spec("compile"), record(), spec()).basis)}


@pytest.mark.parametrize(
    ("norm", "ours", "verdict"),
    [
        ("gradient_norm", 6.0, "differs"),  # sums of three microbatches, which Adam divides away
        ("gradient_norm", 2.07, "equal"),  # within four times the technique's tolerance
        ("gradient_norm", 2.09, "differs"),
        ("buffer_norm", 2.5, "differs"),
        ("buffer_norm", 2.01, "equal"),  # within the technique's tolerance
    ],
)
def test_equal_losses_do_not_hide_other_gradients_and_buffers(norm: str, ours: float, verdict: str) -> None:
    result = check_parity(record(parity=RULE, facts={norm: ours}), spec("amp"), record(facts={norm: 2.0}), spec())
    assert result.verdict == verdict
    ratio = {"gradient_norm": result.gradient_ratio, "buffer_norm": result.buffer_ratio}[norm]
    assert ratio == (ours / 2.0 if verdict == "differs" else None)


@pytest.mark.parametrize(("ours", "verdict"), [(5.004, "equal"), (5.007, "differs"), (4.99, "differs")])
def test_gradients_of_a_lossless_technique_have_the_norm_of_the_baseline(ours: float, verdict: str) -> None:
    lossless = ParityRule(relative=1e-5, basis="lossless")
    variant, baseline = (record(parity=lossless, facts={"gradient_norm": norm}) for norm in (ours, 5.0))
    assert check_parity(variant, spec("ckpt"), baseline, spec()).verdict == verdict


def make_ranks(*norms: tuple[float, float]) -> list[RankRecord]:
    """Ranks with these norms of gradients, and these shares of the norm over all."""
    facts = [{"gradient_norm": norm, "gradient_norm_share": share} for norm, share in norms]
    return [record(rank=rank, world_size=len(norms), parity=RULE, facts=each) for rank, each in enumerate(facts)]


WHOLE = 0.5**0.5  # of two ranks with the same gradients


def test_a_rank_with_other_gradients_is_named() -> None:
    baseline = make_ranks((2.0, 2 * WHOLE), (2.0, 2 * WHOLE))
    ours = make_ranks((2.01, 2.01 * WHOLE), (4.0, 4 * WHOLE))
    gradients = compare_gradients(ours, baseline)
    found = [
        check_parity(mine, spec("ddp"), theirs, spec(), gradients) for mine, theirs in zip(ours, baseline, strict=True)
    ]
    assert [(one.verdict, one.gradient_ratio, one.gradient_rank) for one in found] == [
        ("equal", None, None),
        ("differs", 2.0, 1),
    ]


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "equal"), (2.0, "differs")])
def test_shards_are_compared_together(scale: float, verdict: str) -> None:
    baseline = make_ranks((5.0, 5 * WHOLE), (5.0, 5 * WHOLE))
    ours = make_ranks((3.0 * scale, 3.0 * scale), (4.0 * scale, 4.0 * scale))
    result = check_parity(ours[0], spec("zero3"), baseline[0], spec(), compare_gradients(ours, baseline))
    assert (result.verdict, result.gradient_rank) == (verdict, None)
    assert compare_gradients(ours[:1], baseline).ratios == {}
