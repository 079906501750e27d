"""The peak that matmuls are compared with."""

from typing import NamedTuple

from msgspec.structs import replace

from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings

IEEE, TF32 = "ieee", "tf32"  # torch's words for fp32 as it is, and for its 10 upper bits of mantissa
THREE_TF32 = "3xtf32"


class Fp32Settings(NamedTuple):
    """The precision of fp32 operands per kind of op, in torch's words: `ieee`, `tf32`, on a CPU also `bf16`.

    On a GPU `conv` and `rnn` are cuDNN's, which uses TF32 by default. `has_tf32` says that the device has units for it.
    """

    matmul: str
    conv: str
    rnn: str
    has_tf32: bool = False


def find_matrix_ceiling(
    known: DeviceCeilings, dtype: str, *, threads: int | None, kind: CeilingKind | None = None
) -> Ceiling | None:
    """The ceiling of matrix products that are computed in `dtype`; None where it is not known.

    On a GPU products in fp32 run on the vector units, where its matrix units do not take fp32 (AMD's do). On a CPU a
    ceiling of another number of threads is no answer.

    `3xtf32` is CUTLASS's 3xTF32 (`OpMultiplyAddFastF32`, example 27): each fp32 operand is split into two of TF32, a
    big and a small one, and of the four products all but small x small are taken. So every product of the op costs
    three in TF32, and a third of the TF32 peak is all that can be reached. That is more than the vector units have on
    data-center GPUs (A100: 52 against 19.5 TFLOP/s) and less on consumer ones (RTX 4090: 28 against 83).
    """

    def find(level: CeilingLevel, dtype: str) -> Ceiling | None:
        return known.find(level, dtype, threads=threads if is_cpu(known.device) else None, kind=kind)

    if dtype == THREE_TF32:
        third = find(CeilingLevel.MATRIX, TF32)
        return None if third is None else derive_three_tf32(third)
    matrix = find(CeilingLevel.MATRIX, dtype)
    return matrix or find(CeilingLevel.VECTOR, dtype) if not is_cpu(known.device) and dtype == "fp32" else matrix


def get_utilization_kind(device: str) -> CeilingKind:
    """Utilization refers to the vendor's figure on a GPU; a CPU has none, so it is what was measured."""
    return CeilingKind.MEASURED if not device or is_cpu(device) else CeilingKind.DATASHEET


def derive_three_tf32(tf32: Ceiling) -> Ceiling:
    """The ceiling of fp32 products that are three in TF32 each."""
    source = f"a third of the TF32 peak: three TF32 matmuls each; {tf32.source}"
    return replace(tf32, dtype=THREE_TF32, value=tf32.value / 3, source=source)
