"""Sets arguments of a call in source, spaced as the others are."""

from collections.abc import Collection, Mapping, Sequence

import libcst as cst

_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def set_arguments(call: cst.Call, values: Mapping[str, str], without: Collection[str] = ()) -> cst.Call:
    """The call with these keyword arguments, and none of those in `without`; before `**options`, which Python wants
    last."""
    args = call.args
    kept = [arg for arg in args if arg.keyword is None or arg.keyword.value not in (*values, *without)]
    place = next((at for at, arg in enumerate(kept) if arg.star == "**"), len(kept))
    placed = [*kept[:place], *(_make_argument(name, value) for name, value in values.items()), *kept[place:]]
    return call.with_changes(args=_space_arguments(placed, args)) if placed else call.with_changes(args=())


def _make_argument(name: str, value: str) -> cst.Arg:
    return cst.Arg(
        keyword=cst.Name(name),
        value=cst.parse_expression(value),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )


def _space_arguments(placed: Sequence[cst.Arg], before: Sequence[cst.Arg]) -> list[cst.Arg]:
    """The arguments with the commas and line breaks that they had; new ones are spaced as the others."""
    inner = next((arg.comma for arg in before[:-1] if isinstance(arg.comma, cst.Comma)), _COMMA)
    last = before[-1] if before else placed[-1]
    none = cst.SimpleWhitespace("")
    spaced = [
        arg if isinstance(arg.comma, cst.Comma) and arg is not last else arg.with_changes(comma=inner)
        for arg in placed[:-1]
    ]
    return [
        *(arg.with_changes(whitespace_after_arg=none) for arg in spaced),
        placed[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg),
    ]
