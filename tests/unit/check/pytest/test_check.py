"""`perfkit_check` of steps that have no figures to judge."""

from itertools import cycle
from pathlib import Path

import pytest
import torch

from perfkit.check.pytest.check import PerfkitCheck, TestFigures
from perfkit.core.errors import UnavailableError


def test_calls_that_take_turns_are_not_judged(tmp_path: Path) -> None:
    """Neither by a limit nor by stored figures, of which none are kept; what does not differ is."""

    def step() -> None:
        torch.ones(next(turns)).sum()

    for updating in (False, True):
        figures = TestFigures("test", tmp_path / "figures.json", updating=updating)
        check = PerfkitCheck(figures)
        turns = cycle([3, 500])
        for asked in ({"op_count": 10_000}, {"calls": {"aten::sum": 9}}, {"baseline": True}):
            with pytest.raises(UnavailableError, match="2 kinds"):
                check(step, **asked)
        check(step, graph_breaks=0)
        assert figures.kept == {}
        turns = cycle([3])
        check(step, op_count=10_000, calls={"aten::sum": 9})
