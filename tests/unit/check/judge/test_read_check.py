from pathlib import Path
from unittest.mock import ANY

import msgspec
import pytest

from perfkit.check.judge.read import read_check
from perfkit.errors import RunFormatError
from perfkit.files import write_json
from perfkit.store.summary import CHECK_FILE
from tests.fixtures import sample_checks
from tests.fixtures.old_traces import in_format_2


@pytest.mark.parametrize("name", sorted(sample_checks.ALL))
def test_a_check_is_read_back_from_its_file_and_its_folder(tmp_path: Path, name: str) -> None:
    check = sample_checks.ALL[name]()
    write_json(tmp_path / CHECK_FILE, check)
    assert read_check(tmp_path) == check
    assert read_check(tmp_path / CHECK_FILE) == check


def test_what_is_no_check_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match=r"check\.json: cannot be read"):
        read_check(tmp_path)
    path = tmp_path / CHECK_FILE
    path.write_text("{}")
    with pytest.raises(RunFormatError, match="not a valid Check"):
        read_check(path)


def test_an_unknown_field_and_a_newer_format_are_refused(tmp_path: Path) -> None:
    content = msgspec.to_builtins(sample_checks.other_machine())
    path = tmp_path / CHECK_FILE
    path.write_bytes(msgspec.json.encode({**content, "speed": 3}))
    with pytest.raises(RunFormatError, match="speed"):
        read_check(path)
    path.write_bytes(msgspec.json.encode({**content, "schema_version": 99}))
    with pytest.raises(RunFormatError, match="upgrade perfkit"):
        read_check(path)


def test_a_check_of_format_1_is_read_without_its_splits(tmp_path: Path) -> None:
    check = next(each() for each in sample_checks.ALL.values() if any(v.why and v.why.time for v in each().variants))
    content = msgspec.to_builtins(check)
    for variant in content["variants"]:
        if variant["why"] and variant["why"]["time"]:
            variant["why"]["time"]["before_trace"]["summary"] = []  # as a check writes it
            before = in_format_2(variant["why"]["time"]["before_trace"])
            variant["why"]["time"] |= {"before_split": [], "after_split": [], "before_trace": before}
    path = tmp_path / CHECK_FILE
    path.write_bytes(msgspec.json.encode({**content, "schema_version": 2}))
    with pytest.raises(RunFormatError, match="before_split"):
        read_check(path)
    path.write_bytes(msgspec.json.encode({**content, "schema_version": 1}))
    found = msgspec.to_builtins(read_check(path))
    for variant in content["variants"]:
        if variant["why"] and variant["why"]["time"]:
            del variant["why"]["time"]["before_split"], variant["why"]["time"]["after_split"]
            variant["why"]["time"]["before_trace"] = ANY
    assert found == content
