"""`perfkit_check` in real runs of pytest: what passes, what fails and what is said then, and what is stored."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.made_once import made_once

pytest_plugins = ["pytester"]

# A block whose attention and memory can be made worse by name.
MODEL = """
import os, torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        worse = os.environ.get("WORSE", "")
        q, k, v = (each.view(2, 128, 4, 16).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        if worse == "math":
            weights = (q @ k.transpose(-1, -2) / 4).softmax(-1)
            attended = weights @ v
        else:
            attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        hidden = F.gelu(self.up(x))
        if worse == "kept":
            self.kept = [hidden] if not hasattr(self, "kept") else [hidden, self.kept[0]]
        if worse == "op":
            hidden = hidden * 1.0
        return x + self.down(hidden)

def training(depth=2):
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(depth)))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(2, 128, 64)
    def step():
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer, step
"""

BASELINE_TEST = """
from model import training

def test_training_step(perfkit_check):
    model, optimizer, step = training()
    perfkit_check(step, model=model, optimizer=optimizer, baseline=True)
"""

INI = "[pytest]\npythonpath = .\ntestpaths = tests\n"
STORED = "tests/perfkit-baseline.json"
OURS = ("PYTEST_ADDOPTS", "WORSE")  # variables that these runs are not to inherit


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project with the model, in whose processes every run of pytest has what is installed."""
    for variable in OURS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "250")
    pytester.makeini(INI)
    pytester.makepyfile(model=MODEL)
    (pytester.path / "tests").mkdir()
    return pytester


def put(folder: pytest.Pytester, text: str, name: str = "test_step.py") -> Path:
    path = folder.path / "tests" / name
    path.write_text(text)
    return path


