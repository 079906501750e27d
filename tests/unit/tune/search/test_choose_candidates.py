"""What a stage tries, of all that may still improve."""

from perfkit.core.spec import parse_variants
from perfkit.tune.model.tune_result import Trial, TrialOutcome
from perfkit.tune.search.choose_candidates import choose_candidates, list_open_candidates
from perfkit.tune.search.rank_candidates import RankedCandidate


def make(*names: str, **fields: bool) -> list[RankedCandidate]:
    return [RankedCandidate(parse_variants(name)[0], **fields) for name in names]  # type: ignore[arg-type]


def trial(variant: str, outcome: TrialOutcome, base: str = "", gain: float = 0.9) -> Trial:
    return Trial(stage=1, variant=variant, base=base, outcome=outcome, reason="", ratio=gain, gain_ratio=gain)


def names(candidates: tuple[RankedCandidate, ...]) -> list[str]:
    return [each.name for each in candidates]


def test_what_improved_together_comes_first_then_each_then_what_may_improve() -> None:
    (best,) = parse_variants("amp")
    trials = [
        trial("amp", "accepted", gain=0.5), trial("optim:use=fused", "improves", gain=0.8),
        trial("flash", "improves", gain=0.7), trial("ckpt", "slower", gain=1.4), trial("inplace", "undecided"),
        trial("amp+compile", "undecided", "amp"),
    ]  # fmt: skip
    ranked = make("amp+inplace", "amp+ckpt", "amp+compile", "amp+optim:use=fused", "amp+flash")
    assert names(list_open_candidates(ranked, best, trials)) == [
        "amp+flash+optim:use=fused", "amp+optim:use=fused", "amp+flash", "amp+compile", "amp+inplace",
    ]  # fmt: skip


def test_what_excludes_the_accepted_technique_is_not_joined() -> None:
    (best,) = parse_variants("amp")
    trials = [trial("amp", "accepted", gain=0.5), trial("bf16", "improves", gain=0.6), trial("flash", "improves")]
    assert names(list_open_candidates((), best, trials)) == []


def test_what_was_tried_on_this_variant_without_promise_is_not_tried_again() -> None:
    trials = [trial("flash", "undecided", gain=1.01), trial("amp", "undecided", gain=0.95)]
    assert names(list_open_candidates(make("flash", "amp"), (), trials)) == ["amp"]


def test_parts_that_are_offered_alone_are_not_tried_together() -> None:
    assert names(list_open_candidates(make("amp+flash", "flash", "amp"), (), ())) == ["flash", "amp"]
    assert names(list_open_candidates(make("amp+flash", "amp"), (), ())) == ["amp+flash", "amp"]
    assert names(list_open_candidates(make("amp+flash"), (), [trial("amp", "slower"), trial("flash", "slower")])) == []


def test_of_a_new_technique_one_setting_is_tried_at_a_time_and_of_an_accepted_one_few() -> None:
    new = make("compile", "compile:scope=block", "flash", "amp")
    assert names(choose_candidates(new, (), 3)) == ["compile", "flash", "amp"]
    (best,) = parse_variants("ckpt")
    settings = make("ckpt:every=2", "ckpt:every=sqrt", "ckpt:skip=1", is_setting=True)
    assert names(choose_candidates([*settings, *make("ckpt+amp")], best, 9)) == [
        "ckpt:every=2", "ckpt:every=sqrt", "ckpt+amp",
    ]  # fmt: skip
