import json
import re
from pathlib import Path

import pytest

from perfkit.core.errors import OlderFormatError, RunFormatError
from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RECORD_VERSION, RunStatus
from perfkit.store.layout import Suite, SuiteRun
from perfkit.store.suite_reader import read_suite
from tests.fixtures.suites import record, spec, write_run, write_suite, write_suite_file


def test_a_suite_is_read_back(tmp_path: Path) -> None:
    stored = read_suite(write_suite(tmp_path, {"baseline": [record(0.1)], "amp": [record(0.05)]}))
    assert [(run.variant, run.repeat, run.complete) for run in stored.runs] == [
        ("baseline", 0, True),
        ("amp", 0, True),
    ]
    assert stored.runs[1].ranks[0].record == record(0.05)
    assert stored.ceilings is not None
    assert (stored.runs[0].ranks[0].trace, stored.runs[0].ranks[0].memory) == (None, None)


def test_the_history_of_the_allocator_is_found(tmp_path: Path) -> None:
    folder = write_suite(tmp_path, {"baseline": [record(0.1)]})
    (history,) = (path.with_name("history.json.gz") for path in folder.glob("baseline/0/rank0/record.json"))
    assert read_suite(folder).runs[0].ranks[0].history is None
    history.write_bytes(b"")
    assert read_suite(folder).runs[0].ranks[0].history == history


def test_what_a_killed_suite_left_is_read(tmp_path: Path) -> None:
    unfinished = write_run(tmp_path, spec("amp"), 0, [record()], run=None)
    announced = SuiteRun(variant="amp", repeat=1, path="amp/1")
    write_suite_file(tmp_path, ["amp"], [unfinished, announced])
    stored = read_suite(tmp_path)
    assert [run.run.status for run in stored.runs] == [RunStatus.INTERRUPTED]


def test_a_rank_without_a_record_leaves_the_run_incomplete(tmp_path: Path) -> None:
    run = write_run(tmp_path, spec("zero1", world_size=2), 0, [record(rank=1, world_size=2)])
    write_suite_file(tmp_path, ["zero1@2"], [run])
    (stored,) = read_suite(tmp_path).runs
    assert not stored.complete
    assert [rank.record.rank for rank in stored.ranks] == [1]


def test_no_suite_names_the_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match=r"suite\.json"):
        read_suite(tmp_path)
    with pytest.raises(RunFormatError, match="folder"):
        read_suite(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("suite.json", lambda text: text[: len(text) // 2], r"suite\.json: not a valid Suite"),
        ("baseline/0/rank0/record.json", lambda text: text[:100], r"record\.json: not a valid RankRecord"),
        ("baseline/0/rank0/record.json", lambda text: text.replace('"rank"', '"rnk"'), "rank"),
        ("baseline/0/rank0/record.json", lambda text: text.replace('"rank": 0', '"rank": 3'), "rank is 3"),
        ("baseline/0/rank0/record.json", lambda text: text.replace('"losses": [', '"losses": ["x",'), r"\$\.losses"),
        ("baseline/0/spec.json", lambda text: text.replace('"seed"', '"sead"'), r"spec\.json.*sead"),
        ("baseline/0/run.json", lambda text: text.replace('"ok"', '"fine"'), r"run\.json.*\$\.status"),
        ("ceilings.json", lambda text: re.sub(r'(?<="schema_version": )\d+', "99", text), "format 99"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name_and_field(tmp_path: Path, file: str, damage, message: str) -> None:
    write_suite(tmp_path, {"baseline": [record()], "amp": [record()]})
    path = tmp_path / file
    changed = damage(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(RunFormatError, match=message):
        read_suite(tmp_path)


def test_a_record_of_an_older_format_is_refused(tmp_path: Path) -> None:
    folder = write_suite(tmp_path, {"baseline": [record(0.1)]})
    path = folder / "baseline/0/rank0/record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 1}))
    with pytest.raises(OlderFormatError, match=rf"record\.json: .*\b1\b.*\b{RECORD_VERSION}\b"):
        read_suite(folder)


@pytest.mark.parametrize("path", ["../elsewhere", "/etc"])
def test_a_run_outside_of_the_suite_is_refused(tmp_path: Path, path: str) -> None:
    write_suite_file(tmp_path, ["amp"], [SuiteRun(variant="amp", repeat=0, path=path)])
    with pytest.raises(RunFormatError, match="outside the suite"):
        read_suite(tmp_path)


def test_a_missing_run_folder_in_the_middle_is_refused(tmp_path: Path) -> None:
    last = write_run(tmp_path, spec("amp"), 1, [record()])
    write_suite_file(tmp_path, ["amp"], [SuiteRun(variant="amp", repeat=0, path="amp/0"), last])
    with pytest.raises(RunFormatError, match="missing folder"):
        read_suite(tmp_path)


def test_a_loss_that_is_not_finite_does_not_make_a_record_unreadable(tmp_path: Path) -> None:
    write_suite(tmp_path, {"baseline": [record(losses=(1.0, float("nan")))]})
    assert read_suite(tmp_path).runs[0].ranks[0].record.losses == (1.0, None)


def test_a_suite_without_runs_is_empty(tmp_path: Path) -> None:
    write_json(tmp_path / "suite.json", Suite(created_at="", perfkit="", command="", variants=("a",), baselines={}))
    assert read_suite(tmp_path).runs == ()
