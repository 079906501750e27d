"""Stacks of torch's own functions, the outermost first."""

import pytest

from perfkit.instruments.stacks.stack_phases import find_phase

TORCH = "/v/site-packages/torch"
MAIN = ("main", "/me/train.py")
CALL = ("Module._call_impl", f"{TORCH}/nn/modules/module.py")
STEP = ("AdamW.step", f"{TORCH}/optim/adamw.py")
BACKWARD = ("Tensor.backward", f"{TORCH}/_tensor.py")
FETCH = ("_BaseDataLoaderIter.__next__", f"{TORCH}/utils/data/dataloader.py")


@pytest.mark.parametrize(
    ("calls", "phase"),
    [
        ((MAIN,), ""),
        ((MAIN, CALL), "forward"),
        ((MAIN, BACKWARD), "backward"),
        ((MAIN, BACKWARD, MAIN, CALL), "backward"),  # a checkpoint that computes again
        ((MAIN, STEP), "optimizer"),
        ((MAIN, STEP, MAIN, CALL), "forward"),  # a closure
        ((MAIN, ("Optimizer.zero_grad", f"{TORCH}/optim/optimizer.py")), ""),
        ((MAIN, ("StepLR.step", f"{TORCH}/optim/lr_scheduler.py")), ""),
        ((MAIN, FETCH, ("_SingleProcessDataLoaderIter._next_data", f"{TORCH}/utils/data/dataloader.py")), "data"),
        ((MAIN, FETCH, MAIN, CALL), "data"),  # a dataset that runs a model
        ((MAIN, ("Mine.backward", "/me/backward.py")), ""),
        ((MAIN, ("Tensor.backward", r"C:\v\Lib\site-packages\torch\_tensor.py")), "backward"),
    ],
)
def test_what_functions_of_torch_tell(calls: tuple[tuple[str, str], ...], phase: str) -> None:
    assert find_phase(calls) == phase
