"""`optim:use=fused` and `use=foreach` in source: an argument of the optimizer's constructor."""

from collections.abc import Sequence

import libcst as cst

from perfkit.tune.patch.training_code import TrainingCode, replace_nodes

# Optimizers of torch 2.9 with a `fused` implementation.
_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
_IMPLEMENTATIONS = ("fused", "foreach")
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def edit_optimizer(source: str, implementation: str) -> str:
    """The source with `fused=True` or `foreach=True` in every optimizer that has it; unchanged without any."""
    code = TrainingCode(source)
    known = [each.call for each in code.list_optimizers() if implementation == "foreach" or each.name in _FUSED]

    def edit(original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(updated, cst.Call) or not any(call is original for call in known):
            return updated
        return updated.with_changes(args=_set_flag(updated.args, implementation))

    return replace_nodes(code.module, edit).code


def _set_flag(args: Sequence[cst.Arg], name: str) -> list[cst.Arg]:
    """The arguments with `name=True` in place of other implementations, spaced as the others are; before `**options`,
    which Python wants last."""
    flag = cst.Arg(
        keyword=cst.Name(name),
        value=cst.Name("True"),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    kept = [arg for arg in args if arg.keyword is None or arg.keyword.value not in _IMPLEMENTATIONS]
    place = next((at for at, arg in enumerate(kept) if arg.star == "**"), len(kept))
    placed = [*kept[:place], flag, *kept[place:]]
    inner = next((arg.comma for arg in args[:-1] if isinstance(arg.comma, cst.Comma)), _COMMA)
    last = args[-1] if args else flag
    return [
        *(arg.with_changes(comma=inner, whitespace_after_arg=cst.SimpleWhitespace("")) for arg in placed[:-1]),
        placed[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg),
    ]
