import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import TechniqueSpec, format_variant_label
from perfkit_cli.options import variants
from perfkit_cli.options.variants import combine_variants, parse_named_variants

CLASHING = {frozenset({"tall", "short"})}


def imaginary_compose(techniques: tuple[TechniqueSpec, ...]) -> tuple[TechniqueSpec, ...]:
    """`tall` and `short` clash, `wrong` does not exist, everything else goes together."""
    names = {technique.name for technique in techniques}
    if "wrong" in names:
        raise UsageError("unknown technique 'wrong'")
    for pair in CLASHING:
        if pair <= names:
            raise UsageError("tall and short clash")
    return techniques


@pytest.fixture(autouse=True)
def _compose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "compose_techniques", imaginary_compose)


def labels(text: str) -> tuple[list[str], list[str]]:
    made, left_out = combine_variants(parse_named_variants(text))
    return [format_variant_label(variant) for variant in made], [item.variant for item in left_out]


def test_all_combinations_are_every_union_of_the_named_ones() -> None:
    made, left_out = labels("a,b,c")
    assert made == ["a", "b", "c", "a+b", "a+c", "b+c", "a+b+c"]
    assert left_out == []


def test_unions_that_clash_are_left_out_with_the_clash() -> None:
    _, left_out = combine_variants(parse_named_variants("tall,short,a"))
    assert [item.variant for item in left_out] == ["tall+short", "tall+short+a"]
    assert all({"tall", "short"} <= set(item.reason.split()) for item in left_out)
    assert labels("tall,short,a")[0] == ["tall", "short", "a", "tall+a", "short+a"]


def test_what_cannot_act_here_is_in_no_union_and_told_once() -> None:
    named = parse_named_variants("a,b,c,b+d")
    made, left_out = combine_variants(named, lambda technique: "needs a GPU" if technique.name == "b" else "")
    assert [format_variant_label(variant) for variant in made] == ["a", "b", "c", "b+d", "a+c"]
    assert left_out == (("combinations with b", "needs a GPU"), ("combinations with b+d", "needs a GPU"))


def test_one_technique_with_two_settings_makes_no_union_of_its_own() -> None:
    assert labels("a:k=1,a:k=2,b") == (["a:k=1", "a:k=2", "b", "a:k=1+b", "a:k=2+b"], [])


def test_a_named_combination_joins_without_repeating_its_parts() -> None:
    assert labels("a,a+b") == (["a", "a+b"], [])


def test_the_baseline_is_combined_with_nothing() -> None:
    assert labels("baseline,a") == (["baseline", "a"], [])


@pytest.mark.parametrize(("text", "names"), [("a,tall+short", ("tall", "short")), ("wrong", ("'wrong'",))])
def test_what_is_named_must_be_possible(text: str, names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        parse_named_variants(text)
    assert all(name in str(error.value) for name in names)
