"""Checkpointing left out of source: blocks keep their activations in place of computing them twice."""

import libcst as cst

from perfkit.tune.patch.training_code import TrainingCode, list_calls, render, replace_nodes

_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
# Arguments of the checkpoint itself, which change no result; others are the block's, or choose what is recomputed.
_OWN = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug")


def edit_recomputation(source: str) -> str:
    """The source with `block(x)` for each `checkpoint(block, x, use_reentrant=False)`; others stay.

    A reentrant checkpoint gives no gradients where none of its inputs needs one: without it training may differ.
    """
    code = TrainingCode(source)
    calls = [call for call in list_calls(code.module) if _is_plain(code, call)]

    def edit(original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(updated, cst.Call) or not any(call is original for call in calls):
            return updated
        block, *others = updated.args
        given = [arg for arg in others if arg.keyword is None or arg.keyword.value not in _OWN]
        last = [given[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)] if given else []
        return updated.with_changes(func=block.value, args=[*given[:-1], *last])

    return replace_nodes(code.module, edit).code


def _is_plain(code: TrainingCode, call: cst.Call) -> bool:
    """True for a call of `checkpoint` that is not reentrant, of a module or function by its name."""
    if code.find_name(call.func) != _CHECKPOINT or not call.args or any(arg.star for arg in call.args):
        return False
    named = {arg.keyword.value: render(arg.value) for arg in call.args if arg.keyword is not None}
    block = call.args[0]
    is_named = block.keyword is None and isinstance(block.value, cst.Name | cst.Attribute | cst.Subscript)
    return is_named and named.get("use_reentrant") == "False" and "context_fn" not in named
