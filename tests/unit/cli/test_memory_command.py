"""Where the report on a memory file goes."""

import pytest

from perfkit_cli import memory


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("snapshot.pickle", "snapshot"),
        ("runs/oom rank3.pickle", "oom-rank3"),
        ("memory.raw.json.gz", "memory"),
        (".pickle", "memory"),
    ],
)
def test_a_report_is_named_after_its_file(file: str, name: str) -> None:
    assert memory._derive_report_name(file) == name
