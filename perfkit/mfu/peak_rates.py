"""The peaks that utilization is over: of each dtype, dense and with 2:4 sparsity."""

from perfkit.core.errors import make_unknown_name_error
from perfkit.core.spec import Struct
from perfkit.devices.catalog.capability import get_capability
from perfkit.devices.catalog.catalog import CatalogEntry, load_catalog

# Matrix units multiply weights with two zeros in four at twice the rate, from these versions of the architecture on
# (NVIDIA A100 whitepaper, "Fine-grained structured sparsity"; AMD CDNA 3 whitepaper, table 1), for these dtypes.
_SPARSE_NVIDIA, _SPARSE_AMD = (8, 0), (9, 4)
_SPARSE_DTYPES = frozenset({"tf32", "bf16", "fp16", "fp8", "int8"})
SPARSE_FACTOR = 2.0


class MfuPeak(Struct):
    """Peak of one GPU in FLOP/s: of `dtype`, dense, and `sparse` with 2:4 sparsity (None where there is none)."""

    dtype: str
    dense: float
    sparse: float | None
    source: str


def list_peaks(entry: CatalogEntry) -> tuple[MfuPeak, ...]:
    """The peaks of a GPU's matrix units, and of fp32 on its vector units where matrix units take none."""
    sources = load_catalog().sources
    has_sparsity = get_capability(entry) >= (_SPARSE_AMD if entry.vendor == "AMD" else _SPARSE_NVIDIA)
    fp32 = {"fp32": entry.vector_tflops["fp32"]} if "fp32" in entry.vector_tflops else {}
    rates = {**fp32, **entry.matrix_tflops}
    return tuple(
        MfuPeak(
            dtype=dtype,
            dense=tflops * 1e12,
            sparse=tflops * 1e12 * SPARSE_FACTOR if has_sparsity and dtype in _SPARSE_DTYPES else None,
            source=sources[source],
        )
        for dtype, (tflops, source) in rates.items()
    )


def select_peak(peaks: tuple[MfuPeak, ...], dtype: str, device: str) -> MfuPeak:
    """The peak of a dtype. Raises `UsageError` with those that the device has."""
    for peak in peaks:
        if peak.dtype == dtype:
            return peak
    raise make_unknown_name_error(f"dtype of {device}", dtype, [peak.dtype for peak in peaks])


def list_other_forms(entry: CatalogEntry) -> tuple[CatalogEntry, ...]:
    """Other devices of the same model: `h100-pcie` and `h100-nvl` for `h100-sxm`."""
    model = entry.id.partition("-")[0]
    return tuple(
        other for other in load_catalog().devices if other.id != entry.id and other.id.partition("-")[0] == model
    )
