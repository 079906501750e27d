"""Differences between the environments of two sides, and which figures cannot be compared across them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from perfkit.core.record.environment import Environment
from perfkit.devices.accelerator import VISIBILITY


class ComparisonEffect(Enum):
    """The effect of a difference on a comparison, the strongest last."""

    NOTED = auto()  # said, and nothing else: it changes no figure, or it is what is being tested
    TIMES = auto()  # times cannot be compared
    COUNTS = auto()  # nor can they, and what is counted exactly may change with it
    ALL = auto()  # nothing can be compared


@dataclass(frozen=True)
class EnvironmentDifference:
    """One key of two environments, with both values in words."""

    key: str
    before: str
    after: str
    effect: ComparisonEffect

    def __str__(self) -> str:
        return f"{self.key}: {self.before} -> {self.after}"


# Every key of `Environment` that matters, in the order in which differences are told. The host's name and the revision
# do not: they always differ, and say nothing of how fast a machine is. Kernels launched, workspaces and buffers (on a
# CPU one a thread) come from the device and the libraries, so that these change counts too.
EFFECTS = {
    "device": ComparisonEffect.ALL,
    "device_name": ComparisonEffect.COUNTS,
    "device_count": ComparisonEffect.TIMES,
    "device_memory_bytes": ComparisonEffect.COUNTS,  # cuDNN chooses algorithms by what is free
    "compute_capability": ComparisonEffect.COUNTS,
    "driver": ComparisonEffect.TIMES,
    "cuda": ComparisonEffect.COUNTS,
    "nccl": ComparisonEffect.COUNTS,  # its kernels and buffers
    "cudnn": ComparisonEffect.COUNTS,
    "torch": ComparisonEffect.COUNTS,
    "onednn": ComparisonEffect.COUNTS,
    "mkl": ComparisonEffect.COUNTS,
    "python": ComparisonEffect.TIMES,
    "matmul_precision": ComparisonEffect.NOTED,  # the program sets it: it may be what was changed
    "conv_precision": ComparisonEffect.NOTED,
    "rnn_precision": ComparisonEffect.NOTED,
    "cpu_model": ComparisonEffect.COUNTS,  # oneDNN and MKL choose algorithms by it
    "cpu_capability": ComparisonEffect.COUNTS,  # and by this, which virtual machines of one model do not share
    "cpu_cores": ComparisonEffect.TIMES,
    "cpu_governor": ComparisonEffect.TIMES,
    "cpu_max_hz": ComparisonEffect.TIMES,
    "threads": ComparisonEffect.COUNTS,
    "affinity": ComparisonEffect.TIMES,
    "container_cpu_limit": ComparisonEffect.TIMES,
    "container_memory_limit_bytes": ComparisonEffect.TIMES,
    "memory_total_bytes": ComparisonEffect.NOTED,
    "platform": ComparisonEffect.NOTED,
}

# By which equal programs round otherwise.
_PROCESSOR = ("device_name", "compute_capability", "cpu_model", "cpu_capability")

# For variables and packages, compared by name.
_VARIABLES = {
    **dict.fromkeys(VISIBILITY, ComparisonEffect.NOTED),  # which of several equal devices
    "GLOO_SOCKET_IFNAME": ComparisonEffect.TIMES,
    "NCCL_SOCKET_IFNAME": ComparisonEffect.TIMES,
    "NCCL_HOSTID": ComparisonEffect.NOTED,
    "NCCL_DEBUG": ComparisonEffect.NOTED,
    "NCCL_DEBUG_FILE": ComparisonEffect.NOTED,
    "NCCL_DEBUG_SUBSYS": ComparisonEffect.NOTED,
    "TORCHINDUCTOR_FX_GRAPH_CACHE": ComparisonEffect.TIMES,
}
_OTHER_VARIABLES = ComparisonEffect.COUNTS
_PACKAGES = ComparisonEffect.COUNTS

# Missing in earlier records: a difference needs both sides.
_LATELY_RECORDED = ("nccl", "cudnn", "onednn", "mkl", "cpu_max_hz")

# Equal machines differ slightly in main memory: firmware reserves some.
_SAME_MEMORY = 0.02


def compare_environments(before: Environment, after: Environment) -> tuple[EnvironmentDifference, ...]:
    """List the differences, those that matter most first."""
    differs = [*_compare_fields(before, after), *_compare_entries(before, after)]
    return tuple(sorted(differs, key=lambda entry: -entry.effect.value))


def explain_incomparable_times(differs: Iterable[EnvironmentDifference]) -> str:
    """The reason that times of the two sides are not comparable, with the keys; empty where they are."""
    return _format_reason(
        (entry for entry in differs if entry.effect is not ComparisonEffect.NOTED),
        "times were measured on a different machine or setup",
    )


def explain_incomparable_counts(differs: Iterable[EnvironmentDifference]) -> str:
    """The reason that even exact counts are not comparable; empty where they are."""
    return _format_reason(
        (entry for entry in differs if entry.effect is ComparisonEffect.ALL),
        "counted on a different kind of device",
    )


def select_count_changes(differs: Iterable[EnvironmentDifference]) -> tuple[EnvironmentDifference, ...]:
    """The differences from which equal programs may come to other counts."""
    return tuple(entry for entry in differs if entry.effect is ComparisonEffect.COUNTS)


def describe_processor_change(differs: Iterable[EnvironmentDifference]) -> str:
    """The keys by which the sides ran on different processors, in words; empty where they are alike."""
    return "; ".join(str(entry) for entry in differs if entry.key in _PROCESSOR)


def _format_reason(differs: Iterable[EnvironmentDifference], what: str) -> str:
    keys = "; ".join(str(entry) for entry in differs)
    return f"{what} ({keys})" if keys else ""


def _compare_fields(before: Environment, after: Environment) -> Iterator[EnvironmentDifference]:
    for key, effect in EFFECTS.items():
        ours, theirs = getattr(before, key), getattr(after, key)
        if ours == theirs or (key == "memory_total_bytes" and _is_about_equal(ours, theirs)):
            continue
        if key in _LATELY_RECORDED and None in (ours, theirs):
            continue
        if key == "affinity" and ours is not None and theirs is not None:
            yield _compare_affinity(ours, theirs)
        else:
            yield EnvironmentDifference(key, _format_value(ours), _format_value(theirs), effect)


def _compare_affinity(before: tuple[int, ...], after: tuple[int, ...]) -> EnvironmentDifference:
    """Compare the number of processors; the scheduler chooses which ones."""
    if len(before) == len(after):
        return EnvironmentDifference(
            "affinity", _format_processors(before), _format_processors(after), ComparisonEffect.NOTED
        )
    return EnvironmentDifference(
        "affinity", _format_processor_count(before), _format_processor_count(after), EFFECTS["affinity"]
    )


def _format_processor_count(numbers: tuple[int, ...]) -> str:
    return f"{len(numbers)} processor{'' if len(numbers) == 1 else 's'}"


def _format_processors(numbers: tuple[int, ...]) -> str:
    return f"processors {', '.join(map(str, numbers))}"


def _compare_entries(before: Environment, after: Environment) -> Iterator[EnvironmentDifference]:
    for name in sorted(before.variables.keys() | after.variables.keys()):
        ours, theirs = before.variables.get(name, "not set"), after.variables.get(name, "not set")
        if ours != theirs:
            yield EnvironmentDifference(name, ours, theirs, _VARIABLES.get(name, _OTHER_VARIABLES))
    for name in sorted(before.packages.keys() | after.packages.keys()):
        ours, theirs = before.packages.get(name, "not installed"), after.packages.get(name, "not installed")
        if ours != theirs:
            yield EnvironmentDifference(name, ours, theirs, _PACKAGES)


def _is_about_equal(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and abs(after - before) <= _SAME_MEMORY * before


def _format_value(value: object) -> str:
    return "unknown" if value is None else str(value)
