"""Stores measured efficiencies of devices by kind of work: small, and independent of models."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec.structs import replace

from perfkit.core.cache_folder import get_cache_folder
from perfkit.core.files import read_json, write_json
from perfkit.core.spec import Struct
from perfkit.devices.ceilings.ceiling import Ceiling
from perfkit.devices.machine.fingerprint import make_file_stem
from perfkit.plan.target.work import Work

LEARNED_VERSION = 2


class EfficiencySample(Struct):
    """Calls of one op, in one dtype and of about one size, which one program made in a step.

    `flops`, `bytes` and `seconds` are means over the calls. `spread` is the standard deviation of the logarithm of
    measured over least time, over the time of the calls.
    """

    op_class: str
    op: str = ""
    dtype: str
    matrix: bool
    flops: float
    bytes: float
    calls: float
    seconds: float
    spread: float = 0.0

    @property
    def work(self) -> Work:
        return Work(self.op_class, self.dtype, self.flops, self.bytes, self.matrix, self.op)


class LearnedProgram(Struct):
    """The measurements of one program: a trace, or all variants of a suite. None is unknown.

    `sweep`: its calls were made one by one, over many sizes, and are no step of a model. `derived`: they were not made,
    but follow from those of another op, and tell of their own ops alone. `threads` is set on a CPU.
    `launch_s` passes from a launch to its kernel's start on a device without work, `gap_s` between kernels that were
    launched before; `host_s` is the host's time for each op that it issues. `context_bytes` is what a process
    held of the GPU beside its allocator and NCCL.
    """

    name: str
    samples: tuple[EfficiencySample, ...]
    sweep: bool = False
    derived: bool = False
    threads: int | None = None
    launch_s: float | None = None
    gap_s: float | None = None
    host_s: float | None = None
    context_bytes: float | None = None

    @property
    def seconds(self) -> float:
        """The time of all its calls."""
        return sum(sample.calls * sample.seconds for sample in self.samples)


class LearnedDevice(Struct):
    """Measurements of a device: `device` is its id in the catalog, or the fingerprint of a CPU's machine.

    `ceilings` are a CPU's as they were when it was learned; a GPU's are in the catalog.
    """

    schema_version: int = LEARNED_VERSION
    device: str
    device_name: str
    programs: tuple[LearnedProgram, ...]
    ceilings: tuple[Ceiling, ...] = ()

    def merge_programs(self, programs: Iterable[LearnedProgram]) -> "LearnedDevice":
        """Merge programs, replacing older entries of the same program."""
        new = {(program.name, program.threads): program for program in (*self.programs, *programs)}
        return replace(self, programs=tuple(new.values()))


class PackagedDevices(Struct):
    """The devices shipped with perfkit."""

    devices: tuple[LearnedDevice, ...]


@cache
def load_packaged() -> tuple[LearnedDevice, ...]:
    """Load the devices shipped with perfkit."""
    data = files("perfkit.plan.timing").joinpath("efficiencies.json").read_bytes()
    return msgspec.json.decode(data, type=PackagedDevices).devices


def get_device_path(device: str) -> Path:
    """Path of a device's learned programs, next to the measured ceilings."""
    return get_cache_folder() / "efficiencies" / f"{make_file_stem(device)}.json"


Kept = tuple[Path, frozenset[tuple[Path, int]]]


def list_kept_files() -> Kept:
    """Where what was learned is kept, and its files with the time of their last change: another after any
    `store_learned`.
    """
    files = (get_cache_folder() / "efficiencies").glob("*.json")
    return get_cache_folder(), frozenset((file, file.stat().st_mtime_ns) for file in files)


def load_learned(device: str) -> LearnedDevice | None:
    """A device's learned programs, or None. Raises `RunFormatError` for unreadable files."""
    file = get_device_path(device)
    return read_json(file, LearnedDevice, remedy="delete it and measure again") if file.exists() else None


def store_learned(learned: LearnedDevice) -> LearnedDevice:
    """Add to a device's stored programs, and return them. Raises `PerfkitError` if they cannot be written."""
    known = load_learned(learned.device)
    kept = learned if known is None else replace(known.merge_programs(learned.programs), ceilings=learned.ceilings)
    write_json(get_device_path(learned.device), kept)
    return kept
