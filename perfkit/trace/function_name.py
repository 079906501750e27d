"""The name of a kernel's function, without type, template arguments and parameters."""

import re

_UNNAMED = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\(anonymous class\)::")


def extract_function_name(name: str) -> str:
    """`vllm::cross_device_reduce_1stage` of `void vllm::cross_device_reduce_1stage<__half, 8>(...)`.

    Namespaces without a name are left out. Names of other writers are as they are.
    """
    plain = _UNNAMED.sub("", name.removeprefix("static ").removeprefix("void "))
    return plain.partition("<")[0].partition("(")[0] or name
