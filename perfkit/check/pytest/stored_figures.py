"""The stored figures of tests: one file for all of them, by the test's node id, sorted, made to be read in a diff."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

import perfkit
from perfkit.analysis.compare import environments
from perfkit.instruments.environment import read_environment
from perfkit.record import Environment
from perfkit.store.baseline import Baseline, StoredVariant, read_baseline, write_baseline

# By what a call of `perfkit_check` is named, every figure and what it is made of.
Calls = dict[str, dict[str, float]]


@dataclass(frozen=True)
class FiguresUpdate:
    """What a run of tests found. `whole` are the tests that passed, so that what they no longer ask for is gone;
    `gone` those that there are no longer."""

    measured: Mapping[str, Calls]
    environment: Environment
    whole: frozenset[str] = frozenset()
    gone: frozenset[str] = field(default=frozenset())


def read_stored(path: Path) -> Baseline | None:
    """The stored figures; None where there is no file. A `RunFormatError` for one that is no such file."""
    return read_baseline(path) if path.exists() else None


def get_stored_calls(baseline: Baseline | None, test: str) -> Calls:
    """What is stored of a test."""
    variants = {} if baseline is None else baseline.variants.get(test, {})
    return {name: variant.exact for name, variant in variants.items()}


def write_stored(path: Path, change: FiguresUpdate) -> None:
    """Write what was measured over what is stored of the same tests, and leave the others' as they are."""
    before = read_stored(path)
    variants = {} if before is None else dict(before.variants)
    for test, calls in change.measured.items():
        kept = {} if test in change.whole else variants.get(test, {})
        variants[test] = {**kept, **{name: StoredVariant(exact=exact) for name, exact in calls.items()}}
    for test in change.gone:
        variants.pop(test, None)
    write_baseline(path, Baseline(perfkit=perfkit.__version__, environment=change.environment, variants=variants))


def read_current_environment(device: torch.device) -> Environment:
    """What of the environment can change a figure that is counted exactly; the rest would only fill a diff."""
    here = read_environment(device)
    return Environment(
        hostname="",
        platform="",
        python=here.python,
        torch=here.torch,
        device=here.device,
        device_name=here.device_name,
        device_count=1,
        matmul_precision=here.matmul_precision,
        conv_precision=here.conv_precision,
        rnn_precision=here.rnn_precision,
        threads=here.threads,
        cpu_capability=here.cpu_capability,
        cuda=here.cuda,
    )


def list_differences(before: Environment, now: Environment) -> tuple[str, ...]:
    """What differs and can change a figure: `torch: 2.12.0 -> 2.13.0`."""
    differs = environments.compare_environments(before, now)
    return tuple(str(entry) for entry in differs if entry.effect is not environments.ComparisonEffect.TIMES)
