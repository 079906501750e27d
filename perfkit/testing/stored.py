"""The stored figures of tests: one file for all of them, by the test's node id, sorted, made to be read in a diff."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

import perfkit
from perfkit.capture.environment import environment
from perfkit.files import read_json, write_bytes
from perfkit.record import Environment
from perfkit.store.baseline import Baseline, StoredVariant

# By what a call of `perfkit_check` is named, every figure and what it is made of.
Calls = dict[str, dict[str, float]]

# What can change figures that are counted exactly, in words.
_MATTERS = {"torch": "torch", "device_name": "device", "threads": "threads", "matmul_precision": "matmul precision"}


@dataclass(frozen=True)
class Change:
    """What a run of tests found. `whole` are the tests that passed, so that what they no longer ask for is gone;
    `gone` those that there are no longer."""

    measured: Mapping[str, Calls]
    environment: Environment
    whole: frozenset[str] = frozenset()
    gone: frozenset[str] = field(default=frozenset())


def read_stored(path: Path) -> Baseline | None:
    """The stored figures; None where there is no file. A `RunFormatError` for one that is no such file."""
    return read_json(path, Baseline) if path.exists() else None


def stored_calls(baseline: Baseline | None, test: str) -> Calls:
    """What is stored of a test."""
    variants = {} if baseline is None else baseline.variants.get(test, {})
    return {name: variant.exact for name, variant in variants.items()}


def write_stored(path: Path, change: Change) -> None:
    """Write what was measured over what is stored of the same tests, and leave the others' as they are."""
    before = read_stored(path)
    variants = {} if before is None else dict(before.variants)
    for test, calls in change.measured.items():
        kept = {} if test in change.whole else variants.get(test, {})
        new = {name: StoredVariant(exact=dict(sorted(exact.items()))) for name, exact in calls.items()}
        variants[test] = dict(sorted({**kept, **new}.items()))
    for test in change.gone:
        variants.pop(test, None)
    variants = dict(sorted(variants.items()))
    baseline = Baseline(perfkit=perfkit.__version__, environment=change.environment, variants=variants)
    text = msgspec.json.encode(_short(msgspec.to_builtins(baseline)))
    write_bytes(path, msgspec.json.format(text, indent=1) + b"\n")


def _short(value: Any) -> Any:
    """Without what says nothing (defaults are put in again when it is read), and whole numbers as such."""
    if isinstance(value, dict):
        shortened = {key: _short(each) for key, each in value.items()}
        return {key: each for key, each in shortened.items() if each not in (None, {}, ())}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def environment_here(device: torch.device) -> Environment:
    """What of the environment can change a figure that is counted exactly; the rest would only fill a diff."""
    here = environment(device)
    return Environment(
        hostname="",
        platform="",
        python=here.python,
        torch=here.torch,
        device=here.device,
        device_name=here.device_name,
        device_count=1,
        matmul_precision=here.matmul_precision,
        threads=here.threads,
        cuda=here.cuda,
    )


def differences(before: Environment, now: Environment) -> tuple[str, ...]:
    """`torch 2.12.0, now 2.13.0` for each thing that differs and can change a figure."""
    old, new = msgspec.structs.asdict(before), msgspec.structs.asdict(now)
    return tuple(
        f"{title} {old[key]}, now {new[key]}"
        for key, title in _MATTERS.items()
        if old[key] != new[key] and (key != "device_name" or old["device"] == new["device"])
    )
