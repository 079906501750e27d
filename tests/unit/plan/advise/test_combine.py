"""What is joined with what, on options whose worth is added up by hand."""

from collections.abc import Mapping

from perfkit.core.spec import format_variant_label, parse_variants
from perfkit.plan.advise.candidates import Techniques, make_candidate
from perfkit.plan.advise.combine import CombinedTechniques, combine_techniques


def specs(text: str) -> Techniques:
    (found,) = parse_variants(text)
    return found


def joined(*ordered: str, worth: Mapping[str, float]) -> CombinedTechniques:
    """Of combinations that are not named the worth is the sum."""

    def evaluate(chosen: Techniques) -> float:
        named = worth.get(format_variant_label(chosen))
        return sum(worth[spec.label] for spec in chosen) if named is None else named

    return combine_techniques(
        [make_candidate(specs(text)) for text in ordered], evaluate, lambda one, other: one > other + 0.5
    )


def test_what_helps_beside_the_others_is_joined() -> None:
    found = joined("amp", "flash", "ckpt", worth={"amp": 5, "flash": 2, "ckpt": -3})
    assert format_variant_label(found.specs) == "amp+flash"
    assert found.clashes == ()


def test_of_what_clashes_the_better_stays_and_the_reason_is_told() -> None:
    found = joined("bf16", "amp", "flash", worth={"bf16": 6, "amp": 5, "flash": 2})
    assert format_variant_label(found.specs) == "bf16+flash"
    (clash,) = found.clashes
    assert clash.name == "amp"
    assert "autocast" in clash.reason


def test_gains_about_the_same_time_do_not_add_up() -> None:
    worth = {"compile": 4.0, "flash": 3.0, "compile+flash": 4.2}
    assert format_variant_label(joined("compile", "flash", worth=worth).specs) == "compile"


def test_what_is_not_worth_it_beside_later_ones_goes_again() -> None:
    worth = {"compile": 4.0, "amp": 3.0, "flash": 2.0, "compile+amp": 7.0, "compile+amp+flash": 9.0, "amp+flash": 9.0}
    assert format_variant_label(joined("compile", "amp", "flash", worth=worth).specs) == "amp+flash"


def test_one_technique_is_not_joined_with_itself_in_other_words() -> None:
    found = joined("bf16:update=nearest", "bf16", worth={"bf16:update=nearest": 3, "bf16": 2})
    assert format_variant_label(found.specs) == "bf16:update=nearest"
    assert found.clashes == ()


def test_nothing_helps() -> None:
    assert joined("ckpt", worth={"ckpt": -3}).specs == ()


def test_a_variant_of_two_is_joined_by_what_is_new_in_it() -> None:
    found = joined("amp", "amp+flash", worth={"amp": 5, "amp+flash": 7, "flash": 2})
    assert format_variant_label(found.specs) == "amp+flash"