def run(folder: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return folder.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


@pytest.fixture(scope="session")
def figures(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The figures of `BASELINE_TEST`, as a run that stores them wrote them."""

    def store(folder: Path) -> None:
        (folder / "model.py").write_text(MODEL)
        (folder / "pytest.ini").write_text(INI)
        (folder / "tests").mkdir(exist_ok=True)
        (folder / "tests" / "test_step.py").write_text(BASELINE_TEST)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--perfkit-update"]
        environment = {name: value for name, value in os.environ.items() if name not in OURS}
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)

    return (made_once(tmp_path_factory, "stored-figures", store) / STORED).read_bytes()


@pytest.fixture
def stored(folder: pytest.Pytester, figures: bytes) -> pytest.Pytester:
    """The project with the stored figures of one test."""
    put(folder, BASELINE_TEST)
    (folder.path / STORED).write_bytes(figures)
    return folder


def test_assertions_limits_and_forms_of_tests(folder: pytest.Pytester) -> None:
    put(
        folder,
        """
import pytest, torch
from model import training
from perfkit.core.errors import PerfkitError, UnavailableError, UsageError

MIB = 2**20

def test_asserts(perfkit_check):
    model, optimizer, step = training()
    found = perfkit_check(step, model=model, optimizer=optimizer)
    assert 0 < found.peak_above_start < found.peak_allocated <= 20 * MIB
    assert found.calls("*scaled_dot_product*", phase="forward") <= 2
    assert found.calls("aten::addmm") == 8
    assert found.saved_activations > 0
    assert found.graph_breaks == 0
    with pytest.raises(UnavailableError, match="op_count"):
        found.kernel_count

@pytest.mark.parametrize("depth", [1, 2])
def test_limits(perfkit_check, depth):
    model, optimizer, step = training(depth)
    perfkit_check(step, model=model, optimizer=optimizer, peak_allocated="<=20MiB", calls={"aten::addmm": 4 * depth})

class TestInference:
    def test_without_gradients(self, perfkit_check):
        model, _, _ = training()
        batch = torch.randn(2, 128, 64)
        with torch.no_grad():
            found = perfkit_check(lambda: model(batch), model=model, name="inference")
        assert found.calls("*backward*") == 0
        with pytest.raises(UnavailableError, match="backward"):
            found.saved_activations

def test_compiled(perfkit_check):
    model, optimizer, _ = training()
    compiled = torch.compile(model, backend="aot_eager")
    batch = torch.randn(2, 128, 64)
    def step():
        compiled(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    found = perfkit_check(step, model=compiled, optimizer=optimizer, graph_breaks=0)
    assert found.calls("aten::addmm") == 8

def test_refused(perfkit_check):
    _, _, step = training()
    with pytest.raises(UsageError, match="step_time"):
        perfkit_check(step, step_time="<=50ms")
    with pytest.raises(UsageError, match="peak"):
        perfkit_check(step, peak="<=1MiB")
    with pytest.raises(UsageError, match="None"):
        perfkit_check(None)
    with torch.profiler.profile(), pytest.raises(PerfkitError, match="profiler"):
        perfkit_check(step)
""",
    )
    result = run(folder, "-v")
    result.assert_outcomes(passed=6)
    assert not (folder.path / STORED).exists()
    result.stdout.fnmatch_lines(
        [
            "*= perfkit =*",
            "tests/test_step.py::test_asserts (step on cpu): peak allocated *MiB (*), * graph breaks 0",
            "tests/test_step.py::TestInference::test_without_gradients (inference on cpu): *",
        ]
    )


def test_failed_assertions_and_limits_say_what_made_the_figure(folder: pytest.Pytester) -> None:
    put(
        folder,
        """
from model import training

def test_assert(perfkit_check):
    model, optimizer, step = training()
    found = perfkit_check(step, model=model, optimizer=optimizer)
    assert found.peak_allocated <= 1000

def test_limit(perfkit_check):
    model, optimizer, step = training()
    perfkit_check(step, model=model, optimizer=optimizer, saved_activations="<=1KiB", calls={"*addmm": 3})
""",
    )
    result = run(folder)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "E * assert *MiB *<= 1,000 B",
            "E * peak allocated*MiB*1,000 B",
            "E * optimizer state",
            "E *FiguresError: saved for backward*MiB*1.00 KiB*",
            "E *[*]addmm*8*3*+5*166.67 %*",
            "E *8 *aten::addmm",
        ]
    )
    assert "perfkit/check/pytest" not in result.stdout.str(), "no frame of perfkit's own is shown"


def test_figures_are_stored_and_hold(stored: pytest.Pytester) -> None:
    path = stored.path / STORED
    figures = json.loads(path.read_text())["variants"]["tests/test_step.py::test_training_step"]["step on cpu"]["exact"]
    assert figures["ops: aten::addmm"] == 8
    assert figures["peak_allocated"] > figures["peak_above_start"] > 0
    before = path.read_bytes()
    run(stored).assert_outcomes(passed=1)
    run(stored, "--perfkit-update").assert_outcomes(passed=1)
    assert path.read_bytes() == before, "writing it again on the same machine changes nothing"


@pytest.mark.parametrize(
    ("worse", "lines"),
    [
        (
            "kept",
            ["*peak allocated*+256 KiB*0.5%*", "E * -> 256 KiB *"],
        ),
        pytest.param("op", ["E *ops per step*+0*", "E *2 -> 6 *aten::mul *"], marks=pytest.mark.nightly),
        pytest.param(
            "math",
            [
                "E *saved for backward*0.5%*",
                "E *ops per step*",
                "E *2 -> *aten::_scaled_dot_product_flash_attention_for_cpu",
            ],
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_planted_regressions_are_found_and_named(
    stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, worse: str, lines: list[str]
) -> None:
    monkeypatch.setenv("WORSE", worse)
    result = run(stored)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(lines)


@pytest.mark.nightly
def test_what_is_worse_within_what_is_allowed_passes_and_is_said_and_fails_where_it_is_to(
    stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(stored, BASELINE_TEST.replace("baseline=True", 'baseline=True, op_count="+9", peak_allocated="50%", '
        'saved_activations="50%"'))  # fmt: skip
    monkeypatch.setenv("WORSE", "op")
    passed = run(stored)
    passed.assert_outcomes(passed=1)
    passed.stdout.fnmatch_lines(["*tests/test_step.py::test_training_step*ops per step*+9*"])
    failed = run(stored, "--perfkit-fail-on=worse")
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["E *ops per step*"])
    (stored.path / "pytest.ini").write_text(f"{INI}perfkit_fail_on = worse\n")
    run(stored).assert_outcomes(failed=1)
    unknown = run(stored, "-o", "perfkit_fail_on=never")
    assert unknown.ret == pytest.ExitCode.USAGE_ERROR
    assert re.search("perfkit_fail_on.*never", unknown.stderr.str())


def test_what_got_better_passes_and_is_said(folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, BASELINE_TEST)
    monkeypatch.setenv("WORSE", "op")
    run(folder, "--perfkit-update").assert_outcomes(passed=1)
    monkeypatch.delenv("WORSE")
    result = run(folder)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*tests/test_step.py::test_training_step*ops per step*", "*pytest --perfkit-update*"])


def test_nothing_stored_fails_and_tells_what_to_do(folder: pytest.Pytester) -> None:
    put(folder, BASELINE_TEST)
    result = run(folder)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *tests/test_step.py::test_training_step (step on cpu)*"])
    result.stdout.fnmatch_lines(["E *`pytest --perfkit-update`*"])


def test_tests_that_are_gone_are_told_and_pruned(stored: pytest.Pytester) -> None:
    put(stored, BASELINE_TEST.replace("test_training_step", "test_renamed"))
    run(stored, "tests/test_step.py::test_renamed", "--perfkit-update").assert_outcomes(passed=1)
    variants = json.loads((stored.path / STORED).read_text())["variants"]
    assert len(variants) == 2, "of a file that was not collected whole nothing is known to be gone"
    run(stored).stdout.fnmatch_lines(["*perfkit-baseline.json*tests/test_step.py::test_training_step"])
    run(stored, "--perfkit-update").stdout.fnmatch_lines(
        ["*perfkit-baseline.json*tests/test_step.py::test_training_step"]
    )
    variants = json.loads((stored.path / STORED).read_text())["variants"]
    assert list(variants) == ["tests/test_step.py::test_renamed"]


@pytest.mark.nightly
def test_steps_of_one_test_are_told_apart(folder: pytest.Pytester) -> None:
    put(
        folder,
        """
from model import training

def test_both(perfkit_check):
    for depth in (1, 2):
        model, optimizer, step = training(depth)
        found = perfkit_check(step, model=model, optimizer=optimizer, flops="+0", calls={"aten::addmm": "+0"})
    found.against_baseline(peak_allocated="off", op_count="1%")
""",
    )
    run(folder, "--perfkit-update").assert_outcomes(passed=1)
    (calls,) = json.loads((folder.path / STORED).read_text())["variants"].values()
    assert {name: call["exact"]["calls: aten::addmm"] for name, call in calls.items()} == {
        "step on cpu": 4,
        "step on cpu 2": 8,
    }
    run(folder).assert_outcomes(passed=1)


@pytest.mark.nightly
def test_the_examples_of_the_docs_run(folder: pytest.Pytester) -> None:
    text = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    put(folder, f"from model import training\n\n{example}")
    run(folder, "--perfkit-update").assert_outcomes(passed=3)
    run(folder).assert_outcomes(passed=3)


@pytest.mark.nightly
def test_with_xdist(stored: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    put(stored, BASELINE_TEST, "test_other.py")
    run(stored, "-n", "2", "--perfkit-update").assert_outcomes(passed=2)
    variants = json.loads((stored.path / STORED).read_text())["variants"]
    assert list(variants) == ["tests/test_other.py::test_training_step", "tests/test_step.py::test_training_step"]
    run(stored, "-n", "2").assert_outcomes(passed=2)


def test_without_its_fixture_nothing_is_imported(folder: pytest.Pytester) -> None:
    put(
        folder,
        """
import sys

def test_nothing():
    loaded = {"torch", "msgspec", "perfkit.check.pytest.check"} & set(sys.modules)
    assert "perfkit.check.pytest.plugin" in sys.modules
    assert not loaded
""",
    )
    (folder.path / STORED).write_text("not read")
    # Of the plugins that are installed here others import what they like.
    arguments = ["-m", "pytest", "-p", "perfkit.check.pytest.plugin", "-v"]
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder.path,
        env={"PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert "= perfkit =" not in result.stdout
