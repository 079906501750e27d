"""Which ceilings a trace is held against: the recorded name, the user's word, and advice where neither helps."""

import pytest

from perfkit.core.errors import UsageError
from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.devices.lookup.trace_ceilings import TraceDevice, resolve_trace_ceilings
from perfkit.devices.machine.fingerprint import build_fingerprint

A100_BOARD = TraceDevice("cuda", "NVIDIA Graphics Device", 108, 42_297_524_224)  # a board without a name


def test_the_recorded_name_gives_the_datasheet() -> None:
    found = resolve_trace_ceilings(TraceDevice("cuda", "NVIDIA H100 80GB HBM3", 132))
    ceiling = found.ceilings.find(CeilingLevel.MATRIX, "bf16")
    assert ceiling.value == pytest.approx(989.4e12)
    assert "trace" in found.basis
    assert found.warning is None
    assert found.ceilings.device == "cuda"


def test_the_users_word_goes_before_the_traces() -> None:
    found = resolve_trace_ceilings(TraceDevice("cuda", "NVIDIA H100 80GB HBM3"), "h100-pcie")
    assert found.device_name == "NVIDIA H100 PCIe"
    assert "--device" in found.basis
    assert found.warning is None
    with pytest.raises(UsageError, match="'h100-sxm'"):
        resolve_trace_ceilings(A100_BOARD, "h100-sxmm")


def test_a_device_that_contradicts_the_trace_is_used_with_a_warning() -> None:
    found = resolve_trace_ceilings(TraceDevice("cuda", "NVIDIA A100-SXM4-40GB", 108), "h100-sxm")
    assert found.ceilings.ceilings
    assert found.warning is not None
    assert (found.warning.id, sorted(found.warning.figures.values())) == ("ceilings.other_device", [108, 132])
    warning = resolve_trace_ceilings(TraceDevice("cpu"), "h100-sxm").warning
    assert warning is not None
    assert "CPU" in warning.text


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (A100_BOARD, "--device a100-sxm-40gb"),
        (TraceDevice("rocm", "AMD Radeon Graphics", 104, 68_702_699_520), "mi210 and mi250"),
        (TraceDevice("cuda", "NVIDIA H999"), "perfkit devices"),
        (TraceDevice("cuda"), "does not name its device"),
        (TraceDevice("cuda", "NVIDIA GeForce RTX 3080"), "--device rtx-3080-12gb or --device rtx-3080"),
        (TraceDevice("cuda", "AMD Instinct MI300X", 38), "partition"),
        (TraceDevice("cuda", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 14, 5 * 2**30), "MIG 1g.5gb"),
        (TraceDevice("cpu"), "--device here"),
    ],
)
def test_an_unknown_device_has_no_ceilings_and_advice(device: TraceDevice, said: str) -> None:
    found = resolve_trace_ceilings(device)
    assert found.ceilings.ceilings == ()
    assert found.warning is not None
    assert found.warning.id == "ceilings.none"
    assert said in found.warning.text


def test_measured_ceilings_need_the_users_word() -> None:
    key = build_fingerprint("cpu", "")
    measured = tuple(
        Ceiling(
            level=CeilingLevel.MEMORY,
            dtype=None,
            value=count * 1e10,
            unit="B/s",
            kind=CeilingKind.MEASURED,
            source="s",
            threads=count,
        )
        for count in (1, 2)
    )
    ceilings_cache.store_calibration(
        DeviceCeilings(device="cpu", device_name="a CPU", fingerprint=key, ceilings=measured), [], full=True
    )
    assert resolve_trace_ceilings(TraceDevice("cpu")).ceilings.ceilings == ()
    found = resolve_trace_ceilings(TraceDevice("cpu"), "here")
    assert [(ceiling.threads, ceiling.value) for ceiling in found.ceilings.ceilings] == [(2, 2e10)]
    assert ("ceilings.unknown_threads", {"threads": 2}) in [(note.id, note.figures) for note in found.ceilings.notes]
    assert "this machine" in found.basis


def test_here_without_a_calibration_says_what_to_do() -> None:
    found = resolve_trace_ceilings(TraceDevice("cpu"), "here")
    assert found.ceilings.ceilings == ()
    assert found.warning is not None
    assert "perfkit calibrate" in found.warning.text
