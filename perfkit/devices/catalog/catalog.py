"""Datasheet peaks of GPUs, from `catalogue.json`: dense rates, each with its source.

A device is recognized by its whole name and by nothing less: GH200 is not an H200, A10G is not an A10, an
RTX 4090 Laptop GPU is not an RTX 4090, and a MIG slice is a fraction that the name alone does not tell. A name that is
not listed has no datasheet ceilings; there is no nearest device and no default. A few names are shared by two devices
(`NVIDIA GeForce RTX 3080` with 10 and with 12 GB); their number of units tells them apart.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from math import ceil

import msgspec

from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit.core.spec import Struct
from perfkit.devices.ceilings.ceiling import CacheCapacity, Ceiling, CeilingKind, CeilingLevel

Sourced = tuple[float, str]  # a value, and a key of `Catalog.sources`


class Derivation(Struct):
    """The factors of the 16-bit matrix peak: units x FMA per clock and unit x 2 x clock.

    `units` are SMs (NVIDIA) or compute units (AMD).
    """

    units: int
    fma_per_clock: int
    clock_mhz: float


class CatalogEntry(Struct):
    """One device as torch shows it. TFLOP/s without sparsity, with fp32 accumulation; GB/s = 1e9 B/s.

    Links are per direction. Caches are in MiB, all parts of a device together; `l3` is AMD's Infinity Cache. fp32
    without TF32 runs on the vector units of an NVIDIA GPU, on the matrix units of an AMD one. What has no source is
    absent. `memory_gb` is the nominal capacity, None where cards of one name come with several; `memory_bus` is (bits,
    Gbit/s per pin), from which the bandwidth follows.
    """

    id: str
    names: tuple[str, ...]
    matrix_tflops: dict[str, Sourced]
    vector_tflops: dict[str, Sourced]
    memory_gb_s: Sourced
    derivation: Derivation
    memory_gb: float | None = None
    memory_bus: tuple[int, float] | None = None
    host_link_gb_s: Sourced | None = None
    l2_gb_s: Sourced | None = None
    l3_gb_s: Sourced | None = None
    l2_mib: Sourced | None = None
    l3_mib: Sourced | None = None
    interconnect_gb_s: Sourced | None = None
    note: str = ""

    @property
    def vendor(self) -> str:
        """By the name that the driver reports: AMD's has AMD in it."""
        return "AMD" if "AMD" in self.names[0] else "NVIDIA"


class GpuCatalog(Struct):
    """The whole file."""

    sources: dict[str, str]
    devices: tuple[CatalogEntry, ...]


@cache
def load_catalog() -> GpuCatalog:
    """The catalog that comes with perfkit."""
    data = files("perfkit.devices.catalog").joinpath("catalogue.json").read_bytes()
    return msgspec.json.decode(data, type=GpuCatalog)


def find_candidates(device_name: str) -> tuple[CatalogEntry, ...]:
    """The entries that report this name; empty for a name that is not listed."""
    return _index_by_name().get(_normalize_name(device_name), ())


def find_entry(device_name: str, units: int | None = None) -> CatalogEntry | None:
    """The entry of a device by the name its driver reports, or None for a name that is not listed.

    With the number of its SMs or compute units a device must have them all: a slice or partition of a GPU is not that
    GPU. Without, a name that several devices share is not enough.
    """
    entries = [entry for entry in find_candidates(device_name) if units is None or entry.derivation.units == units]
    return entries[0] if len(entries) == 1 else None


def find_entry_with_memory(device_name: str, memory_bytes: int | None) -> CatalogEntry | None:
    """Find the entry of a device by its name and memory in bytes (None if unknown).

    None for an unlisted name, or one shared by several devices that the memory does not distinguish. For a card with
    several memory sizes, the entry has the given one: whole GiB, less the driver's reserve.
    """
    entry = find_entry(device_name)
    if memory_bytes is None or (entry is not None and entry.memory_gb is not None):
        return entry
    nominal = ceil(memory_bytes / 2**30)
    alike = [entry for entry in find_candidates(device_name) if entry.memory_gb in (None, nominal)]
    return msgspec.structs.replace(alike[0], memory_gb=float(nominal)) if len(alike) == 1 else None


def get_units(device_name: str) -> int | None:
    """The SMs or compute units of a device by its name; None for a name that is not listed, or that several share."""
    entry = find_entry(device_name)
    return None if entry is None else entry.derivation.units


def resolve_entry(text: str) -> CatalogEntry:
    """The entry a user means: an id such as `h100-sxm`, a full name, or a model, also with its memory (`h100-80g`).

    An id may lack its hyphens (`rtx4090`). A model that comes in forms (`h100`) is the fastest of them, of those with
    the named memory if one is named. A card with several memory sizes gets the named one.

    Raises:
        UsageError: an unknown name, with the nearest ids; or one that stands for several devices, with their ids: cards
            of one name, or forms as fast as each other that differ in memory (`a100`).
    """
    name = text.strip().lower()
    by_id = {entry.id: entry for entry in load_catalog().devices}
    entry = by_id.get(name) or find_entry(text) or _find_model(name) or _find_joined(name)
    if entry is None and (shared := find_candidates(text)):
        raise _make_ambiguity_error(f"several devices are called {text.strip()!r}", shared)
    if entry is None:
        raise make_unknown_name_error("device", name, by_id)
    return entry


