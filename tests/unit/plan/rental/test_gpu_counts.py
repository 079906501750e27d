"""Numbers of GPUs, and the search for the fewest that fit."""

import pytest

from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.errors import UsageError
from perfkit.plan.rental.gpu_counts import parse_counts, search_counts


@pytest.mark.parametrize(
    ("text", "counts"),
    [("8", (8,)), ("6,1,6", (1, 6)), ("1..64", (1, 2, 4, 8, 16, 32, 64)), ("3..20", (3, 6, 12)), ("5..5", (5,))],
)
def test_counts(text: str, counts: tuple[int, ...]) -> None:
    assert parse_counts(text) == counts


@pytest.mark.parametrize("text", ["0", "8..4", "0..4", "two", "1,,2", ""])
def test_counts_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--gpus"):
        parse_counts(text)


@pytest.mark.parametrize("fewest", [1, 4, 16, 128])
def test_the_fewest_is_bisected_and_all_above_are_planned(fewest: int) -> None:
    asked: list[int] = []

    def plan(count: int) -> PlannedVariant:
        asked.append(count)
        return PlannedVariant(name=f"zero3@{count}", world_size=count, fits=count >= fewest)

    counts = (1, 2, 4, 8, 16, 32, 64)
    planned = search_counts(counts, plan)
    assert len(asked) == len(set(asked)) == len(planned)
    assert [each.world_size for each in planned if each.fits] == [count for count in counts if count >= fewest]
    assert sum(not each.fits for each in planned) <= 3
