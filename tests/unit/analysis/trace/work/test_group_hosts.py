from pathlib import Path

import pytest

from perfkit.analysis.model.trace import ONE_HOST, SEVERAL_HOSTS
from perfkit.analysis.trace.work.group_hosts import locate_group
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.rank_files import write_rank


@pytest.mark.parametrize(
    ("devices", "ranks", "group", "hosts"),
    [
        (4, 4, (0, 1), ONE_HOST),
        (4, 8, (4, 5, 6, 7), ONE_HOST),
        (4, 8, (0, 4), SEVERAL_HOSTS),
        (4, 8, (), ""),  # the ranks were not recorded
        (1, 8, (0, 1), ""),  # one device may be visible of several
    ],
)
def test_ranks_share_a_host_of_as_many_devices(
    tmp_path: Path, devices: int, ranks: int, group: tuple[int, ...], hosts: str
) -> None:
    trace = read_trace(write_rank(tmp_path / "rank0.json", 0, ranks, [[]], devices=devices))
    assert locate_group(group, len(group) or ranks, trace) == hosts
