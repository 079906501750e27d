"""The statement that compiles a model, by what the model is."""

import pytest

from perfkit.tune.patch.compile_edit import edit_compile

HEAD = "import torch\nfrom torch import nn\n"
STEP = "optimizer = torch.optim.SGD(model.parameters())\n"
MAKER = "def make(width):\n    return nn.Sequential(nn.Linear(width, 1))\n"
FORWARD = "model.forward = torch.compile(model.forward)"


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("model = Net()", "model.compile()"),
        ("model = Net().to(device)", "model.compile()"),
        ("model = nn.Sequential(nn.Linear(2, 1))", FORWARD),
        ("model: nn.Module = torch.nn.Sequential(Net()).to(device).train()", FORWARD),
        (f"{MAKER}model = make(2).to(device)", FORWARD),
        ("model = nn.Sequential(Net())\nif small:\n    model = Net()", "model.compile()"),
        ("model = build(2)", "model.compile()"),
    ],
)
def test_of_modules_of_torch_the_forward_is_compiled(model: str, line: str) -> None:
    source = f"{HEAD}{model}\n{STEP}"
    assert edit_compile(source, ()) == f"{HEAD}{model}\n{line}\n{STEP}"


def test_arguments_are_given_to_either() -> None:
    assert "model.compile(dynamic=True)\n" in edit_compile(f"{HEAD}model = Net()\n{STEP}", ("dynamic=True",))
    source = f"{HEAD}model = nn.Sequential()\n{STEP}"
    assert "torch.compile(model.forward, dynamic=True)\n" in edit_compile(source, ("dynamic=True",))


def test_a_module_of_torch_that_may_be_copied_stays() -> None:
    source = f"import copy\n{HEAD}model = nn.Sequential()\n{STEP}average = copy.deepcopy(model)\n"
    assert edit_compile(source, ()) == source
