"""A graph node as its capture or replay shows it, and whether two can be the same.

What is recorded differs. ROCm's profiler writes the kernel's name and grid with the launch, but no grid with a kernel
that a graph replayed (kineto, `RocmActivity_inl.h`). CUPTI writes neither with the launch, and both with every kernel
(`CuptiActivity.cpp`): what a capture launched is then known where the same op ran eagerly in the same trace, as in a
warm-up; else by the op itself, as far as its name says what kind of kernel it launches.
"""

import re
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from perfkit.cost.calls.collective import classify_collective
from perfkit.cost.formulas import elementwise, matmul
from perfkit.cost.kernels.gemm_kernel import is_matrix_kernel
from perfkit.trace.function_name import extract_function_name
from perfkit.trace.model import Category
from perfkit.trace.ops.kernels import is_collective_kernel, is_compiled_kernel


class NodeToken(NamedTuple):
    """`kernel` is empty where its name is not known, `geometry` where its grid and block are not; so is `op`.

    `recalled` says that kernel and geometry are those of the same op's run elsewhere, which may have chosen others.
    """

    kind: Category
    kernel: str
    geometry: bytes
    op: str = ""
    recalled: bool = False


class TokenAgreement(IntEnum):
    """The agreement of two tokens."""

    DIFFERENT = -3  # not the same node
    RENAMED = -2  # another kernel than the op launched elsewhere
    RESIZED = -1  # the same kernel on another grid
    UNTOLD = 0  # nothing
    ALIKE = 1  # the same kernel by its name, or of the kind that the op launches
    SAME = 2  # the same kernel on the same grid


# ROCm's kernels for copies and fills inside graphs.
_COPYING = re.compile(r"_*amd_rocclr_copyBuffer\w*|_*amd_rocclr_copyImage\w*")
_FILLING = re.compile(r"_*amd_rocclr_fillBuffer\w*")

_LEAST_WORD = 4  # least letters of an op's name for a match in a kernel's name


def compare_tokens(captured: NodeToken, replayed: NodeToken) -> TokenAgreement:
    """True if a launch and a kernel can be the same node."""
    if _classify_token(captured) != _classify_token(replayed):
        return TokenAgreement.DIFFERENT
    if captured.kind != Category.KERNEL or replayed.kind != Category.KERNEL:
        return TokenAgreement.ALIKE
    if captured.kernel:
        if captured.kernel != replayed.kernel:
            can_be = captured.recalled and judge_launch(captured.op, replayed.kernel) != TokenAgreement.DIFFERENT
            return TokenAgreement.RENAMED if can_be else TokenAgreement.DIFFERENT
        if not (captured.geometry and replayed.geometry):
            return TokenAgreement.ALIKE
        return TokenAgreement.SAME if captured.geometry == replayed.geometry else TokenAgreement.RESIZED
    return judge_launch(captured.op, replayed.kernel)


def extract_grid_and_block(geometry: bytes) -> bytes:
    """Extract the grid and block from a trace's geometry, without shared memory, which launches and kernels write
    differently."""
    parts = geometry.split(b"\0")[:2]
    return b"x".join(parts).replace(b" ", b"") if all(parts) and len(parts) == 2 else b""


def _classify_token(token: NodeToken) -> Category:
    if token.kind == Category.KERNEL and token.kernel:
        if _COPYING.match(token.kernel):
            return Category.COPY
        if _FILLING.match(token.kernel):
            return Category.FILL
    return token.kind


@lru_cache(maxsize=65536)
def judge_launch(op: str, kernel: str) -> TokenAgreement:
    """Judge by an op's name whether it launched a kernel of this name."""
    if is_compiled_kernel(op):
        return TokenAgreement.ALIKE if op == kernel else TokenAgreement.DIFFERENT
    bare = op.rpartition("::")[2]
    exchanges = is_collective_kernel(kernel)
    if classify_collective(bare) is not None or bare == "record_param_comms":
        return TokenAgreement.ALIKE if exchanges else TokenAgreement.UNTOLD
    if op.startswith("aten::") and (exchanges or is_compiled_kernel(kernel)):
        return TokenAgreement.DIFFERENT
    multiplied = is_matrix_kernel(kernel)
    if op in matmul.OPS or is_matrix_kernel(bare):
        adds = "elementwise_kernel" in kernel  # which a product leaves to an op within it
        return TokenAgreement.ALIKE if multiplied else TokenAgreement.DIFFERENT if adds else TokenAgreement.UNTOLD
    if op in elementwise.OPS:
        if multiplied:
            return TokenAgreement.DIFFERENT
        return TokenAgreement.ALIKE if "elementwise" in kernel else TokenAgreement.UNTOLD
    word = bare.strip("_").lower()
    return (
        TokenAgreement.ALIKE
        if len(word) >= _LEAST_WORD and word in extract_function_name(kernel).lower()
        else TokenAgreement.UNTOLD
    )
