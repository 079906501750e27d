"""Commits, releases and lock file lines to search."""

import subprocess

import pytest

from perfkit.check.bisect.candidates import list_commits, list_lock_lines, list_releases, mix_locks
from perfkit.core.errors import UsageError

RELEASES = ("2.9.0", "2.10.0", "2.11.0", "2.11.1", "2.12.0+cpu")


def names(candidates):
    return [each.name for each in candidates]


def test_releases_are_the_indexs_between_both_ends():
    found = list_releases("torch", "2.10", "2.12.0", lambda _: RELEASES)
    assert names(found) == ["torch==2.10.0", "torch==2.11.0", "torch==2.11.1", "torch==2.12.0+cpu"]


@pytest.mark.parametrize(("good", "bad"), [("2.8", "2.11"), ("2.11", "2.10"), ("2.11", "2.11")])
def test_other_releases_are_refused(good, bad):
    with pytest.raises(UsageError):
        list_releases("torch", good, bad, lambda _: RELEASES)


def test_lock_files_are_mixed_line_by_line(tmp_path):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("# made by pip\na==1\nB_c==1 \\\n    --hash=sha256:00\ngone==1\n-i https://example.org\n")
    bad.write_text("a==1\nb-c==2  # via a\nnew==3\ngone-too==0\n")
    found = list_lock_lines(good, bad)
    assert names(found) == [str(good), "b-c", "gone", "gone-too", "new"]
    assert mix_locks(good, bad, ["b-c", "gone"]) == ("a==1", "b-c==2")
    assert mix_locks(good, bad, names(found)[1:]) == ("a==1", "b-c==2", "gone-too==0", "new==3")
    with pytest.raises(UsageError):
        list_lock_lines(good, good)


@pytest.mark.slow
def test_commits_follow_the_first_parents(tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "main")
    for name in ("one", "two", "three"):
        git("commit", "-q", "--allow-empty", "-m", name)
    git("checkout", "-q", "-b", "side", "HEAD~1")
    git("commit", "-q", "--allow-empty", "-m", "beside")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "merged", "side")
    found = list_commits(tmp_path, "HEAD~2", "main")
    assert [each.detail for each in found] == ["two", "three", "merged"]
    assert found[-1].name == git("rev-parse", "HEAD")
    with pytest.raises(UsageError):
        list_commits(tmp_path, "main", "HEAD~2")
    with pytest.raises(UsageError) as raised:
        list_commits(tmp_path, "nothing", "main")
    assert raised.value.id == "usage.no_revision"
