"""What is combined where compiled steps are dear to plan, on estimates that are added up by hand."""

from collections.abc import Mapping

import pytest

from perfkit.analysis.model.plan import Interval
from perfkit.core.spec import format_variant_label, parse_variants
from perfkit.plan.advise.advice import TimeSaving
from perfkit.plan.advise.candidates import Techniques, make_candidate
from perfkit.plan.advise.combine_to_fit import combine_to_fit
from perfkit.plan.advise.estimates import VariantEstimate, VariantEstimates
from perfkit.plan.advise.judge import Judge, Worth

NOT_PLANNED = VariantEstimate(None, None, None)


class Estimates(VariantEstimates):
    """Seconds saved by combination, that of others the sum; `asked` are those that were estimated."""

    def __init__(self, saved: Mapping[str, float | None]) -> None:
        self.saved, self.asked = saved, [""]

    def estimate_variant(self, specs: Techniques) -> VariantEstimate:
        name = format_variant_label(specs)
        self.asked.append(name)
        saved = self.saved.get(name, sum(self.saved[spec.label] or 0.0 for spec in specs))
        if saved is None:
            return NOT_PLANNED
        time = TimeSaving(value=saved, low=saved, high=saved, bound="interval", basis="planned")
        return VariantEstimate(time, Interval(value=1.0, low=1.0, high=1.0), None)


def combine(saved: Mapping[str, float | None], *names: str) -> tuple[str, list[str], list[str]]:
    """The best combination, what clashes with it, and the combinations with compiled code that were estimated."""
    estimates = Estimates(saved)
    candidates = [make_candidate(specs) for specs in parse_variants(",".join(names))]
    found = combine_to_fit(candidates, estimates, Judge("time", None, Worth(0.0, 0.1)))
    joined = sorted({name for name in estimates.asked if "compile" in name and "+" in name})
    return format_variant_label(found.specs), [clash.name for clash in found.clashes], joined


def test_compiled_code_joins_the_best_combination_of_the_others() -> None:
    best, clashes, joined = combine(
        {"compile": 4, "amp": 3, "flash": 2, "liger": -1}, "compile", "amp", "flash", "liger"
    )
    assert (best, clashes, joined) == ("amp+flash+compile", [], ["amp+flash+compile"])


def test_the_first_that_can_be_planned_beside_the_others_is_joined() -> None:
    saved = {"compile": 4, "compile:scope=block": 3, "amp": 3, "amp+compile": None}
    best, _, joined = combine(saved, "compile", "compile:scope=block", "amp")
    assert best == "amp+compile:scope=block"
    assert joined == ["amp+compile", "amp+compile:scope=block"]


@pytest.mark.parametrize(("together", "best"), [(2.0, "amp"), (5.0, "amp+compile"), (4.0, "compile")])
def test_what_gains_as_much_alone_is_alone(together: float, best: str) -> None:
    saved = {"compile": 4.0 if together > 2 else 1.0, "amp": 3.0, "amp+compile": together}
    assert combine(saved, "compile", "amp")[0] == best


def test_where_compiled_code_is_better_than_all_it_cannot_join_it_is_begun_with() -> None:
    refused = dict.fromkeys(("amp+flash+compile", "compile+amp", "compile+flash+amp"))
    saved = {"compile": 9, "amp": 3, "flash": 2, **refused}
    assert combine(saved, "compile", "amp", "flash")[0] == "compile+flash"


@pytest.mark.parametrize(("exchanged", "best"), [(9.0, "lora+ckpt"), (5.0, "offload+lora")])
def test_what_saves_activations_is_exchanged_where_another_gains_more_beside_the_rest(
    exchanged: float, best: str
) -> None:
    together = {"offload+lora": 6, "offload+ckpt": 1, "offload+lora+ckpt": 6}
    saved = {"offload": 3, "ckpt": 2, "lora": 2, "lora+ckpt": exchanged, **together}
    assert combine(saved, "offload", "lora", "ckpt")[0] == best


@pytest.mark.parametrize(("limit", "joined"), [(1.0, ["amp+compile"]), (0.5, [])])
def test_compiled_code_is_not_planned_where_it_cannot_make_the_rest_fit(limit: float, joined: list[str]) -> None:
    estimates = Estimates({"compile": 4, "amp": 3})
    candidates = [make_candidate(specs) for specs in parse_variants("compile,amp")]
    combine_to_fit(candidates, estimates, Judge("time", limit, Worth(0.0, 0.1)))
    assert [name for name in estimates.asked if name == "amp+compile"][:1] == joined
