"""Flight recorders of two ranks over NCCL 2.28 on an H200 (tests/fixtures/recorded/README.md)."""

import pickle
from pathlib import Path

from perfkit.flight.decode import decode_dump
from perfkit.flight.match import find_mismatches
from perfkit.flight.mismatch import Mismatch

H200 = Path(__file__).parents[2] / "fixtures" / "recorded" / "h200"


def test_the_rank_that_slept_is_absent_from_the_last_collective() -> None:
    dumps = {rank: pickle.loads((H200 / f"nccl_trace_rank_{rank}").read_bytes()) for rank in (0, 1)}
    [meeting] = find_mismatches({rank: decode_dump(dump, f"rank {rank}") for rank, dump in dumps.items()})
    assert meeting.mismatch == Mismatch.ABSENT
    assert meeting.name.startswith("all_reduce 14 ")
    assert (meeting.absent, meeting.waiting) == ((1,), (0,))
