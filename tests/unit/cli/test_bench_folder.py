"""What `perfkit bench` does with its folder before anything is measured."""

import pytest

import perfkit.measure.bench
from perfkit.store.layout import LOCK_FILE

ARGUMENTS = ("-w", "gpt:size=nano", "-t", "amp", "--device", "cpu", "--no-calibrate", "--out", "mine")


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interruption_before_the_first_run_says_that_nothing_was_measured(
    perfkit_in_process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perfkit.measure.bench, "resolve_request_ceilings", interrupted)
    done = perfkit_in_process("bench", *ARGUMENTS)
    assert (done.returncode, done.stderr.count("\n")) == (130, 1)
    assert done.stderr.startswith("interrupted: nothing ")
    assert not (perfkit_in_process.folder / "mine").exists()


def test_a_folder_that_holds_a_lock_only_is_taken(perfkit_in_process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfkit.measure.bench, "resolve_request_ceilings", interrupted)
    mine = perfkit_in_process.folder / "mine"
    mine.mkdir()
    (mine / LOCK_FILE).touch()
    assert perfkit_in_process("bench", *ARGUMENTS).returncode == 130
    (mine / "notes.txt").touch()
    done = perfkit_in_process("bench", *ARGUMENTS)
    assert (done.returncode, done.stderr.split()[:2]) == (2, ["Error:", "mine"])
    assert (mine / "notes.txt").exists()


def test_a_file_is_no_folder(perfkit_in_process) -> None:
    (perfkit_in_process.folder / "mine").touch()
    done = perfkit_in_process("bench", *ARGUMENTS)
    assert done.stderr.startswith("Error: mine ")
