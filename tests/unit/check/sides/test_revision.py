"""Checking out another revision, in real repositories."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perfkit.check.sides.revision import open_worktree, read_working_tree
from perfkit.core.errors import UsageError

IDENTITY = {f"GIT_{who}_{what}": "nobody@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
HOLD = """
import signal, sys, time
from pathlib import Path
from perfkit.check.sides.revision import open_worktree
signal.signal(signal.SIGINT, signal.default_int_handler)
with open_worktree(Path(sys.argv[1]), "v1") as revision:
    print(revision.tree, flush=True)
    time.sleep(60)
"""


def git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


def commit(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "change")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    """Two commits that differ in `sub/code`; the first is tagged v1."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, sub__code="old")
    git(folder, "tag", "v1")
    commit(folder, sub__code="new", later__code="new")
    return folder


def worktrees(folder: Path) -> int:
    return git(folder, "worktree", "list").count("\n") + 1


def test_the_other_revision_lies_beside_while_it_is_used(repository):
    with open_worktree(repository, "v1") as revision:
        assert (revision.path / "sub" / "code").read_text() == "old"
        assert revision.path == revision.tree
        assert revision.hash == git(repository, "rev-parse", "v1")
        assert revision.label == f"v1 ({revision.hash[:7]})"
        assert revision.notes == ()
        assert worktrees(repository) == 2
    assert not revision.tree.parent.exists()
    assert worktrees(repository) == 1


def test_changes_and_branches_stay_as_they_are(repository):
    (repository / "sub" / "code").write_text("changed")
    before = git(repository, "status", "--porcelain", "--branch")
    with open_worktree(repository, "main") as revision:
        assert (revision.path / "sub" / "code").read_text() == "new"
    assert git(repository, "status", "--porcelain", "--branch") == before
    assert (repository / "sub" / "code").read_text() == "changed"


def test_from_a_folder_within(repository):
    with open_worktree(repository / "sub", "v1") as revision:
        assert revision.path == revision.tree / "sub"
    with pytest.raises(UsageError, match=r"v1 .* folder later"), open_worktree(repository / "later", "v1"):
        pass
    assert worktrees(repository) == 1


def test_it_is_removed_when_the_body_fails(repository):
    def fail(revision):
        (revision.tree / "new").write_text("made while running")
        raise KeyError

    with pytest.raises(KeyError), open_worktree(repository, "v1") as revision:
        fail(revision)
    assert not revision.tree.parent.exists()
    assert worktrees(repository) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_removed_when_the_process_is_ended(repository, number):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(repository)], stdout=subprocess.PIPE, text=True)
    tree = Path(process.stdout.readline().strip())
    assert tree.is_dir()
    process.send_signal(number)
    process.wait(30)
    process.stdout.close()
    assert not tree.parent.exists()
    assert worktrees(repository) == 1


@pytest.mark.slow
def test_what_a_killed_process_left_is_removed_by_the_next(repository):
    processes = [
        subprocess.Popen([sys.executable, "-c", HOLD, str(repository)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, running = (Path(process.stdout.readline().strip()) for process in processes)
    try:
        processes[0].kill()
        processes[0].wait()
        assert killed.is_dir()
        with open_worktree(repository, "v1"):
            assert not killed.parent.exists()
            assert running.is_dir()
            assert worktrees(repository) == 3
    finally:
        for process in processes:
            process.terminate()
            process.wait(30)
            process.stdout.close()
    assert worktrees(repository) == 1


def test_an_unknown_revision_says_what_there_is(repository):
    with pytest.raises(UsageError) as caught, open_worktree(repository, "origin/main"):
        pass
    message = str(caught.value)
    assert "'origin/main'" in message
    assert "fetch origin main" in message
    assert "main, v1" in message or "v1, main" in message
    assert "shallow" not in message


def test_a_shallow_clone_is_the_usual_reason(repository, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", str(clone))
    with pytest.raises(UsageError, match="shallow"), open_worktree(clone, "origin/release"):
        pass


def test_outside_of_git(tmp_path):
    with pytest.raises(UsageError, match="git repository"), open_worktree(tmp_path, "main"):
        pass
    assert read_working_tree(tmp_path).label == "working tree"
    assert read_working_tree(tmp_path).tree == tmp_path


def test_the_working_tree_says_what_it_is(repository):
    head = git(repository, "rev-parse", "HEAD")
    assert read_working_tree(repository).label == f"working tree ({head[:7]})"
    (repository / "sub" / "code").write_text("changed")
    revision = read_working_tree(repository / "sub")
    assert revision.label == f"working tree ({head[:7]}, with uncommitted changes)"
    assert (revision.path, revision.tree, revision.hash) == (repository / "sub", repository, head)


def test_within_a_hook_of_another_repository(repository, monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    with open_worktree(repository, "v1") as revision:
        assert (revision.path / "sub" / "code").read_text() == "old"


def test_the_repositorys_hooks_are_not_run(repository):
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with open_worktree(repository, "v1") as revision:
        assert (revision.path / "sub" / "code").is_file()


def test_what_a_checkout_lacks_is_noted(repository):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    commit(repository, weights=pointer, about="see version https://git-lfs.github.com/spec/v1")
    (repository / ".gitmodules").write_text('[submodule "lib"]\n\tpath = lib\n\turl = ../lib\n')
    git(repository, "add", ".gitmodules")
    git(repository, "commit", "-qm", "submodule")
    with open_worktree(repository, "main") as revision:
        submodules, lfs = revision.notes
        assert "submodules" in submodules
        assert "(weights)" in lfs


def test_signals_are_left_alone_outside_of_the_main_thread(repository):
    found = []

    def use():
        with open_worktree(repository, "v1") as revision:
            found.append(revision.hash)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == [git(repository, "rev-parse", "v1")]
