"""The peak that products are held against."""

from perfkit.devices.ceiling import Ceiling, DeviceCeilings, Kind, Level

CPU = "cpu"


def matrix_ceiling(
    known: DeviceCeilings, dtype: str, *, threads: int | None, tf32: bool, kind: Kind | None = None
) -> Ceiling | None:
    """The ceiling of matrix products of `dtype`; None where it is not known.

    On a GPU products of fp32 run on the vector units, or, where torch's float32 matmul precision allows it (`tf32`), on
    the matrix units in TF32. On a CPU a ceiling of another number of threads is no answer.
    """

    def find(level: Level, dtype: str) -> Ceiling | None:
        return known.find(level, dtype, threads=threads if known.device == CPU else None, kind=kind)

    if known.device != CPU and dtype == "fp32":
        if tf32:
            return find(Level.MATRIX, "tf32")
        return find(Level.MATRIX, dtype) or find(Level.VECTOR, dtype)
    return find(Level.MATRIX, dtype)


def conventional_kind(device: str) -> Kind:
    """Utilisation refers to the vendor's figure on a GPU; a CPU has none, so it is what was measured."""
    return Kind.MEASURED if device in ("", CPU) else Kind.DATASHEET
