"""Searches for the least recomputation, as reports list them."""

from perfkit.store.layout import RecomputationSearch, RecomputationTrial
from perfkit_reports.document.blocks import Table
from perfkit_reports.subjects.recomputation import build_sections, describe_searches
from tests.fixtures.figures import list_figures

MIB = 2.0**20
TRIALS = (
    RecomputationTrial(variant="baseline", fits=False, planned_bytes=30 * MIB),
    RecomputationTrial(variant="ckpt", fits=True, planned_bytes=20 * MIB, measured_bytes=21 * MIB, seconds=5.0),
    RecomputationTrial(variant="ckpt:mode=selective", fits=None, reason="needs values"),
)
FOUND = RecomputationSearch(
    requested_variant="ckpt:fit=24MiB", selected_variant="ckpt", limit_bytes=24 * MIB, trials=TRIALS
)
NOT_FOUND = RecomputationSearch(
    requested_variant="ckpt:fit=1MiB", selected_variant=None, limit_bytes=MIB, trials=TRIALS[:1], reason="why"
)


def test_each_trial_tells_what_was_planned_and_what_was_measured() -> None:
    (section,) = build_sections((FOUND, NOT_FOUND))
    found, not_found = section.blocks
    assert isinstance(found, Table)
    assert isinstance(not_found, Table)
    assert found.title.split(" → ") == ["ckpt:fit=24MiB", "ckpt"]
    assert not_found.title.split(": ") == ["ckpt:fit=1MiB", "why"]
    cells = [[column.cell(trial) for column in found.columns] for trial in found.rows]
    assert [[cell.text for cell in row] for row in cells] == [
        ["baseline", "no", "30.0 MiB", "n/a", "n/a"],
        ["ckpt", "yes", "20.0 MiB", "21.0 MiB", "5.00 s"],
        ["ckpt:mode=selective", "n/a", "n/a", "n/a", "n/a"],
    ]
    assert [row[3].reason for row in cells] == ["not run", "", "needs values"]
    assert "24.0 MiB" in found.caption


def test_what_was_found_is_said() -> None:
    (line,) = describe_searches((FOUND, NOT_FOUND))
    assert line.startswith("ckpt:fit=24MiB → ckpt: ")
    assert list_figures(line)[-2:] == ["20.0 MiB", "21.0 MiB"]


def test_where_nothing_was_tried_there_is_no_section() -> None:
    assert list(build_sections(())) == []
    assert (
        list(
            build_sections(
                (
                    RecomputationSearch(
                        requested_variant="a", selected_variant=None, limit_bytes=1.0, trials=(), reason="b"
                    ),
                )
            )
        )
        == []
    )
