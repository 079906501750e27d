"""Which calls of Python are the user's lines."""

import pytest

from perfkit.trace.memory.source_lines import parse_line


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("train.py(10): main", "train.py:10 main"),
        ("/home/me/src/model.py(42): forward", "model.py:42 forward"),
        ("C:\\me\\model.py(42): forward", "model.py:42 forward"),
        ("transformers/models/gpt2/modeling_gpt2.py(300): forward", "modeling_gpt2.py:300 forward"),
        ("/usr/lib/python3.11/site-packages/transformers/x.py(3): <lambda>", "x.py:3 <lambda>"),
        ("torch/nn/modules/linear.py(125): forward", None),
        ("/opt/lib/python3.11/site-packages/torch/nn/modules/linear.py(125): forward", None),
        ("perfkit/measure/rank/train_step.py(20): step", None),
        ("threading.py(975): run", None),
        ("/usr/lib/python3.11/contextlib.py(81): inner", None),
        ("<built-in method mul_ of Tensor object at 0x7f>", None),
        ("<string>(1): <module>", None),
        ("nn.Module: Linear_3", None),
    ],
)
def test_lines_of_the_program(name: str, line: str | None) -> None:
    assert parse_line(name) == line
