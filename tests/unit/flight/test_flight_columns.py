"""Records in columns: the same calls come back, and equal calls of all ranks are kept once."""

from perfkit.flight.decode import decode_dump
from perfkit.flight.flight_columns import collect_records
from tests.fixtures.flight_dumps import dump, entry

RANKS, CALLS = 64, 50


def test_calls_come_back_as_they_were() -> None:
    record = decode_dump(
        dump(entry(3), entry(4, "broadcast", sizes=[[7]], sequence=9), entry(5, ended=False), entry(6, ended=False)),
        "0",
    )
    job = collect_records({2: record})
    assert tuple(job.build_call(2, row) for row in range(4)) == record.collectives
    assert job.find_pending_call(2) == record.waits_in
    assert job.find_last_call(2) == record.last
    assert job.ranks[2].dropped is record.dropped is True


def test_equal_calls_and_groups_of_all_ranks_are_one() -> None:
    records = {rank: decode_dump(dump(*map(entry, range(CALLS))), str(rank)) for rank in range(RANKS)}
    job = collect_records(records)
    assert len(job.calls) == 1
    assert len(job.groups) == 1
    assert all(len(rows.call) == CALLS for rows in job.ranks.values())


def test_an_empty_record_has_no_calls() -> None:
    job = collect_records({0: decode_dump(dump(), "0")})
    assert job.find_pending_call(0) is job.find_last_call(0) is None
    assert not job.ranks[0].dropped
