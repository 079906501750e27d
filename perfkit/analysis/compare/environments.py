"""What differs between where two sides ran, and what of it their figures cannot be compared across."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from perfkit.record import Environment


class Effect(Enum):
    """What a difference does to a comparison, the strongest last."""

    NOTED = auto()  # said, and nothing else: it changes no figure, or it is what is being tested
    TIMES = auto()  # times cannot be compared
    COUNTS = auto()  # nor can they, and what is counted exactly may change with it
    ALL = auto()  # nothing can be compared


@dataclass(frozen=True)
class Differing:
    """One key of two environments, with both values in words."""

    key: str
    before: str
    after: str
    effect: Effect

    def __str__(self) -> str:
        return f"{self.key}: {self.before} -> {self.after}"


# Every key of `Environment` that matters, in the order in which differences are told. The host's name and the revision
# do not: they always differ, and say nothing of how fast a machine is. Kernels launched, workspaces and buffers (on a
# CPU one a thread) come from the device and the libraries, so that these change counts too.
EFFECTS = {
    "device": Effect.ALL,
    "device_name": Effect.COUNTS,
    "device_count": Effect.TIMES,
    "device_memory_bytes": Effect.COUNTS,  # cuDNN chooses algorithms by what is free
    "compute_capability": Effect.COUNTS,
    "driver": Effect.TIMES,
    "cuda": Effect.COUNTS,
    "nccl": Effect.COUNTS,  # its kernels and buffers
    "torch": Effect.COUNTS,
    "python": Effect.TIMES,
    "matmul_precision": Effect.NOTED,  # the program sets it: it may be what was changed
    "conv_precision": Effect.NOTED,
    "rnn_precision": Effect.NOTED,
    "cpu_model": Effect.COUNTS,  # oneDNN and MKL choose algorithms by it
    "cpu_capability": Effect.COUNTS,  # and by this, which virtual machines of one model do not share
    "cpu_cores": Effect.TIMES,
    "cpu_governor": Effect.TIMES,
    "threads": Effect.COUNTS,
    "affinity": Effect.TIMES,
    "container_cpu_limit": Effect.TIMES,
    "container_memory_limit_bytes": Effect.TIMES,
    "memory_total_bytes": Effect.NOTED,
    "platform": Effect.NOTED,
}

# By which equal programs round otherwise.
_PROCESSOR = ("device_name", "compute_capability", "cpu_model", "cpu_capability")

# Of variables and packages, which are told by name.
_VARIABLES = {
    "CUDA_VISIBLE_DEVICES": Effect.NOTED,  # which of several equal devices
    "GLOO_SOCKET_IFNAME": Effect.TIMES,
    "NCCL_SOCKET_IFNAME": Effect.TIMES,
    "NCCL_HOSTID": Effect.NOTED,
    "NCCL_DEBUG": Effect.NOTED,
    "NCCL_DEBUG_FILE": Effect.NOTED,
    "NCCL_DEBUG_SUBSYS": Effect.NOTED,
    "TORCHINDUCTOR_FX_GRAPH_CACHE": Effect.TIMES,
}
_OTHER_VARIABLES = Effect.COUNTS
_PACKAGES = Effect.COUNTS

# Which earlier records lack: there is no difference unless both sides tell.
_LATELY_RECORDED = ("nccl",)

# Machines of one kind do not have the same main memory to the last byte: firmware takes a little of it.
_SAME_MEMORY = 0.02


def differences(before: Environment, after: Environment) -> tuple[Differing, ...]:
    """What differs, what matters most first."""
    differs = [*_fields(before, after), *_entries(before, after)]
    return tuple(sorted(differs, key=lambda entry: -entry.effect.value))


def why_not_times(differs: Iterable[Differing]) -> str:
    """Why times of the two sides cannot be compared, the keys named; empty where they can."""
    return _why((entry for entry in differs if entry.effect is not Effect.NOTED), "times were measured elsewhere")


def why_not_counts(differs: Iterable[Differing]) -> str:
    """Why not even what is counted exactly can be compared; empty where it can."""
    return _why(
        (entry for entry in differs if entry.effect is Effect.ALL), "this was counted on another kind of device"
    )


def may_change_counts(differs: Iterable[Differing]) -> tuple[Differing, ...]:
    """The differences from which equal programs may come to other counts."""
    return tuple(entry for entry in differs if entry.effect is Effect.COUNTS)


def other_processor(differs: Iterable[Differing]) -> str:
    """The keys by which the sides ran on different processors, in words; empty where they are alike."""
    return "; ".join(str(entry) for entry in differs if entry.key in _PROCESSOR)


def _why(differs: Iterable[Differing], what: str) -> str:
    keys = "; ".join(str(entry) for entry in differs)
    return f"{what} ({keys})" if keys else ""


def _fields(before: Environment, after: Environment) -> Iterator[Differing]:
    for key, effect in EFFECTS.items():
        ours, theirs = getattr(before, key), getattr(after, key)
        if ours == theirs or (key == "memory_total_bytes" and _about_equal(ours, theirs)):
            continue
        if key in _LATELY_RECORDED and None in (ours, theirs):
            continue
        if key == "affinity" and ours is not None and theirs is not None:
            yield _affinity(ours, theirs)
        else:
            yield Differing(key, _said(ours), _said(theirs), effect)


def _affinity(before: tuple[int, ...], after: tuple[int, ...]) -> Differing:
    """How many processors there are decides; which of them is the scheduler's choice."""
    if len(before) == len(after):
        return Differing("affinity", _processors(before), _processors(after), Effect.NOTED)
    return Differing("affinity", _count(before), _count(after), EFFECTS["affinity"])


def _count(numbers: tuple[int, ...]) -> str:
    return f"{len(numbers)} processor{'' if len(numbers) == 1 else 's'}"


def _processors(numbers: tuple[int, ...]) -> str:
    return f"processors {', '.join(map(str, numbers))}"


def _entries(before: Environment, after: Environment) -> Iterator[Differing]:
    for name in sorted(before.variables.keys() | after.variables.keys()):
        ours, theirs = before.variables.get(name, "not set"), after.variables.get(name, "not set")
        if ours != theirs:
            yield Differing(name, ours, theirs, _VARIABLES.get(name, _OTHER_VARIABLES))
    for name in sorted(before.packages.keys() | after.packages.keys()):
        ours, theirs = before.packages.get(name, "not installed"), after.packages.get(name, "not installed")
        if ours != theirs:
            yield Differing(name, ours, theirs, _PACKAGES)


def _about_equal(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and abs(after - before) <= _SAME_MEMORY * before


def _said(value: object) -> str:
    return "not known" if value is None else str(value)
