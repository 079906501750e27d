import msgspec

from perfkit.analysis.model.memory_model import MemoryAccount, MemoryShare
from perfkit_reports.subjects.memory.balance import format_balance, format_beyond, format_device
from tests.fixtures.figures import list_figures

MIB = 2**20


def account(peak: int, process: int | None = None) -> MemoryAccount:
    return MemoryAccount(
        peak_bytes=peak,
        peak_phase="backward",
        source="events",
        categories=(
            MemoryShare(category="parameter", bytes=2 * MIB),
            MemoryShare(category="activation", bytes=6 * MIB),
        ),
        outside_allocator=(
            MemoryShare(category="reserved but free", bytes=3 * MIB),
            MemoryShare(category="never touched", bytes=-MIB),
        ),
        process_bytes=process,
        process_source="RSS",
    )


def test_parts_are_listed_by_size_and_sum_to_the_peak() -> None:
    assert list_figures(format_balance(account(8 * MIB))) == ["8.00 MiB", "6.00 MiB", "2.00 MiB"]


def test_a_remainder_is_printed_not_hidden() -> None:
    assert list_figures(format_balance(account(9 * MIB)))[-2:] == ["2.00 MiB", "1.00 MiB"]
    assert list_figures(format_balance(account(7 * MIB)))[-2:] == ["2.00 MiB", "1.00 MiB"]


def test_the_peak_and_what_lies_beyond_it_sum_to_the_process() -> None:
    assert list_figures(format_beyond(account(8 * MIB, process=10 * MIB))) == [
        "8.00 MiB",
        "3.00 MiB",
        "1.00 MiB",
        "10.0 MiB",
    ]


def test_what_of_the_process_is_not_explained_is_named_with_its_sign() -> None:
    assert {"2.00 MiB", "12.0 MiB"} <= {*list_figures(format_beyond(account(8 * MIB, process=12 * MIB)))}
    assert {"2.00 MiB", "8.00 MiB"} <= {*list_figures(format_beyond(account(8 * MIB, process=8 * MIB)))}


def test_the_process_and_what_else_there_is_sum_to_the_device() -> None:
    held = msgspec.structs.replace(
        account(8 * MIB, process=10 * MIB),
        device_parts=(
            MemoryShare(category="other processes", bytes=3 * MIB),
            MemoryShare(category="reserved by the driver", bytes=MIB),
        ),
        device_bytes=14 * MIB,
    )
    assert list_figures(format_device(held)) == ["10.0 MiB", "3.00 MiB", "1.00 MiB", "14.0 MiB"]
    assert format_device(account(8 * MIB, process=10 * MIB)) == ""


def test_a_process_that_nobody_measured_has_no_sum() -> None:
    parts = "peak 8.00 MiB + reserved but free 3.00 MiB - never touched 1.00 MiB; "
    assert format_beyond(account(8 * MIB)).startswith(parts)
    assert "=" not in format_beyond(account(8 * MIB))
    known = MemoryAccount(peak_bytes=MIB, peak_phase="", source="", categories=())
    assert list_figures(format_balance(known)) == ["1.00 MiB", "1.00 MiB"]
    assert (format_beyond(known), format_device(known)) == ("", "")
