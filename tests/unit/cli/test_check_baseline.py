"""`perfkit check --baseline` that names nothing."""

import subprocess

import pytest

NO_PATH = "Error: runs/none: "


@pytest.mark.parametrize("repository", [False, True])
def test_it_says_so_before_anything_is_measured(perfkit_in_process, repository: bool) -> None:
    folder = perfkit_in_process.folder
    if repository:
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "pyproject.toml").write_text('[[tool.perfkit.check.cases]]\nworkload = "gpt:size=nano"\n')
    nowhere = perfkit_in_process("check", "--baseline", "runs/none")
    assert nowhere.returncode == 2
    assert nowhere.stderr.startswith(NO_PATH)
    assert "revision" in nowhere.stderr
    assert len(nowhere.stderr.splitlines()) == 1
    assert "fatal" not in nowhere.stderr
    (folder / "runs").mkdir()
    path = perfkit_in_process("check", "--baseline", "runs/none")
    assert path.stderr.startswith(NO_PATH)
    assert len(path.stderr.splitlines()) == 1
    assert "revision" not in path.stderr
    (folder / "runs" / "nona").mkdir()
    near = perfkit_in_process("check", "--baseline", "runs/none")
    assert near.stderr.startswith(NO_PATH)
    assert "runs/nona" in near.stderr
    assert "Compared" not in near.stdout