# What an id has behind the model's name: the form of a card, or its memory.
_FORM = re.compile(r"(-(sxm2?|pcie|nvl|\d+gb))*")
_WITH_MEMORY = re.compile(r"(?P<model>.+)-(?P<gb>\d+)(g|gb|gib)")


def find_forms(model: str) -> tuple[CatalogEntry, ...]:
    """The forms in which a model comes: of `h100` the SXM, PCIe and NVL cards; empty for a name that is no model's."""
    name = model.strip().lower()
    return tuple(
        entry for entry in load_catalog().devices if entry.id.startswith(name) and _FORM.fullmatch(entry.id, len(name))
    )


def _find_model(name: str) -> CatalogEntry | None:
    """The entry of a model, with or without its memory; None if unknown."""
    match = _WITH_MEMORY.fullmatch(name)
    model, memory = (match["model"], float(match["gb"])) if match else (name, None)
    forms = [entry for entry in find_forms(model) if memory is None or entry.memory_gb in (None, memory)]
    if not forms:
        return None
    most = max(map(_get_matrix_rate, forms))
    fastest = [entry for entry in forms if _get_matrix_rate(entry) == most]
    if len({entry.memory_gb for entry in fastest}) > 1:
        raise _make_ambiguity_error(f"{name} comes with several memory sizes", fastest)
    chosen = max(fastest, key=lambda entry: entry.memory_gb_s[0])
    return chosen if memory is None else msgspec.structs.replace(chosen, memory_gb=memory)


def _get_matrix_rate(entry: CatalogEntry) -> float:
    """TFLOP/s of matrix products in 16 bits."""
    return entry.derivation.units * entry.derivation.fma_per_clock * entry.derivation.clock_mhz * 2e-6


def _make_ambiguity_error(problem: str, entries: Iterable[CatalogEntry]) -> UsageError:
    return UsageError(f"{problem}: choose one of {', '.join(entry.id for entry in entries)}")


def _find_joined(name: str) -> CatalogEntry | None:
    """The entry whose id is written without hyphens, such as `rtx4090`."""
    return next((entry for entry in load_catalog().devices if entry.id.replace("-", "") == name), None)


@cache
def _index_by_name() -> dict[tuple[str, ...], tuple[CatalogEntry, ...]]:
    table: dict[tuple[str, ...], tuple[CatalogEntry, ...]] = {}
    for entry in load_catalog().devices:
        for name in entry.names:
            table[_normalize_name(name)] = (*table.get(_normalize_name(name), ()), entry)
    return table


def build_datasheet_ceilings(entry: CatalogEntry) -> tuple[Ceiling, ...]:
    """The ceilings of a catalog entry, in FLOP/s and B/s."""
    bandwidths = {
        CeilingLevel.MEMORY: entry.memory_gb_s,
        CeilingLevel.L2: entry.l2_gb_s,
        CeilingLevel.L3: entry.l3_gb_s,
        CeilingLevel.HOST_LINK: entry.host_link_gb_s,
        CeilingLevel.INTERCONNECT: entry.interconnect_gb_s,
    }
    return (
        *(
            _build_ceiling(entry, CeilingLevel.MATRIX, dtype, figure, 1e12)
            for dtype, figure in entry.matrix_tflops.items()
        ),
        *(
            _build_ceiling(entry, CeilingLevel.VECTOR, dtype, figure, 1e12)
            for dtype, figure in entry.vector_tflops.items()
        ),
        *(
            _build_ceiling(entry, level, None, figure, 1e9)
            for level, figure in bandwidths.items()
            if figure is not None
        ),
    )


def build_caches(entry: CatalogEntry) -> tuple[CacheCapacity, ...]:
    """The cache capacities of a catalog entry."""
    figures = {CeilingLevel.L2: entry.l2_mib, CeilingLevel.L3: entry.l3_mib}
    return tuple(
        CacheCapacity(level=level, capacity_bytes=figure[0] * 2**20, source=load_catalog().sources[figure[1]])
        for level, figure in figures.items()
        if figure is not None
    )


def _build_ceiling(
    entry: CatalogEntry, level: CeilingLevel, dtype: str | None, figure: Sourced, scale: float
) -> Ceiling:
    value, source = figure
    # Notes of the catalog are about how a matrix rate is to be read; other rates have nothing to do with them.
    note = f" ({entry.note})" if entry.note and level == CeilingLevel.MATRIX else ""
    return Ceiling(
        level=level,
        dtype=dtype,
        value=value * scale,
        unit="B/s" if dtype is None else "FLOP/s",
        kind=CeilingKind.DATASHEET,
        source=load_catalog().sources[source] + note,
    )


def _normalize_name(name: str) -> tuple[str, ...]:
    """Words of a name, without the brand, which drivers of different ages add or leave out."""
    words = [word for word in re.split(r"[\s\-_]+", name.lower()) if word]
    return tuple(word for word in words if word not in ("nvidia", "tesla", "geforce", "amd", "instinct"))
