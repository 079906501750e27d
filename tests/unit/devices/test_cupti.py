"""Versions of CUPTI as traces and packages name them, against NVIDIA's release notes."""

from importlib.metadata import PackageNotFoundError

import pytest

from perfkit.devices import cupti
from perfkit.devices.cupti import CuptiVersion


@pytest.mark.parametrize(
    ("version", "loses", "mixes"),
    [
        (CuptiVersion(12, 4), False, True),
        (CuptiVersion(12, 6, 68), False, True),  # CUDA 12.6 update 1
        (CuptiVersion(12, 6, 80), True, True),  # update 2
        (CuptiVersion(12, 6), True, True),  # a trace does not tell which
        (CuptiVersion(12, 9, 79), True, True),
        (CuptiVersion(13, 0, 85), True, True),
        (CuptiVersion(13, 1, 75), False, True),  # CUDA 13.1
        (CuptiVersion(13, 1, 115), False, False),  # update 1
        (CuptiVersion(13, 2), False, False),
    ],
)
def test_faults(version: CuptiVersion, loses: bool, mixes: bool) -> None:
    assert (version.loses_records, version.mixes_up_graphs) == (loses, mixes)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("22", CuptiVersion(12, 4)),
        ("28", CuptiVersion(12, 9)),
        ("130000", CuptiVersion(13, 0)),
        ("130100", CuptiVersion(13, 1)),
        ("x", None),
    ],
)
def test_what_kineto_writes_into_a_trace(written: str, expected: CuptiVersion | None) -> None:
    assert cupti.read_trace_version({"cupti_version": written}) == expected


def test_a_trace_that_does_not_tell() -> None:
    assert cupti.read_trace_version({}) is None
    assert cupti.read_trace_version({"cupti_version": "25"}) is None


def test_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name != "nvidia-cuda-cupti-cu12":
            raise PackageNotFoundError(name)
        return "12.6.80"

    monkeypatch.setattr(cupti, "version", version)
    assert cupti.find_installed_version() == CuptiVersion(12, 6, 80)
    assert str(cupti.find_installed_version()) == "CUPTI 12.6.80"


def test_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (cupti.derive_cuda_version("12.8"), cupti.derive_cuda_version(""), cupti.derive_cuda_version("12")) == (
        CuptiVersion(12, 8),
        None,
        None,
    )
