"""Edits are judged by rounds and by losses: nothing counts that trains differently or is not certainly faster."""

import math

import pytest

from perfkit.core.record.step_samples import StepSamples
from perfkit.tune.script.judge_edits import (
    LossComparison,
    Losses,
    LossReference,
    StepRatio,
    allows,
    compare_losses,
    compare_steps,
    explain_unseen,
    judge_ratio,
)
from perfkit.tune.script.script_rounds import RoundSteps
from perfkit.tune.script.script_run import ScriptNotes

LOSSES: Losses = ((2.0,), (1.5,), (1.2,))


def make_reference(*originals: Losses, echo: Losses | None = None) -> LossReference:
    reference = LossReference()
    reference.originals, reference.echo = list(originals), echo
    return reference


def scale(losses: Losses, *factors: float) -> Losses:
    return tuple(
        tuple(None if loss is None else loss * factor for loss in step)
        for step, factor in zip(losses, factors, strict=True)
    )


def make_round(total_s: float | None = None, **turns: tuple[float, ...]) -> dict[str, RoundSteps]:
    """A round; `total_s` is the edited variant's, by default that of its turns."""
    return {
        name: RoundSteps(StepSamples(wall_s=wall), total_s if total_s and name == "b" else sum(wall), ScriptNotes())
        for name, wall in turns.items()
    }


def test_the_ratio_of_rounds_and_its_interval() -> None:
    rounds = [make_round(a=(2.0, 2.0), b=(b, b)) for b in (1.0, 1.02, 0.98)]
    ratio = compare_steps(rounds, "b", "a", by_turns=True)
    assert ratio is not None
    assert ratio.ratio == pytest.approx(0.5, rel=1e-3)
    assert ratio.low is not None
    assert ratio.high is not None
    assert 0.45 < ratio.low < 0.5 < ratio.high < 0.55
    assert judge_ratio(ratio)[0] == "improves"
    assert judge_ratio(compare_steps(rounds, "a", "b", by_turns=True))[0] == "slower"


def test_few_rounds_decide_nothing() -> None:
    rounds = [make_round(a=(2.0,), b=(1.0,)), make_round(a=(2.0,))]
    assert judge_ratio(compare_steps(rounds, "b", "a", by_turns=True))[0] == "undecided"
    assert compare_steps(rounds, "c", "a", by_turns=True) is None
    assert judge_ratio(None)[0] == "undecided"


def test_rare_steps_count_though_medians_do_not_show_them() -> None:
    """Workers that start anew in every epoch: most steps are faster, all together are not."""
    rounds = [make_round(4.5, a=(2.0, 2.0), b=(b, b)) for b in (1.0, 1.02, 0.98)]
    assert judge_ratio(compare_steps(rounds, "b", "a", by_turns=True))[0] == "no gain"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.80, 0.90, "improves"),
        (0.97, 0.999, "improves"),
        (0.992, 0.998, "no gain"),  # certain, and not worth an edit
        (0.90, 1.02, "undecided"),
        (0.995, 1.02, "no gain"),
        (1.01, 1.02, "slower"),
    ],
)
def test_verdicts(low: float, high: float, expected: str) -> None:
    ratio = StepRatio(math.sqrt(low * high), low, high, 4, 0.9)
    assert judge_ratio(ratio)[0] == expected


def test_losses_are_compared_step_by_step() -> None:
    reference = make_reference(LOSSES, LOSSES)
    assert compare_losses(LOSSES, reference, ("optim:use=fused",)).verdict == "equal"
    apart = scale(LOSSES, 1.0, 1.0, 1.001)
    assert compare_losses(apart, reference, ("optim:use=fused",)).verdict == "differs"
    rounded = compare_losses(apart, reference, ("optim:use=fused", "amp"))
    assert rounded.verdict == "within tolerance"
    assert rounded.largest == pytest.approx(0.001)
    assert compare_losses(scale(LOSSES, 1.0, 1.0, 2.0), reference, ("amp",)).verdict == "differs"


def test_chaotic_training_may_part_by_what_a_rounding_makes_of_it() -> None:
    reference = make_reference(LOSSES, echo=scale(LOSSES, 1.0, 1.0, 1.0001))
    assert compare_losses(scale(LOSSES, 1.0, 1.0, 1.0005), reference, ("optim:use=fused",)).verdict == (
        "within tolerance"
    )
    assert compare_losses(scale(LOSSES, 1.0, 1.0005, 1.0), reference, ("optim:use=fused",)).verdict == "differs"


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (((2.0,), (1.5, 1.0), (1.2,)), "differs"),  # another number of backward passes
        (((2.0,), (math.nan,), (1.2,)), "differs"),
        ((), "unknown"),
    ],
)
def test_other_series(ours: Losses, verdict: str) -> None:
    assert compare_losses(ours, make_reference(LOSSES), ("amp",)).verdict == verdict


@pytest.mark.parametrize(
    "originals",
    [
        (),
        ((),),
        (((None,), (None,)),),  # no scalar
        (((math.inf,), (1.0,)),),
        (LOSSES, scale(LOSSES, 1.0, 1.01, 1.0)),  # no seed
    ],
)
def test_losses_that_cannot_be_compared(originals: tuple[Losses, ...]) -> None:
    reference = make_reference(*originals)
    assert explain_unseen(reference)
    compared = compare_losses(LOSSES, reference, ("optim:use=fused",))
    assert compared.verdict == "unknown"
    assert not allows(compared, ("optim:use=fused",), "any")
    assert not allows(compared, ("data", "amp"), "any")
    assert allows(compared, ("data", "leftovers"), "lossless")  # no result depends on them


def test_what_is_allowed() -> None:
    within = LossComparison("within tolerance", 1e-3, 1e-2)
    assert allows(within, ("amp",), "tolerance")
    assert not allows(within, ("amp",), "lossless")
    assert allows(within, ("optim:use=fused",), "lossless")  # a rounding's chance
    assert not allows(LossComparison("differs", 1.0, 1e-2), ("data",), "any")
