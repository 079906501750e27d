"""Names of modules without the indices of equal layers."""

import re

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_NUMBER_OF_CLASS = re.compile(r"(?<=_)\d+(?=/|$)")  # torch.profiler counts the modules of a class


def fold_layer_numbers(module: str) -> str:
    """`blocks.*.mlp` of `blocks.0.mlp`, and `Block_*/Mlp_*` of `Block_0/Mlp_0` as torch.profiler has it."""
    return (_NUMBER_OF_CLASS if "/" in module else _NUMBER).sub("*", module)
