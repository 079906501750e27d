"""The table of edits: each is described, and has a tolerance of its losses."""

import pytest

from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from perfkit.tune.patch.script_edits import SCRIPT_EDITS, EditPlace, ScriptEdit, describe_edit, get_tolerance

PLACE = EditPlace("cpu", 4)


@pytest.mark.parametrize("edit", SCRIPT_EDITS, ids=lambda edit: edit.name)
def test_each_edit_is_described_and_leaves_other_sources(edit: ScriptEdit) -> None:
    described = describe_edit(edit.name)
    assert described.label == edit.name
    assert described.summary
    assert described.costs
    assert get_tolerance(edit) is not None
    assert edit.write("print('no training here')\n", PLACE) == "print('no training here')\n"


def test_a_device_without_bf16_gets_no_autocast() -> None:
    loop = (
        "import torch\nmodel.train()\nfor x in data:\n    loss = model(x)\n    loss.backward()\n"
        "torch.optim.SGD(model.parameters())\n"
    )
    amp = next(edit for edit in SCRIPT_EDITS if edit.name == "amp")
    assert "bfloat16" in amp.write(loop, PLACE)
    assert amp.write(loop, PLACE._replace(has_bf16=False)) == loop


def test_a_compiled_program_is_not_compiled_again() -> None:
    source = "import torch\nmodel = torch.compile(model)\noptimizer = torch.optim.SGD(model.parameters())\n"
    compiled = next(edit for edit in SCRIPT_EDITS if edit.name == "compile")
    assert compiled.write(source, PLACE) == source


def test_each_finding_that_an_edit_answers_is_one() -> None:
    known = {kind.id for subject in SUBJECTS for kind in subject.kinds}
    assert {finding for edit in SCRIPT_EDITS for finding in edit.findings} <= known
