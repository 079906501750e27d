from pathlib import Path

import msgspec
import pytest

from perfkit.check.judge.check_reader import read_check
from perfkit.core.errors import NewerFormatError, OlderFormatError, RunFormatError
from perfkit.core.files import write_json
from perfkit.store.summary import CHECK_FILE
from tests.fixtures import sample_checks


@pytest.mark.parametrize("name", sorted(sample_checks.ALL))
def test_a_check_is_read_back_from_its_file_and_its_folder(tmp_path: Path, name: str) -> None:
    check = sample_checks.ALL[name]()
    write_json(tmp_path / CHECK_FILE, check)
    assert read_check(tmp_path) == check
    assert read_check(tmp_path / CHECK_FILE) == check


def test_what_is_no_check_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match=r"check\.json: "):
        read_check(tmp_path)
    path = tmp_path / CHECK_FILE
    path.write_text("{}")
    with pytest.raises(RunFormatError, match="not a valid Check"):
        read_check(path)


def test_an_unknown_field_and_other_formats_are_refused(tmp_path: Path) -> None:
    content = msgspec.to_builtins(sample_checks.other_machine())
    path = tmp_path / CHECK_FILE
    path.write_bytes(msgspec.json.encode({**content, "speed": 3}))
    with pytest.raises(RunFormatError, match="speed"):
        read_check(path)
    for version, error in ((99, NewerFormatError), (1, OlderFormatError)):
        path.write_bytes(msgspec.json.encode({**content, "schema_version": version}))
        with pytest.raises(error, match=f"format {version}"):
            read_check(path)
