"""Which optimizers a trace shows stepping."""

from pathlib import Path

from perfkit.trace.steps.optimizer_spans import find_optimizers
from tests.fixtures.trace_events import event, ops_of, range_


def test_classes_of_what_steps(tmp_path: Path) -> None:
    steps = [range_(f"Optimizer.step#{name}.step", at, 5) for at, name in enumerate(("SGD", "LBFGS", "SGD"))]
    others = [range_("Optimizer.zero_grad#Adam.zero_grad", 20, 2), event("aten::mm", 30, 1)]
    assert find_optimizers(ops_of(tmp_path, *steps, *others).trace) == ("LBFGS", "SGD")
    assert find_optimizers(ops_of(tmp_path, *others).trace) == ()
