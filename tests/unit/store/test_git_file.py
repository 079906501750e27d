import os
import subprocess
from pathlib import Path

import pytest

from perfkit.core.errors import RunFormatError, UsageError
from perfkit.store.baseline import BASELINE_FILE, Baseline, StoredVariant, write_baseline
from perfkit.store.git_file import NoRevisionError, read_baseline_at, read_file_at
from tests.fixtures.suites import ENVIRONMENT


def git(folder: Path, *arguments: str) -> None:
    identity = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, env={**os.environ, **identity}
    )


def baseline(peak: float) -> Baseline:
    variants = {"gpt": {"baseline": StoredVariant(exact={"peak_allocated": peak})}}
    return Baseline(perfkit="0", environment=ENVIRONMENT, variants=variants)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """`main` holds a baseline of 100 bytes in a folder, the working tree one of 200."""
    root = tmp_path / "project"
    (root / "perf").mkdir(parents=True)
    git(root, "init", "--initial-branch=main")
    write_baseline(root / "perf" / BASELINE_FILE, baseline(100))
    (root / "README").write_text("not a baseline")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    git(root, "switch", "-c", "work")
    write_baseline(root / "perf" / BASELINE_FILE, baseline(200))
    git(root, "commit", "-am", "second")
    return root


def peak(found: Baseline) -> float:
    return found.variants["gpt"]["baseline"].exact["peak_allocated"]


@pytest.mark.parametrize("revision", ["main", "HEAD~1", "refs/heads/main"])
def test_the_file_is_that_of_the_revision(repository: Path, revision: str) -> None:
    path = repository / "perf" / BASELINE_FILE
    assert peak(read_baseline_at(revision, path)) == 100
    assert peak(read_baseline_at("HEAD", path)) == 200


def test_in_a_hook_of_another_repository_it_is_still_this_one(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    (other / "perf").mkdir(parents=True)
    git(other, "init", "--initial-branch=main")
    write_baseline(other / "perf" / BASELINE_FILE, baseline(300))
    git(other, "add", ".")
    git(other, "commit", "-m", "first")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert peak(read_baseline_at("main", repository / "perf" / BASELINE_FILE)) == 100


def test_paths_are_relative_to_the_current_folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "perf")
    assert peak(read_baseline_at("main", Path(BASELINE_FILE))) == 100
    monkeypatch.chdir(repository)
    assert peak(read_baseline_at("main", Path("perf") / BASELINE_FILE)) == 100


def test_the_file_may_be_gone_from_the_working_tree_with_its_folder(repository: Path) -> None:
    path = repository / "perf" / BASELINE_FILE
    git(repository, "rm", "-r", "perf")
    assert not path.parent.exists()
    assert peak(read_baseline_at("main", path)) == 100


def test_a_revision_that_is_not_there_must_be_fetched(repository: Path) -> None:
    with pytest.raises(NoRevisionError, match=r"'origin/main'.*`git fetch origin main`"):
        read_file_at("origin/main", repository / BASELINE_FILE)


@pytest.mark.parametrize("revision", ["", "--help", "main:perf", "-p"])
def test_what_cannot_be_a_revision_never_reaches_git(repository: Path, revision: str) -> None:
    with pytest.raises(UsageError, match="git"):
        read_file_at(revision, repository / BASELINE_FILE)


@pytest.mark.parametrize("name", ["missing.json", "perf"])
def test_a_file_that_the_revision_lacks_must_be_committed(repository: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"main has no file .*perfkit check --update"):
        read_file_at("main", repository / name)


def test_another_file_is_no_baseline(repository: Path) -> None:
    with pytest.raises(RunFormatError, match=r"main:.*README: .*Baseline"):
        read_baseline_at("main", repository / "README")


def test_outside_of_a_repository_there_are_no_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="git"):
        read_file_at("main", tmp_path / BASELINE_FILE)


def test_without_git_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="git"):
        read_file_at("main", tmp_path / BASELINE_FILE)
