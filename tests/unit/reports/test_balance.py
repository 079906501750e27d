from perfkit.analysis.result import MemoryAccount, MemoryShare
from perfkit_reports.balance import balance_line, beyond_line

MIB = 2**20


def account(peak: int) -> MemoryAccount:
    return MemoryAccount(
        peak_bytes=peak,
        peak_phase="backward",
        source="events",
        categories=(
            MemoryShare(category="parameter", bytes=2 * MIB),
            MemoryShare(category="activation", bytes=6 * MIB),
        ),
        beyond=(MemoryShare(category="reserved but free", bytes=MIB),),
    )


def test_parts_are_listed_by_size_and_sum_to_the_peak() -> None:
    assert (
        balance_line(account(8 * MIB)) == "activation 6.00 MiB + parameter 2.00 MiB = 8.00 MiB, the peak, in backward"
    )


def test_a_remainder_is_printed_not_hidden() -> None:
    assert "+ not accounted for 1.00 MiB = 9.00 MiB" in balance_line(account(9 * MIB))


def test_what_lies_beyond_the_allocator_is_named() -> None:
    assert beyond_line(account(8 * MIB)) == "reserved but free 1.00 MiB"
