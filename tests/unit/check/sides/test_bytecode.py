"""Bytecode of both sides where Python is told to write none."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perfkit.check.sides.bytecode import keep_bytecode
from perfkit.check.sides.side import MeasuredSide, place_sides

LOADED = "import own; print(own.__cached__, __import__('os').path.exists(own.__cached__))"


def run_side(place) -> tuple[Path, bool]:
    """Where the bytecode of the side's module is, and whether it was there at the end."""
    env = {name: value for name, value in {**os.environ, **place.environment}.items() if value is not None}
    told = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=place.folder, env=env, capture_output=True, text=True, check=True
    ).stdout.split()
    return Path(told[0]), told[1] == "True"


@pytest.fixture
def sides(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "own.py").write_text("")
    return [MeasuredSide(label=name, root=tmp_path / name, tree=tmp_path / name) for name in ("old", "new")]


@pytest.mark.slow
def test_both_sides_keep_bytecode_elsewhere_where_none_may_be_written(sides, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with keep_bytecode(*sides) as kept:
        for side, place in zip(sides, place_sides(*kept), strict=True):
            cached, is_there = run_side(place)
            assert is_there
            assert not cached.is_relative_to(side.root)
            assert [path.name for path in side.root.iterdir()] == ["own.py"]
    assert not cached.exists()


def test_sides_are_as_they_are_where_bytecode_may_be_written(sides, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    with keep_bytecode(*sides) as kept:
        assert kept == tuple(sides)


def test_a_variable_of_the_side_itself_stays(sides, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    told = replace(sides[0], variables={"PYTHONDONTWRITEBYTECODE": "1"})
    with keep_bytecode(told, sides[1]) as (before, after):
        assert before.variables["PYTHONDONTWRITEBYTECODE"] == "1"
        assert after.variables["PYTHONDONTWRITEBYTECODE"] is None
        assert before.variables["PYTHONPYCACHEPREFIX"] == after.variables["PYTHONPYCACHEPREFIX"]
