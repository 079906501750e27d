from pathlib import Path

import pytest

from perfkit.analysis.trace.trace_host import find_host
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import op, write_trace


@pytest.mark.parametrize(
    ("name", "stated", "host"),
    [
        ("gpu-7_4242.1712.pt.trace.json.gz", {}, "gpu-7"),
        ("gpu_7_4242.1712.99.pt.trace.json", {"hostname": "node3"}, "node3"),
        ("rank0.json", {"Host": "node4"}, "node4"),
        ("rank0.json", {}, ""),
    ],
)
def test_the_host_is_stated_or_in_the_name_of_the_file(
    tmp_path: Path, name: str, stated: dict[str, str], host: str
) -> None:
    assert find_host(read_trace(write_trace(tmp_path / name, [op("aten::mm", 0, 5)], **stated))) == host
