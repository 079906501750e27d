"""`perfkit check` as a user runs it: verdicts and exit codes of real measurements of a small model."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import CommandLine

TRAIN = """
import torch
from torch import nn
import perfkit

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
        self.kept = []

    def forward(self, x):
        y = self.body(x)
        {planted}
        return y

def build():
    return perfkit.Workload(
        name="theirs", unit="samples", units_per_batch=32, build_model=Net,
        build_optimizer=lambda model: torch.optim.AdamW(model.parameters()),
        make_batch=lambda generator: {{"x": torch.randn(32, 64, generator=generator)}},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )
"""
CONFIG = """
[tool.perfkit.check]
threads = 1
budget = "40s"

[tool.perfkit.check.thresholds]
cpu_time = "off"
step_time = "off"

[[tool.perfkit.check.cases]]
workload = "train.py:build"
"""


def write(folder: Path, planted: str = "pass") -> None:
    (folder / "train.py").write_text(TRAIN.format(planted=planted))


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(perfkit: CommandLine) -> CommandLine:
    """A git repository with a training script, a configuration, and a commit of both."""
    return prepare(perfkit)


@pytest.fixture
def project_in_process(perfkit_in_process: CommandLine) -> CommandLine:
    """The same, where nothing is trained."""
    return prepare(perfkit_in_process)


def prepare(perfkit: CommandLine) -> CommandLine:
    perfkit.environment["OMP_NUM_THREADS"] = "1"
    write(perfkit.folder)
    (perfkit.folder / "pyproject.toml").write_text(CONFIG)
    (perfkit.folder / ".gitignore").write_text("runs/\n__pycache__/\n")
    git(perfkit.folder, "init", "-b", "main")
    git(perfkit.folder, "add", ".")
    git(perfkit.folder, "commit", "-m", "first")
    return perfkit


def found(folder: Path) -> dict[str, Any]:
    """Verdicts by quantity of the only variant, and the check itself as `check`."""
    check = json.loads((folder / "check.json").read_text())
    (variant,) = check["variants"]
    return {each["quantity"]: each for each in variant["quantities"]} | {"check": check, "why": variant["explanation"]}


@pytest.mark.slow
def test_a_stored_baseline(project: CommandLine) -> None:
    updated = project("check", "--update", "--exact")
    assert updated.returncode == 0, updated.stderr
    baseline = (project.folder / "perfkit-baseline.json").read_text()
    assert '"peak_allocated"' in baseline
    assert "step_time" not in baseline

    same = project("check", "--exact", "--out", "same", "--junit", "junit.xml", "--markdown", "comment.md")
    assert same.returncode == 0, same.stdout + same.stderr
    assert found(project.folder / "same")["peak_allocated"]["change"] == 0
    assert ElementTree.parse(project.folder / "junit.xml").getroot().tag == "testsuites"
    assert "pass" in (project.folder / "comment.md").read_text()

    write(project.folder, "y = y + torch.softmax(y, -1) * 0")
    worse = project("check", "--exact", "--out", "worse")
    assert worse.returncode == 1
    quantities = found(project.folder / "worse")
    assert quantities["kernel_count"]["verdict"] == "fail"
    assert quantities["parity"]["verdict"] == "pass"

    again = project("check", "--update", "--exact")
    assert again.returncode == 0
    lines = zip(baseline.splitlines(), (project.folder / "perfkit-baseline.json").read_text().splitlines(), strict=True)
    changed = {old.strip().partition(":")[0].strip('"') for old, new in lines if old != new}
    assert {"kernel_count", "peak_allocated"} >= changed > set()

    committed = project("check", "--baseline", "main", "--exact")
    assert committed.returncode == 2
    assert "perfkit check --update" in committed.stderr


@pytest.mark.slow
def test_against_a_revision_the_op_that_was_planted_is_named(project: CommandLine) -> None:
    write(project.folder, "y = y + torch.softmax(y, -1) * 0")
    result = project("check", "--against-ref", "main", "--exact", "--out", "out", "--github")
    assert result.returncode == 1, result.stderr
    quantities = found(project.folder / "out")
    assert quantities["kernel_count"]["verdict"] == "fail"
    assert any("softmax" in suspect for suspect in quantities["why"]["suspects"])
    assert "softmax" in result.stdout
    assert "::error" in result.stdout
    report = (project.folder / "out" / "report.html").read_text()
    assert "softmax" in report
    assert not list(project.folder.parent.glob("perfkit-worktree-*"))


@pytest.mark.slow
def test_against_another_environment_the_variable_is_what_differs(project: CommandLine) -> None:
    result = project(
        "check", "--against-env", sys.prefix, "--against-env-var", "OMP_NUM_THREADS=1", "--exact", "--out", "out"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    check = found(project.folder / "out")["check"]
    assert check["under_test"] == "environment"
    assert check["before"]["label"].endswith("OMP_NUM_THREADS=1")
    assert check["before"]["environment"]["threads"] == 1
    assert not [each for each in check["environment_differences"] if each.startswith("torch")]


@pytest.mark.slow
def test_an_activation_that_is_kept_alive(project: CommandLine) -> None:
    write(project.folder, "self.kept.append(self.body[0](x)); self.kept = self.kept[-1:]")
    result = project("check", "--against-ref", "HEAD", "--exact", "--out", "out")
    assert result.returncode == 1, result.stderr
    quantities = found(project.folder / "out")
    assert quantities["peak_allocated"]["verdict"] == "fail"
    assert any("body.0" in suspect for suspect in quantities["why"]["suspects"])


@pytest.mark.nightly
def test_times_of_pairs_of_processes(project: CommandLine) -> None:
    """A step of twice the work is told from one, whatever the machine does beside it."""
    write(project.folder, "[self.body(x.detach()) for _ in range(6)]")
    arguments = ("--threshold", "cpu_time=20%", "--threshold", "kernel_count=off", "--threshold", "flops=off")
    result = project("check", "--against-ref", "main", "--out", "out", *arguments, "--budget", "90s")
    quantities = found(project.folder / "out")
    assert quantities["cpu_time"]["verdict"] == "fail", quantities["cpu_time"]
    assert quantities["cpu_time"]["low"] > 0
    assert quantities["cpu_time"]["samples"] >= 2
    assert result.returncode == 1
    assert (project.folder / "out" / "1-train.py-build" / "pairs").is_dir()


@pytest.mark.slow
def test_a_side_that_does_not_train(project: CommandLine) -> None:
    write(project.folder, "raise RuntimeError('planted')")
    result = project("check", "--against-ref", "main", "--out", "out")
    assert result.returncode == 1, result.stderr
    outcome = found(project.folder / "out")["outcome"]
    assert outcome["verdict"] == "fail"
    assert "planted" in outcome["reason"]


@pytest.mark.nightly
def test_two_runs_that_are_there(project: CommandLine, tiny_schedule: tuple[str, ...]) -> None:
    arguments = ("--workload", "train.py:build", "--technique", "amp", *tiny_schedule)
    for name in ("old", "new"):
        if name == "new":
            write(project.folder, "y = y + torch.softmax(y, -1) * 0")
        assert project("bench", *arguments, "--out", name).returncode == 0
    result = project("check", "new", "--baseline", "old", "--exact", "--out", "out", "--json")
    assert result.returncode == 1, result.stderr
    check = json.loads(result.stdout)
    assert [variant["variant"] for variant in check["variants"]] == ["baseline", "amp"]
    assert (check["before"]["label"], check["after"]["label"]) == ("old", "new")
    assert any("softmax" in suspect for suspect in check["variants"][0]["explanation"]["suspects"])


@pytest.mark.nightly
def test_what_is_worse_within_its_threshold_fails_where_it_is_asked_to(
    project: CommandLine, tiny_schedule: tuple[str, ...]
) -> None:
    for name in ("old", "new"):
        if name == "new":
            write(project.folder, "y = y + torch.softmax(y, -1) * 0")
        assert project("bench", "--workload", "train.py:build", *tiny_schedule, "--out", name).returncode == 0
    wide = [f"--threshold={name}=900%" for name in ("kernel_count", "flops", "peak_allocated")]
    compare = ("check", "new", "--baseline", "old", "--exact", "--github", *wide)
    shown = project(*compare, "--out", "shown")
    assert (shown.returncode, json.loads((project.folder / "shown" / "check.json").read_text())["verdict"]) == (
        0,
        "worse",
    )
    assert "::warning" in shown.stdout
    assert "worse: kernels per step" in shown.stdout
    failed = project(*compare, "--out", "failed", "--fail-on", "worse")
    assert failed.returncode == 1
    assert "::error" in failed.stdout


def test_where_github_shows_things(project: CommandLine) -> None:
    """Annotations and the step's summary come by themselves in its environment."""
    project.environment |= {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(project.folder / "summary.md")}
    write(project.folder, "y = y + torch.softmax(y, -1) * 0")
    result = project("check", "--against-ref", "main", "--exact", "--quiet")
    assert result.returncode == 1
    assert "::error" in result.stdout
    assert "softmax" in (project.folder / "summary.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--update", "--calibrate"], "--calibrate"),
        (["--against-ref", "nowhere", "--exact"], "nowhere"),
        (["--threshold", "step_time"], "QUANTITY=T"),
        (["--threshold", "steptime=3%"], "step_time"),
        (["--exact"], "perfkit check --update"),
        (["--baseline", "nowhere", "--exact"], "nowhere"),
        (["--baseline", "runs/none", "--exact"], "runs/none"),
        (["--fail-on", "pass"], "worse"),
        (["."], "--baseline"),
        (["--budget", "soon"], "budget"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    project_in_process: CommandLine, arguments: list[str], said: str
) -> None:
    result = project_in_process("check", *arguments)
    assert result.returncode == 2, result.stderr
    assert said in result.stderr
    assert not (project_in_process.folder / "runs").exists()


def test_without_a_case_an_example_is_shown(perfkit_in_process: CommandLine) -> None:
    result = perfkit_in_process("check", "--against-ref", "HEAD")
    assert result.returncode == 2
    assert "[[tool.perfkit.check.cases]]" in result.stderr or "git repository" in result.stderr
