"""The examples for CI: the docs link them, what their YAML says, and their shell lines run in a git repository."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from tests.fixtures.workflow import Script, github_scripts, gitlab_scripts, run_script

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GITHUB, GITLAB = (ROOT / "examples" / "ci" / name for name in ("github-actions.yml", "gitlab-ci.yml"))

PYPROJECT = """
[[tool.perfkit.check.cases]]
workload = "train.py:build"
batch_size = 8
"""


@pytest.mark.parametrize("path", [GITHUB, GITLAB], ids=lambda path: path.stem)
def test_the_docs_link_the_examples(path: Path) -> None:
    assert f"(../examples/ci/{path.name})" in (ROOT / "docs" / "ci.md").read_text()


def test_github_actions_fetches_the_history_and_keeps_the_report() -> None:
    workflow = yaml.safe_load(GITHUB.read_text())
    assert workflow[True] == "pull_request"  # YAML 1.1 takes `on` for a truth value; GitHub does not
    steps = workflow["jobs"]["check"]["steps"]
    used = {step["uses"].partition("@")[0]: step for step in steps if "uses" in step}
    assert used["actions/checkout"]["with"]["fetch-depth"] == 0
    assert used["actions/setup-python"]["with"]["cache"] == "pip"
    (check,) = (script for script in github_scripts(GITHUB) if "perfkit check" in script.text)
    folder = used["actions/upload-artifact"]["with"]["path"]
    assert f"--out {folder} " in check.text
    assert used["actions/upload-artifact"]["if"] == "always()", "the report of a failed check is the one that is wanted"
    (comment,) = (script for script in github_scripts(GITHUB) if "gh pr comment" in script.text)
    assert "--markdown perfkit-comment.md" in check.text
    assert "--body-file perfkit-comment.md" in comment.text


def test_gitlab_keeps_the_junit_report_and_the_page() -> None:
    job = yaml.safe_load(GITLAB.read_text())["perfkit"]
    assert job["variables"]["GIT_DEPTH"] == "0"
    (script,) = gitlab_scripts(GITLAB)
    assert f"--junit {job['artifacts']['reports']['junit']}" in script.text
    assert all(f"--out {path} " in script.text for path in job["artifacts"]["paths"])
    assert job["artifacts"]["when"] == "always"


def test_every_option_of_the_examples_is_one_of_the_command() -> None:
    from perfkit_cli.check import command

    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for script in (*github_scripts(GITHUB), *gitlab_scripts(GITLAB)):
        (line,) = [line for line in script.text.replace("\\\n", " ").splitlines() if "perfkit check" in line] or [""]
        assert {word for word in line.split() if word.startswith("--")} <= known


def test_a_script_ends_with_the_first_line_that_fails(tmp_path: Path) -> None:
    found = run_script(Script("fails", 'echo "$GREETING"\nfalse | true\necho never'), tmp_path, {"GREETING": "hello"})
    assert found.returncode == 1
    assert found.stdout == "hello\n"


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone whose branch holds more memory at its peak than `main` of its origin."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    text = (ROOT / "tests" / "fixtures" / "workloads" / "mlp.py").read_text()
    (origin / "train.py").write_text(text)
    (origin / "pyproject.toml").write_text(PYPROJECT)
    git(origin, "init", "--initial-branch=main")
    git(origin, "add", ".")
    git(origin, "commit", "-m", "before")
    git(tmp_path, "clone", str(origin), str(clone))
    worse = text.replace("nn.ReLU()", "nn.ReLU(), nn.Tanh(), nn.Tanh()", 1)
    assert worse != text
    git(clone, "checkout", "-b", "change")
    (clone / "train.py").write_text(worse)
    git(clone, "commit", "-am", "two activations more")
    return clone


@pytest.fixture
def around(checkout: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """What a runner sets, and a `gh` that writes down what it was called with."""
    tools = checkout.parent / "tools"
    tools.mkdir()
    if sys.platform == "linux":
        request.getfixturevalue("warm_starts").write_program(tools / "perfkit")
    gh = tools / "gh"
    gh.write_text(f'#!/bin/sh\necho "$@" >> {checkout.parent}/gh.log\n')
    gh.chmod(0o755)
    return {
        "PATH": os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PERFKIT_CACHE": str(checkout.parent / "cache"),
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(checkout.parent / "summary.md"),
        "NUMBER": "7",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "OMP_NUM_THREADS": "1",
    }


def hurried(script: Script) -> Script:
    """The script with less time for sampling: what is compared exactly decides here."""
    return Script(script.name, script.text.replace("--budget 5min", "--budget 1s"))


@pytest.mark.slow
def test_github_actions_finds_a_regression(checkout: Path, around: dict[str, str]) -> None:
    check, comment = (hurried(script) for script in github_scripts(GITHUB))
    found = run_script(check, checkout, around)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "::error" in found.stdout
    assert (checkout / "perfkit-report" / "report.html").exists()
    assert "peak allocated" in (checkout / "perfkit-comment.md").read_text()
    assert "peak allocated" in (checkout.parent / "summary.md").read_text()
    assert run_script(comment, checkout, around).returncode == 0
    assert (checkout.parent / "gh.log").read_text() == "pr comment 7 --edit-last --body-file perfkit-comment.md\n"


@pytest.mark.nightly
def test_gitlab_finds_a_regression(checkout: Path, around: dict[str, str]) -> None:
    (script,) = gitlab_scripts(GITLAB)
    found = run_script(hurried(script), checkout, around)
    assert found.returncode == 1, found.stdout + found.stderr
    assert (checkout / "perfkit-report" / "report.html").exists()
    suite = ElementTree.parse(checkout / "perfkit-junit.xml").getroot()
    assert [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
