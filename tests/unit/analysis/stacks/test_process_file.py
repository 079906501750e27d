"""What `perfkit attach PID` wrote, in formats before today's."""

from pathlib import Path

import msgspec

from perfkit.analysis.stacks.process_stacks import analyze_process, read_process_analysis
from perfkit.store.summary import PROCESS_FILE
from tests.fixtures.spied_process import facts, threads


def test_a_file_of_the_first_format_is_read_without_what_sampling_cost(tmp_path: Path) -> None:
    today = analyze_process(facts(), threads())
    first = msgspec.to_builtins(today)
    first["schema_version"] = 1
    for thread in first["threads"]:
        thread["stacks"] |= {"cost": 0.1, "lock": 0.1, "late": 0.5, "late_s": 0.2}
    (tmp_path / PROCESS_FILE).write_bytes(msgspec.json.encode(first))
    assert read_process_analysis(tmp_path).threads == today.threads
