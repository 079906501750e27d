"""The file of stored figures: sorted, short, and written over without losing other tests."""

import json
from pathlib import Path

import msgspec
import pytest
import torch

from perfkit.check.pytest.run import find_removed_tests, store_figures
from perfkit.check.pytest.stored_figures import (
    FiguresUpdate,
    get_stored_calls,
    list_differences,
    read_current_environment,
    read_stored,
    write_stored,
)
from perfkit.core.errors import RunFormatError

HERE = read_current_environment(torch.device("cpu"))


def change(measured: dict[str, dict[str, dict[str, float]]], **more: frozenset[str]) -> FiguresUpdate:
    return FiguresUpdate(measured, HERE, **more)


def test_what_is_written_is_read_again_and_sorted(tmp_path: Path) -> None:
    path = tmp_path / "tests" / "stored.json"
    write_stored(path, change({"b.py::t": {"step on cpu": {"flops": 4.0, "a": 0.0}}, "a.py::t": {"s": {"x": 1.5}}}))
    stored = read_stored(path)
    assert get_stored_calls(stored, "b.py::t") == {"step on cpu": {"a": 0.0, "flops": 4.0}}
    assert get_stored_calls(stored, "c.py::t") == {}
    assert stored.environment == HERE
    text = json.loads(path.read_text())
    assert list(text["variants"]) == ["a.py::t", "b.py::t"]
    assert text["variants"]["b.py::t"] == {"step on cpu": {"exact": {"a": 0, "flops": 4}}}
    assert "null" not in path.read_text()
    assert "4.0" not in path.read_text()


def test_writing_the_same_again_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "stored.json"
    write_stored(path, change({"b.py::t": {"s": {"x": 1.0}}, "a.py::t": {"s": {"x": 2.0}}}))
    before = path.read_bytes()
    write_stored(path, change({"a.py::t": {"s": {"x": 2.0}}}))
    assert path.read_bytes() == before


def test_of_a_test_that_passed_only_what_it_asked_for_stays(tmp_path: Path) -> None:
    path = tmp_path / "stored.json"
    write_stored(path, change({"t": {"old": {"x": 1.0}}, "other": {"s": {"x": 1.0}}}))
    write_stored(path, change({"t": {"new": {"x": 2.0}}}))
    assert set(get_stored_calls(read_stored(path), "t")) == {"old", "new"}
    write_stored(path, change({"t": {"new": {"x": 2.0}}}, whole=frozenset({"t"}), gone=frozenset({"other"})))
    stored = read_stored(path)
    assert {test: set(calls) for test, calls in stored.variants.items()} == {"t": {"new"}}


def test_tests_are_gone_with_their_file_or_from_a_file_that_was_collected_whole(tmp_path: Path) -> None:
    path = tmp_path / "stored.json"
    tests = ["here.py::kept", "here.py::gone", "away.py::t", "unseen.py::t"]
    write_stored(path, change({test: {"s": {"x": 1.0}} for test in tests}))
    for name in ("here.py", "unseen.py"):
        (tmp_path / name).touch()
    assert find_removed_tests(path, tmp_path, {"here.py"}, {"here.py::kept"}) == ["away.py::t", "here.py::gone"]
    assert find_removed_tests(path, tmp_path, set(), set()) == ["away.py::t"]
    store_figures(path, {}, set(), ["away.py::t"])
    assert "away.py::t" not in path.read_text()
    assert "here.py::gone" in path.read_text()


def test_what_can_change_a_figure_is_named() -> None:
    other = msgspec.structs.replace(HERE, torch="1.0", threads=99, hostname="elsewhere")
    assert list_differences(other, HERE) == (f"torch: 1.0 -> {HERE.torch}", f"threads: 99 -> {HERE.threads}")
    assert list_differences(HERE, HERE) == ()


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "stored.json"
    assert read_stored(path) is None
    path.write_text('{"variants": []}')
    with pytest.raises(RunFormatError, match=r"stored\.json"):
        read_stored(path)
