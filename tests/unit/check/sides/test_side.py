"""Where a side's processes run, and what is said when they fail."""

import os
import shutil
from pathlib import Path

import pytest

import perfkit
from perfkit.check.sides import side as side_module
from perfkit.check.sides.side import MeasuredSide, make_failure, place_sides
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.measure.rank.foreign_imports import OTHER_TREE, OWN_TREE


def side(tree: Path, root: str = ".", **fields) -> MeasuredSide:
    return MeasuredSide(label=tree.name, root=tree / root, tree=tree, **fields)


@pytest.fixture
def trees(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for name in ("old", "new"):
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "sub" / "lib").mkdir(parents=True)
    return tmp_path / "old", tmp_path / "new"


def test_each_side_runs_in_its_folder_and_knows_both_trees(trees):
    old, new = trees
    before, after = place_sides(side(old, "sub"), side(new, "sub"))
    assert (before.folder, after.folder) == (old / "sub", new / "sub")
    assert before.environment == {OWN_TREE: str(old), OTHER_TREE: str(new)}
    assert after.environment == {OWN_TREE: str(new), OTHER_TREE: str(old)}


def test_the_python_path_comes_before_what_is_set(trees, monkeypatch):
    old, new = trees
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    before, _ = place_sides(side(old, python_path=("src", "sub/lib")), side(new))
    assert before.environment["PYTHONPATH"].split(os.pathsep) == [
        str(old / "src"),
        str(old / "sub" / "lib"),
        "/elsewhere",
    ]


def test_a_side_may_have_an_interpreter_and_variables_of_its_own(trees):
    old, new = trees
    before, after = place_sides(
        side(old, interpreter=Path("/other/python"), variables={"A": "1", "B": None}), side(new)
    )
    assert before.interpreter == Path("/other/python")
    assert (before.environment["A"], before.environment["B"]) == ("1", None)
    assert after.interpreter is None
    assert "A" not in after.environment


def test_a_folder_that_is_not_there_is_named(trees):
    old, new = trees
    with pytest.raises(UsageError, match=r"old: python_path .*/old/lib\b"):
        place_sides(side(old, python_path=("lib",)), side(new))
    with pytest.raises(UsageError, match=r"new: .*/new/nothing"):
        place_sides(side(old), side(new, "nothing"))


def test_perfkits_own_repository_brings_its_own_perfkit(trees, monkeypatch):
    old, new = trees
    for tree in trees:
        (tree / "src" / "perfkit" / "measure" / "interleaving").mkdir(parents=True)
        (tree / "src" / "perfkit" / "measure" / "interleaving" / "turn_worker.py").touch()
    monkeypatch.setattr(perfkit, "__file__", str(new / "src" / "perfkit" / "__init__.py"))
    before, after = place_sides(side(old), side(new))
    assert before.environment["PYTHONPATH"] == str(old / "src")
    assert after.environment["PYTHONPATH"] == str(new / "src")
    shutil.rmtree(old / "src" / "perfkit" / "measure" / "interleaving")
    with pytest.raises(PerfkitError, match=r"old: .*/old/src/perfkit "):
        place_sides(side(old), side(new))


def test_an_installed_perfkit_is_the_same_for_both(trees, monkeypatch):
    installed = trees[1] / ".venv" / "lib" / "site-packages" / "perfkit" / "__init__.py"
    monkeypatch.setattr(side_module.perfkit, "__file__", str(installed))
    assert "PYTHONPATH" not in place_sides(side(trees[0]), side(trees[1]))[0].environment


def test_a_failure_says_whose_it_is_and_why(trees, tmp_path):
    old, _ = trees
    folder = tmp_path / "run"
    ends = [(RunStatus.FAILED, "ConnectionError: gone"), (RunStatus.CRASHED, ""), (RunStatus.FAILED, "ValueError: no")]
    for rank, (status, reason) in enumerate(ends):
        text = f"Traceback: {reason}"
        record = RankRecord(rank=rank, world_size=3, status=status, reason=reason, traceback=text)
        write_json(folder / f"rank{rank}" / "record.json", record)
    run = RunResult(status=RunStatus.FAILED, reason="rank 2: ValueError: no", output_tail="printed")
    error = make_failure(side(old, notes=("it has submodules",)), run, folder)
    assert str(error).splitlines() == [
        f"old: failed: {run.reason}",
        "it has submodules",
        "Traceback: ValueError: no",
    ]
    assert (error.label, error.run, error.traceback) == ("old", run, "Traceback: ValueError: no")


def test_without_a_traceback_the_end_of_the_log_is_shown(trees, tmp_path):
    run = RunResult(status=RunStatus.CRASHED, reason="rank 0 was killed", output_tail="rank 0:\nlast words")
    assert str(make_failure(side(trees[0]), run, tmp_path)).endswith("last words")
