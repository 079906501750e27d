"""Recompilations in a loop that perfkit is attached to: what changed, in which steps, and where torch gave up."""

from typing import Any

import pytest

import perfkit
from tests.fixtures.attached import UNDER_PERFKIT, finished

pytestmark = pytest.mark.slow

# Counted from 1: sizes change in steps 4 and 9, the number in 6, the attribute in 8; the last function has a size of
# its own in each step, and torch's limit is four graphs.
PROGRAM = """
import torch

torch._dynamo.config.recompile_limit = 4


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.scale = 1.0

    def forward(self, x):
        return self.linear(x) * self.scale


def add_sizes(x):
    return x.square().sum()


def repeat(x, times):
    return x.sum() * times


def grow(x):
    return x.sum()


model = Scaled()
scaled = torch.compile(model, backend="eager", dynamic=False)
add_sizes, repeat, grow = (torch.compile(each, backend="eager", dynamic=False) for each in (add_sizes, repeat, grow))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for step in range(1, 41):
    model.scale = 2.0 if step == 8 else 1.0
    y = scaled(torch.ones(4, 8))
    rows = {4: 5, 9: 6}.get(step, 4)
    loss = add_sizes(torch.ones(rows, 8)) + repeat(y, 3 if step == 6 else 2) + grow(torch.ones(8, step))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("recompilations")
    (folder / "train.py").write_text(PROGRAM)
    options = ("--warmup", "2", "--timed", "8", "--trace", "1", "--memory", "0", "--stacks", "off")
    ended = finished([*UNDER_PERFKIT, "--out", "run", *options, folder / "train.py"], cwd=folder)
    assert ended.returncode == 0, ended.stderr.decode()
    return perfkit.analyze(folder / "run")


def test_each_function_has_what_changed_and_when(analysis: Any) -> None:
    (variant,) = analysis.variants
    rows = {row.function.partition(" ")[0]: row for row in variant.compile.recompilations}
    assert set(rows) == {"forward", "add_sizes", "repeat", "grow"}
    sizes = rows["add_sizes"]
    assert (sizes.argument, sizes.dimension, sizes.count, sizes.steps) == ("x", 0, 2, (4, 9))
    assert set(sizes.values) == {"4", "5", "6"}
    number, attribute = rows["repeat"], rows["forward"]
    assert (number.argument, number.dimension, number.steps, number.values) == ("times", None, (6,), ("2",))
    assert (attribute.argument, attribute.steps, attribute.values) == ("self.scale", (8,), ("1.0",))
    assert min(row.seconds for row in rows.values()) > 0


def test_a_function_beyond_torchs_limit_runs_uncompiled(analysis: Any) -> None:
    (variant,) = analysis.variants
    (limited,) = [row for row in variant.compile.recompilations if row.limited]
    assert limited.function.startswith("grow ")
    assert (limited.argument, limited.dimension, limited.count, limited.steps) == ("x", 1, 3, (2, 3, 4))


def test_the_finding_sums_them_and_the_wall_time_has_them(analysis: Any) -> None:
    (found,) = [finding for finding in analysis.findings if finding.id == "compile.recompilations"]
    assert (found.figures["recompilations"], found.figures["limited"]) == (7, 1)
    assert found.figures["steps"] == len({4, 9, 6, 8, 2, 3})
    wall = analysis.variants[0].loop.wall_time
    assert wall.compilations >= 4 + 7
    assert wall.compilation_s >= found.figures["compile_s"] * 0.5
