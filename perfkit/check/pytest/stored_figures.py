"""Reads and writes the stored figures of tests: one sorted file, by node id, readable in a diff."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

import perfkit
from perfkit.analysis.compare import environments
from perfkit.core.record.environment import Environment
from perfkit.instruments.environment import read_environment
from perfkit.store.baseline import Baseline, StoredVariant, read_baseline, write_baseline

# By name of a `perfkit_check` call: every figure and its parts.
Calls = dict[str, dict[str, float]]


@dataclass(frozen=True)
class FiguresUpdate:
    """The figures of a test run. `whole` are passed tests, stored anew; `gone` are removed tests."""

    measured: Mapping[str, Calls]
    environment: Environment
    whole: frozenset[str] = frozenset()
    gone: frozenset[str] = field(default=frozenset())


def read_stored(path: Path) -> Baseline | None:
    """The stored figures; None without a file. Raises `RunFormatError` for another kind of file."""
    return read_baseline(path) if path.exists() else None


def get_stored_calls(baseline: Baseline | None, test: str) -> Calls:
    """The stored calls of a test."""
    variants = {} if baseline is None else baseline.variants.get(test, {})
    return {name: variant.exact for name, variant in variants.items()}


def write_stored(path: Path, change: FiguresUpdate) -> None:
    """Replace the stored figures of measured tests, and keep those of others."""
    before = read_stored(path)
    variants = {} if before is None else dict(before.variants)
    for test, calls in change.measured.items():
        stored = {} if test in change.whole else variants.get(test, {})
        variants[test] = {**stored, **{name: StoredVariant(exact=exact) for name, exact in calls.items()}}
    for test in change.gone:
        variants.pop(test, None)
    write_baseline(path, Baseline(perfkit=perfkit.__version__, environment=change.environment, variants=variants))


def read_current_environment(device: torch.device) -> Environment:
    """The parts of the environment that can change exact counts; the rest would only fill a diff."""
    environment = read_environment(device)
    return Environment(
        hostname="",
        platform="",
        python=environment.python,
        torch=environment.torch,
        device=environment.device,
        device_name=environment.device_name,
        device_count=1,
        matmul_precision=environment.matmul_precision,
        conv_precision=environment.conv_precision,
        rnn_precision=environment.rnn_precision,
        threads=environment.threads,
        cpu_capability=environment.cpu_capability,
        cuda=environment.cuda,
    )


def list_differences(before: Environment, current: Environment) -> tuple[str, ...]:
    """Differences that can change a figure: `torch: 2.12.0 -> 2.13.0`."""
    differs = environments.compare_environments(before, current)
    return tuple(str(entry) for entry in differs if entry.effect is not environments.ComparisonEffect.TIMES)
