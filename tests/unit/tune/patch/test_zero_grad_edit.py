"""Gradients are dropped in place of zeros, unless a program looks at them."""

import pytest

from perfkit.tune.patch.zero_grad_edit import edit_zero_grad


@pytest.mark.parametrize("argument", ["set_to_none=False", "False"])
def test_gradients_are_dropped(argument: str) -> None:
    assert edit_zero_grad(f"optimizer.zero_grad({argument})\n") == "optimizer.zero_grad()\n"


@pytest.mark.parametrize(
    "source",
    [
        "optimizer.zero_grad()\n",
        "optimizer.zero_grad(set_to_none=True)\n",
        "zero_grad(False)\n",
        "optimizer.zero_grad(set_to_none=False)\nnorm = model.weight.grad.norm()\n",  # None after it
        "optimizer.zero_grad(set_to_none=flag)\n",
    ],
)  # fmt: skip
def test_other_calls_stay(source: str) -> None:
    assert edit_zero_grad(source) == source
