"""Worker processes of a DataLoader in source: arguments of its constructor."""

from collections.abc import Sequence

import libcst as cst

from perfkit.tune.patch.call_arguments import set_arguments
from perfkit.tune.patch.training_code import (
    TrainingCode,
    find_training_loops,
    list_assigned,
    list_calls,
    render,
    replace_nodes,
)

_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
# In the names of loaders whose batches are trained on.
_TRAINS = "train"


def edit_loaders(source: str, workers: int, *, pinned: bool) -> str:
    """The source with `workers` processes in every DataLoader that a training loop reads and that has none; with page-
    locked batches if `pinned`. Unchanged where that is not certain: other arguments unpacked with `**`, or a number
    that is no literal."""
    code = TrainingCode(source)
    wanted = {"num_workers": str(workers), "persistent_workers": "True"} | ({"pin_memory": "True"} if pinned else {})
    calls = [call for call in _list_training_loaders(code) if _has_no_workers(call)]

    def edit(original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(updated, cst.Call) or not any(call is original for call in calls):
            return updated
        return set_arguments(updated, wanted)

    return replace_nodes(code.module, edit).code


def _list_training_loaders(code: TrainingCode) -> list[cst.Call]:
    """The constructor calls of the loaders that a loop with a backward pass iterates, by name; where no name is known,
    the only one, or those whose names say so. What only an evaluation reads is not measured in steps."""
    iterated = {name for loop in find_training_loops(code.module) for name in _list_iterated(loop)}
    loaders = [call for call in list_calls(code.module) if code.find_name(call.func) in _LOADERS]
    named = [(call, _find_name(code, call)) for call in loaders]
    if any(name in iterated for _, name in named):
        return [call for call, name in named if name in iterated]
    if len(loaders) == 1 and not any(_is_iterator(call) for call in list_calls(code.module)):
        return loaders
    return [call for call, name in named if _TRAINS in name.lower()]


def _list_iterated(loop: cst.For | cst.While) -> list[str]:
    """The sources of what a loop may iterate: `loader` of `enumerate(tqdm(loader), 1)`."""
    if isinstance(loop, cst.While):
        return []
    names, node = [render(loop.iter)], loop.iter
    while isinstance(node, cst.Call) and node.args:
        node = node.args[0].value
        names.append(render(node))
    return names


def _is_iterator(call: cst.Call) -> bool:
    """True for `iter(...)`: batches are taken by hand, of a loader that may be another one."""
    return render(call.func) == "iter"


def _find_name(code: TrainingCode, call: cst.Call) -> str:
    """The name that the loader is assigned to; "" without one."""
    statement = code.find_statement(call)
    return next(iter(list_assigned(statement)), "") if statement is not None else ""


def _has_no_workers(call: cst.Call) -> bool:
    if any(arg.star for arg in call.args):
        return False
    values: Sequence[str] = [
        render(arg.value) for arg in call.args if arg.keyword is not None and arg.keyword.value == "num_workers"
    ]
    return len([arg for arg in call.args if arg.keyword is None]) <= _BEFORE_WORKERS and values in ([], ["0"])


_BEFORE_WORKERS = 5  # dataset, batch_size, shuffle, sampler, batch_sampler
