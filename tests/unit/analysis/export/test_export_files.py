"""Ops by phase and module as speedscope reads them."""

import json

import pytest

from perfkit.analysis.export.export_files import build_speedscope
from tests.fixtures.rank_traces import rank_trace, row


def test_stacks_are_phase_modules_and_op_and_weigh_a_step() -> None:
    ops = (
        row("aten::mm", 0.3, module="GPT_0/Block_1/Linear_2", attainable_s=0.1),
        row("aten::add", 0.1, module="h.0.act", phase="backward"),
        row("aten::item", 0.05, phase=""),
        row("aten::copy_", 5.0, phase="outside steps"),
    )
    content = json.loads(build_speedscope(rank_trace(label="rank 0", ops=ops)))
    frames = [frame["name"] for frame in content["shared"]["frames"]]
    time, above = content["profiles"]
    assert [[frames[place] for place in stack] for stack in time["samples"]] == [
        ["forward", "GPT_0", "Block_1", "Linear_2", "aten::mm"],
        ["backward", "h", "0", "act", "aten::add"],
        ["no phase", "aten::item"],
    ]
    assert (time["unit"], time["weights"]) == ("milliseconds", [300.0, 100.0, 50.0])
    assert time["endValue"] == pytest.approx(450.0)
    assert above["name"].startswith("rank 0: ")
    assert above["weights"] == [pytest.approx(200.0)]
