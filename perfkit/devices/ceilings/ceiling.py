"""Ceilings: what a device can at most do, each with its kind, source, spread and confidence."""

from enum import StrEnum

from perfkit.core.note import Note
from perfkit.core.spec import Struct

CEILINGS_VERSION = 4


class CeilingLevel(StrEnum):
    """The resource that a ceiling bounds. Compute levels carry a dtype, memory and link levels a bandwidth in B/s."""

    MATRIX = "matrix"  # tensor cores, AMX, or the CPU's FMA units through a matrix product
    VECTOR = "vector"  # general arithmetic units
    MEMORY = "memory"  # HBM on a GPU, DRAM on a CPU
    L2 = "l2"
    L3 = "l3"
    HOST_LINK = "host link"
    INTERCONNECT = "interconnect"


class CeilingKind(StrEnum):
    DATASHEET = "datasheet"
    MEASURED = "measured"


class Confidence(StrEnum):
    HIGH = "high"
    LOW = "low"


class Ceiling(Struct):
    """A bound on a rate: `value` in `unit` (`FLOP/s` or `B/s`).

    `threads` is set on a CPU, where a ceiling holds only for that number of threads. `spread` is the relative
    difference between the best values of two halves of the repeats (None for a datasheet value). `measured_at` is the
    time of its calibration; `disturbance` says what disturbed that, empty if nothing did. `exceeded_by` says, in an
    analysis, that work was faster: the ceiling is then not used.
    """

    level: CeilingLevel
    dtype: str | None
    value: float
    unit: str
    kind: CeilingKind
    source: str
    threads: int | None = None
    spread: float | None = None
    confidence: Confidence | None = None
    measured_at: str = ""
    disturbance: str = ""
    exceeded_by: str = ""

    @property
    def doubt(self) -> str:
        """Reason why it may be too low, worded to follow its kind; empty if there is none."""
        if self.disturbance:
            return ", while the machine was busy"
        return ", low confidence" if self.confidence == Confidence.LOW else ""


class CacheCapacity(Struct):
    """Capacity of one cache level of the device, over all its parts. Its bandwidth, where known, is a ceiling."""

    level: CeilingLevel
    capacity_bytes: float
    source: str


class LinkRate(Struct):
    """Minimum time of a collective (`all-reduce`, as `perfkit.cost.calls.collective.CollectiveType` calls it) among
    ranks of one machine, for a message size counted as by nccl-tests.

    `spread` is the relative difference between the best of two halves of the repeats, `repeats_s`; `disturbance` says
    what disturbed them. `short` marks a calibration with fewer repeats. `gpus` are NVML's numbers of the GPUs, `link`
    the slowest kind of link among them (`NV4`, `SYS`): the rate bounds messages over that kind only. Both are empty on
    a CPU, or if NVML could not tell.
    """

    collective: str
    ranks: int
    bytes: int
    seconds: float
    backend: str
    spread: float | None = None
    confidence: Confidence | None = None
    measured_at: str = ""
    disturbance: str = ""
    repeats_s: tuple[float, ...] = ()
    short: bool = False
    gpus: tuple[int, ...] = ()
    link: str = ""


class DeviceCeilings(Struct):
    """All ceilings known for a device, and the measured rates of its links.

    `fingerprint` identifies the machine of the measured ones, `measured_at` is the time of its last calibration.
    `links_reason` says why measured link rates do not apply here.
    """

    schema_version: int = CEILINGS_VERSION
    device: str  # torch's type
    device_name: str
    fingerprint: str
    measured_at: str = ""
    ceilings: tuple[Ceiling, ...] = ()
    caches: tuple[CacheCapacity, ...] = ()
    links: tuple[LinkRate, ...] = ()
    links_reason: str = ""
    notes: tuple[Note, ...] = ()

    def find(
        self,
        level: CeilingLevel,
        dtype: str | None = None,
        *,
        threads: int | None = None,
        kind: CeilingKind | None = None,
    ) -> Ceiling | None:
        """The ceiling of a level (and dtype, and number of threads), the measured one first; None if it is not known.

        On a CPU a ceiling measured with another number of threads is not an answer.
        """
        matches = [
            ceiling
            for ceiling in self.ceilings
            if ceiling.level == level
            and ceiling.dtype == dtype
            and not ceiling.exceeded_by
            and (kind is None or ceiling.kind == kind)
            and (ceiling.threads is None or threads is None or ceiling.threads == threads)
        ]
        return min(matches, key=lambda ceiling: ceiling.kind != CeilingKind.MEASURED, default=None)

    def capacity(self, level: CeilingLevel) -> float | None:
        """The bytes that a cache holds; None if that is not known."""
        return next((cache.capacity_bytes for cache in self.caches if cache.level == level), None)
