import msgspec

from perfkit_reports.subjects.trace import sentences
from perfkit_reports.wording import format_signed_seconds
from tests.fixtures import sample_trace_analysis as sample


def test_launches_are_told_with_numbers() -> None:
    told = sentences.describe_launches(sample.trace("rank 0", 0))
    assert told[0] == (
        "The device is idle for 4.89 ms (14.0 %) a step, 3.84 ms (11.0 %) of it with nothing queued: the host was late."
    )
    assert told[1] == "A kernel starts 11.2 us after its launch (median; one in ten after 61.0 us)."
    assert told[3].startswith("120 of 330 kernels a step take less than 10 us; they run for 410 us")
    assert told[4] == "Calls that make the host wait for the device: 2 a step, 1.30 ms."


def test_what_the_trace_does_not_tell_is_said_or_left_out() -> None:
    trace = sample.trace("rank 0", 0)
    assert trace.launches is not None
    dark = msgspec.structs.replace(
        trace.launches, delay_s=None, queue_depth=None, starved_s=None, note="the trace holds no launches"
    )
    told = sentences.describe_launches(msgspec.structs.replace(trace, launches=dark))
    assert "whether anything was queued meanwhile is not known" in told[0]
    assert told[-1] == "The trace holds no launches."
    assert not [line for line in told if "after its launch" in line or "more are queued" in line]
    outside = msgspec.structs.replace(trace, launches=None)
    assert sentences.describe_launches(outside) == [
        "Nothing ran on the device within the steps, so how the host feeds it is not known."
    ]
    assert sentences.describe_launches(sample.cpu_only().traces[0]) == [
        "On a CPU nothing is launched: ops run as they are called."
    ]


def test_overlap_says_what_is_exposed() -> None:
    told = sentences.describe_overlap(sample.trace("rank 0", 0))
    assert told[0] == (
        "Communication takes 8.20 ms (23.5 %) a step; 4.54 ms (55.3 %) of that is exposed, "
        "the rest runs beside computing."
    )
    assert sentences.describe_overlap(sample.nothing().traces[0]) == []


def test_coverage_names_shares_and_errors_of_the_model() -> None:
    told = sentences.describe_coverage(sample.trace("rank 0", 0))
    assert "990 kernels" in told
    assert "99.8 % is linked to an op, 96.0 % has FLOPs and 97.0 % has bytes." in told
    assert "a ceiling or the model of its cost is wrong" in told
    assert sentences.describe_coverage(sample.nothing().traces[0]) == "The trace holds no kernels and no ops."


def test_the_straggler_is_named_with_its_delay() -> None:
    fleet = sample.realistic().fleet
    assert fleet is not None
    assert sentences.describe_fleet(fleet) == [
        "Straggler: rank 1, 1.90 ms a step after the first rank.",
        "Step times of the ranks differ by 6.0 %.",
        "2 of 8 ranks were given; the others are not known.",
    ]


def test_changes_carry_their_sign() -> None:
    assert [format_signed_seconds(value) for value in (2e-3, -2e-3, 0.0)] == ["+2.00 ms", "-2.00 ms", "0 s"]
