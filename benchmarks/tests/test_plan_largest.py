"""How far a planned batch is from the largest that runs, in steps of the search."""

from benchmarks.plan_largest import row
from perfkit.store.layout import BatchSearch, BatchTrial


def search(predicted: int | None, *trials: tuple[int, bool | None]) -> BatchSearch:
    made = tuple(BatchTrial(size=size, fits=fits, reason="why") for size, fits in trials)
    return BatchSearch(
        requested_variant="batch:auto",
        selected_variant=None,
        limit_bytes=2.0**31,
        margin=0.1,
        max_size=64,
        trials=made,
        predicted_size=predicted,
    )


def split_row(name: str, searched: BatchSearch) -> list[str]:
    return [cell.strip() for cell in row(name, searched).split("|")[1:-1]]


def test_a_step_is_a_sixteenth_of_what_was_planned() -> None:
    one_off = row("gpt", search(40, (40, False), (38, True), (39, False)))
    assert one_off == "| gpt | 2.00 GiB | 40 | 38 | +1.0 | 2 | 3 |  |"
    assert row("gpt", search(46, (46, False), (34, True))) == "| gpt | 2.00 GiB | 46 | 34 | +6.0 | 2 | 2 | outside |"
    assert "| -1.5 | 2 | 2 | outside |" in row("gpt", search(40, (40, True), (43, True)))


def test_where_nothing_was_planned_or_nothing_ran() -> None:
    assert split_row("gpt", search(None, (8, True))) == ["gpt", "2.00 GiB", "none", "8", "", "", "1", "outside"]
    assert split_row("gpt", search(8, (8, None))) == ["gpt", "2.00 GiB", "8", "why", "", "", "1", "outside"]
