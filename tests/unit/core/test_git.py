"""Asking git, in real repositories."""

import os
import subprocess
from pathlib import Path

import pytest

from perfkit.core.git import GitMissingError, find_optional_repository, read_revision, run_git

IDENTITY = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com")


def repository(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "file").write_text(text)
    for arguments in (["init", "-q"], ["add", "."], [*IDENTITY, "commit", "-qm", "first"]):
        subprocess.run(
            ["git", "-C", str(folder), *arguments], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
        )
    return folder


def test_a_hook_of_another_repository_does_not_redirect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = repository(tmp_path / "mine", "mine"), repository(tmp_path / "other", "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert run_git(mine, "show", "HEAD:file").output == b"mine"
    assert find_optional_repository(mine) == mine


def test_uncommitted_changes_show_in_the_revision(tmp_path: Path) -> None:
    mine = repository(tmp_path / "mine", "mine")
    clean = read_revision(mine)
    assert clean is not None
    assert clean == run_git(mine, "rev-parse", "--short=12", "HEAD").text
    (mine / "file").write_text("changed")
    assert read_revision(mine) == f"{clean}-dirty"


def test_outside_of_git_there_is_nothing(tmp_path: Path) -> None:
    assert find_optional_repository(tmp_path) is None
    assert read_revision(tmp_path) is None
    answer = run_git(tmp_path, "rev-parse", "--show-toplevel")
    assert not answer.ok
    assert "not a git repository" in answer.message


def test_without_git_it_is_said_or_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitMissingError, match="not installed"):
        run_git(tmp_path, "status")
    assert find_optional_repository(tmp_path) is None
    assert read_revision(tmp_path) is None


def test_an_answer_that_does_not_come_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = run_git(tmp_path, "status", within_s=0.2)
    assert not answer.ok
    assert "git status" in answer.message
    assert "0.2 s" in answer.message
