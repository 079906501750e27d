import pytest

from perfkit.analysis.model.estimate import Difference
from perfkit.analysis.suite.compile_cost import describe_break_even, summarize_compile
from perfkit.core.record.rank_record import SetupCost
from tests.fixtures.figures import list_figures

FACTS = {"graphs": 2.0, "graph_breaks": 1.0, "compile_s": 10.0, "compile_cache_hits": 0.0, "compile_cache_misses": 3.0}


def summary(saved: float | None, facts: dict[str, float] = FACTS, **notes: str):
    return summarize_compile(
        facts, notes, (SetupCost(name="compile", seconds=12.0),), (SetupCost(name="build", seconds=3.0),), saved
    )


def test_break_even_is_the_cost_over_the_time_won_per_step() -> None:
    result = summary(0.3)
    assert (result.seconds, result.break_even_step) == (10.0, 34)  # 33.3 steps, rounded up
    assert result.cache == "cold (0 hits, 3 misses)"


@pytest.mark.parametrize(("saved", "word"), [(0.0, "never"), (-0.1, "never"), (None, "unknown")])
def test_no_break_even_without_time_won(saved: float | None, word: str) -> None:
    result = summary(saved)
    assert result.break_even_step is None
    assert result.break_even.startswith(word)


def test_the_cost_falls_back_to_the_difference_of_setup_times() -> None:
    result = summary(1.0, {"graphs": 1.0})
    assert (result.seconds, result.break_even_step, result.cache) == (9.0, 9, "unknown")


def test_break_reasons_are_listed_one_by_one() -> None:
    result = summary(1.0, graph_breaks="1 x print(); it prints; 2 x item()")
    assert result.break_reasons == ("1 x print(); it prints", "2 x item()")


def test_nothing_compiled_nothing_summarised() -> None:
    assert summary(1.0, {"world_size": 1.0}) is None


def test_warm_is_the_median_of_processes_that_found_everything() -> None:
    found = {**FACTS, "compile_cache_hits": 3.0}
    later = [{**found, "compile_s": cost, "compile_cache_misses": missed} for cost, missed in ((2, 0), (3, 0), (9, 1))]
    switched_off = {**FACTS, "compile_cache_misses": 0.0}  # neither hits nor misses
    result = summarize_compile(FACTS, {}, (), None, 0.25, later=[*later, switched_off, {}])
    assert list_figures(result.break_even) == ["40", "10.0 s", "250 ms"]
    assert (result.warm.seconds, result.warm.processes, result.warm.break_even_step) == (2.5, 2, 10)
    assert summary(0.3).warm is None


def test_what_is_slower_never_pays_warm_or_cold() -> None:
    later = [{**FACTS, "compile_cache_hits": 3.0, "compile_cache_misses": 0.0}]
    result = summarize_compile(FACTS, {}, (), None, -0.05, decided=False, later=later)
    assert result.break_even == result.warm.break_even
    assert result.break_even.startswith("never")
    assert list_figures(result.break_even) == ["50.0 ms"]


@pytest.mark.parametrize(
    ("saved", "told", "undecided"),
    [
        (0.3, "break-even after 34 steps", "break-even after 34 steps (inconclusive)"),
        (-0.1, "never breaks even", "break-even unknown"),
        (None, "break-even unknown", "break-even unknown"),
    ],
)
def test_when_it_pays_is_undecided_where_the_comparison_is(saved: float | None, told: str, undecided: str) -> None:
    cost = summary(saved)
    compared = [
        Difference(baseline="b", ratio=0.9, low=None, high=None, verdict=verdict, detectable=None, pairs=1)
        for verdict in ("faster", "inconclusive")
    ]
    assert [describe_break_even(cost, difference) for difference in (None, *compared)] == [told, told, undecided]
