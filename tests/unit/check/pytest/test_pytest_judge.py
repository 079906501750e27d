"""What a test may ask for, and what it is told where that is not met."""

import pytest

from perfkit.check.judge.check_thresholds import get_default_thresholds
from perfkit.check.pytest.pytest_judge import Judgement, parse_gate, parse_gates
from perfkit.check.pytest.quantities import BY_NAME, FIGURES
from perfkit.core.errors import UsageError
from tests.fixtures.figures import list_figures

MEMORY = BY_NAME["peak_allocated"]


def judged(given: str | int, before: float | None, after: float) -> Judgement:
    gate = parse_gate(MEMORY, given, "peak_allocated")
    assert gate is not None
    return Judgement(MEMORY, MEMORY.title, gate, before, after)


@pytest.mark.parametrize(
    ("given", "before", "after", "failed"),
    [
        ("<=1KiB", None, 1024, False),
        ("<=1KiB", None, 1025, True),
        (1024, None, 1024, False),
        (1024, None, 1025, True),
        (0, None, 1, True),
        ("1%", 1000, 1010, False),
        ("1%", 1000, 1011, True),
        ("0%", 1000, 1000, False),
        ("+1KiB", 1000, 2024, False),
        ("+1KiB", 1000, 2025, True),
        ("1%", 0, 1, True),
    ],
)
def test_thresholds(given: str | int, before: float | None, after: float, failed: bool) -> None:
    assert judged(given, before, after).failed is failed


def test_worse_is_what_is_worse_than_stored_within_what_is_allowed() -> None:
    assert judged("1%", 1000, 1001).worse
    assert not judged("1%", 1000, 1011).worse  # fails
    assert not judged("1%", 1000, 1000).worse
    assert not judged("<=1KiB", None, 1).worse


def test_improved_is_what_is_better_by_more_than_it_may_be_worse() -> None:
    assert judged("1%", 1000, 980).improved
    assert not judged("1%", 1000, 995).improved
    assert not judged("<=1KiB", None, 1).improved


def test_words() -> None:
    assert list_figures(str(judged("<=1KiB", None, 2048))) == [
        "2.00 KiB",
        "2,048",
        "1.00 KiB",
        "1,024",
        "+1.00 KiB",
        "+100.00 %",
    ]
    assert list_figures(str(judged("1%", 2048, 3072))) == [
        "2.00 KiB",
        "2,048",
        "3.00 KiB",
        "3,072",
        "+1.00 KiB",
        "+50.00 %",
        "1%",
        "2.02 KiB",
        "2,068",
    ]


def test_off_is_no_gate() -> None:
    assert parse_gates({"flops": "off"}) == {"flops": None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"peak_alocated": "1%"}, "'peak_alocated'.* 'peak_allocated'"),
        ({"step_time": "<=50ms"}, "step_time.*perfkit check --against-ref"),
        ({"peak_allocated": "2 apples"}, "peak_allocated='2 apples'.*not a threshold"),
        ({"op_count": True}, "op_count=True.*not a threshold"),
    ],
)
def test_what_is_no_threshold_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_gates(given)


def test_every_default_is_a_change_against_what_is_stored() -> None:
    gates = {name: gate for name, gate in get_default_thresholds(FIGURES).items() if gate is not None}
    assert gates
    assert all(gate.limit is None for gate in gates.values())
