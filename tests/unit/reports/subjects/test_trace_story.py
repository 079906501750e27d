import msgspec

from perfkit_reports.subjects.trace import trace_sentences
from perfkit_reports.wording import format_signed_seconds
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.figures import list_figures


def test_launches_are_told_with_numbers() -> None:
    told = trace_sentences.describe_launches(sample.trace("rank 0", 0))
    assert list_figures(told[0]) == ["4.89 ms", "14.0 %", "3.84 ms", "11.0 %"]
    assert {"11.2 us", "61.0 us"} <= {*list_figures(told[1])}
    assert list_figures(told[3])[:4] == ["10 us", "120", "330", "410 us"]
    assert list_figures(told[4]) == ["2", "1.30 ms"]


def test_what_the_trace_does_not_tell_is_said_or_left_out() -> None:
    trace = sample.trace("rank 0", 0)
    assert trace.launches is not None
    dark = msgspec.structs.replace(
        trace.launches, delay_s=None, queue_depth=None, starved_s=None, note="the trace holds no launches"
    )
    told = trace_sentences.describe_launches(msgspec.structs.replace(trace, launches=dark))
    assert list_figures(told[0]) == ["4.89 ms", "14.0 %"]
    assert "unknown" in told[0]
    assert dark.note in told[-1].lower()
    assert len(told) == len(trace_sentences.describe_launches(trace)) - 2 + 1
    outside = msgspec.structs.replace(trace, launches=None)
    for silent in (outside, sample.cpu_only().traces[0]):
        (line,) = trace_sentences.describe_launches(silent)
        assert list_figures(line) == []


def test_overlap_says_what_is_exposed() -> None:
    told = trace_sentences.describe_overlap(sample.trace("rank 0", 0))
    assert list_figures(told[0]) == ["8.20 ms", "23.5 %", "4.54 ms", "55.3 %"]
    assert trace_sentences.describe_overlap(sample.nothing().traces[0]) == []


def test_coverage_names_shares_and_errors_of_the_model() -> None:
    told = trace_sentences.describe_coverage(sample.trace("rank 0", 0))
    assert "990 kernels" in told
    assert list_figures(told)[2:5] == ["99.8 %", "96.0 %", "97.0 %"]
    assert "ceiling" in told
    assert list_figures(trace_sentences.describe_coverage(sample.nothing().traces[0])) == []


def test_the_straggler_is_named_with_its_delay() -> None:
    fleet = sample.realistic().fleet
    assert fleet is not None
    straggler, spread, *notes = trace_sentences.describe_fleet(fleet)
    assert list_figures(straggler) == ["1", "1.90 ms"]
    assert list_figures(spread) == ["6.0 %"]
    assert len(notes) == len(fleet.notes)


def test_changes_carry_their_sign() -> None:
    assert [format_signed_seconds(value) for value in (2e-3, -2e-3, 0.0)] == ["+2.00 ms", "-2.00 ms", "0 s"]
