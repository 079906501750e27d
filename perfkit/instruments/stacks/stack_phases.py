"""The phase of a step that a stack is in, as the functions of torch in it tell."""

from collections.abc import Iterable

from perfkit.store.stacks import DATA

# A function or method of this name, in a file whose path has this part.
_TELL = {
    ("_next_data", "torch/utils/data/dataloader.py"): DATA,
    ("__next__", "torch/utils/data/dataloader.py"): DATA,
    ("_call_impl", "torch/nn/modules/module.py"): "forward",
    ("backward", "torch/_tensor.py"): "backward",
    ("backward", "torch/autograd/__init__.py"): "backward",
    ("grad", "torch/autograd/__init__.py"): "backward",
}
_OPTIMIZERS, _SCHEDULES = "torch/optim/", "torch/optim/lr_scheduler.py"


def find_phase(calls: Iterable[tuple[str, str]]) -> str:
    """The phase of `calls`, names and files, the outermost first; "" where none tells.

    The innermost counts, since an optimizer may call forward and backward; but a model that runs within them is
    recomputed, or makes the data.
    """
    phase = ""
    for name, file in calls:
        candidate = _classify_call(name.rpartition(".")[2], file.replace("\\", "/"))
        if candidate and not (candidate == "forward" and phase in ("backward", DATA)):
            phase = candidate
    return phase


def _classify_call(name: str, file: str) -> str:
    if _OPTIMIZERS in file and not file.endswith(_SCHEDULES):
        return "" if name == "zero_grad" else "optimizer"
    return next((phase for (function, part), phase in _TELL.items() if name == function and file.endswith(part)), "")
