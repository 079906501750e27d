"""Which efficiencies hold for a device."""

from math import log

import msgspec
import pytest

from perfkit.core.errors import UnavailableError
from perfkit.cost.calls.op_call import OpClass
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.plan.target.target import Target
from perfkit.plan.target.work import SMALL, UNALIGNED, Work
from perfkit.plan.timing import device_efficiencies
from perfkit.plan.timing.device_efficiencies import compute_unlikeness, is_same_chip, load_efficiencies
from perfkit.plan.timing.efficiency_store import (
    EfficiencySample,
    LearnedDevice,
    LearnedProgram,
    load_packaged,
    store_learned,
)
from tests.fixtures.figures import list_figures
from tests.fixtures.plan_roofs import ceilings

# Moves 1 MB.
COPY = Work("copy", "fp32", 0.0, 1e6, matrix=False)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_efficiencies, "load_packaged", lambda: ())
    monkeypatch.setattr(device_efficiencies, "resolve_ceilings", lambda *_, **__: ceilings())


def _copies(seconds: float, *, threads: int | None = None, name: str = "a program") -> LearnedProgram:
    sample = EfficiencySample(
        op_class="copy", dtype="fp32", matrix=False, flops=0.0, bytes=1e6, calls=1, seconds=seconds
    )
    return LearnedProgram(name=name, samples=(sample,), threads=threads)


def _gpu(device: str, seconds: float) -> LearnedDevice:
    return LearnedDevice(device=device, device_name=device, programs=(_copies(seconds),))


def _target(gpu: str) -> Target:
    return Target(device=gpu, kind="cuda", entry=resolve_entry(gpu))


def test_a_cpu_takes_what_was_learned_on_it_with_as_many_threads() -> None:
    here = ceilings()
    programs = (_copies(1e-3, threads=2), _copies(9e-3, threads=1))
    store_learned(
        LearnedDevice(device=here.fingerprint, device_name="a CPU", programs=programs, ceilings=here.ceilings)
    )
    efficiencies = load_efficiencies(Target(), 2)
    interval = efficiencies.seconds(COPY)
    assert interval is not None
    assert interval.value == pytest.approx(1e-3)
    assert list_figures(efficiencies.source) == ["2"]


def test_a_cpu_of_which_nothing_was_learned_is_as_efficient_as_the_one_that_comes_with_perfkit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = LearnedDevice(
        device="another", device_name="another CPU", programs=(_copies(4e-3, threads=2),), ceilings=ceilings().ceilings
    )
    monkeypatch.setattr(device_efficiencies, "load_packaged", lambda: (theirs,))
    efficiencies = load_efficiencies(Target(), 2)
    interval = efficiencies.seconds(COPY)
    assert interval is not None
    assert interval.value == pytest.approx(4e-3)
    assert "another CPU" in efficiencies.source


def test_what_was_learned_here_with_other_threads_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    here = ceilings()
    four = tuple(msgspec.structs.replace(ceiling, threads=4) for ceiling in here.ceilings)
    both = msgspec.structs.replace(here, ceilings=(*here.ceilings, *four))
    monkeypatch.setattr(device_efficiencies, "resolve_ceilings", lambda *_, **__: both)
    programs = (_copies(9e-3, threads=4),)
    store_learned(
        LearnedDevice(device=here.fingerprint, device_name="a CPU", programs=programs, ceilings=both.ceilings)
    )
    assert list_figures(load_efficiencies(Target(), 2).source) == ["4"]


def test_the_hosts_time_of_a_gpu_is_bounded_by_what_any_device_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [
        msgspec.structs.replace(_gpu(device, 1e-3), programs=(msgspec.structs.replace(_copies(1e-3), host_s=host_s),))
        for device, host_s in (("h100-sxm", 30e-6), ("mi300x", 40e-6))
    ]
    monkeypatch.setattr(device_efficiencies, "load_packaged", lambda: tuple(told))
    host = load_efficiencies(_target("h100-sxm"), 1).host_s(COPY)
    assert host is not None
    assert (host.low, host.value, host.high) == pytest.approx((15e-6, 30e-6, 80e-6))
    learned = (msgspec.structs.replace(_copies(1e-3, name=str(s)), host_s=s) for s in (10e-6, 12e-6))
    store_learned(LearnedDevice(device="h100-sxm", device_name="H100", programs=tuple(learned)))
    host = load_efficiencies(_target("h100-sxm"), 1).host_s(COPY)
    assert host is not None
    assert (host.low, host.value, host.high) == pytest.approx((10e-6, 11e-6, 12e-6))


def test_a_cpu_without_ceilings_is_to_be_calibrated() -> None:
    with pytest.raises(UnavailableError, match="perfkit calibrate"):
        load_efficiencies(Target(), 3)


def test_where_nothing_was_measured_anywhere_it_says_so() -> None:
    with pytest.raises(UnavailableError, match="--learn"):
        load_efficiencies(_target("h100-sxm"), 1)


def test_a_gpu_takes_what_was_learned_of_it_beside_what_comes_with_perfkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_efficiencies, "load_packaged", lambda: (_gpu("h100-sxm", 1e-3),))
    store_learned(LearnedDevice(device="h100-sxm", device_name="H100", programs=(_copies(4e-3, name="mine"),)))
    efficiencies = load_efficiencies(_target("h100-sxm"), 1)
    interval = efficiencies.seconds(COPY)
    assert interval is not None
    assert interval.value == pytest.approx(2e-3)  # both programs count alike: sqrt(1 x 4)
    assert "a program, mine" in efficiencies.source


def test_a_gpu_that_nobody_measured_is_as_efficient_as_the_most_alike_one_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_efficiencies, "load_packaged", lambda: (_gpu("mi300x", 1e-3), _gpu("h200-sxm", 1e-6)))
    efficiencies = load_efficiencies(_target("h100-nvl"), 1)
    interval = efficiencies.seconds(COPY)
    assert interval is not None
    assert efficiencies.source.startswith("not measured")
    assert f"{resolve_entry('h200-sxm').names[0]} first" in efficiencies.source
    assert resolve_entry("mi300x").names[0] not in efficiencies.source
    # At the lower bandwidth the call is that much larger than the one that was measured, and takes that much longer.
    bandwidths = resolve_entry("h100-nvl").memory_gb_s[0], resolve_entry("h200-sxm").memory_gb_s[0]
    assert interval.value == pytest.approx(1e-6 * bandwidths[1] / bandwidths[0])
    # The two that were measured are a factor of a thousand apart.
    assert log(interval.high / interval.value) == pytest.approx(1.645 * log(1000))


@pytest.mark.parametrize(
    ("gpu", "measured"), [("a800-sxm-80gb", "a100-sxm-80gb"), ("gh200-96gb", "h100-sxm"), ("mi325x", "mi300x")]
)
def test_a_chip_with_other_memory_is_as_well_known_as_the_one_that_was_measured(
    monkeypatch: pytest.MonkeyPatch, gpu: str, measured: str
) -> None:
    """Another chip that was measured as well, and is slower by a factor of 1000, does not widen the bounds."""
    learned = (_gpu("l40s", 1e-3), _gpu(measured, 1e-6))
    monkeypatch.setattr(device_efficiencies, "load_packaged", lambda: learned)
    efficiencies = load_efficiencies(_target(gpu), 1)
    interval = efficiencies.seconds(COPY)
    assert interval is not None
    assert interval.high == pytest.approx(interval.low)
    assert resolve_entry(measured).names[0] in efficiencies.source
    assert not efficiencies.source.startswith("not measured")


@pytest.mark.parametrize(
    ("gpu", "other"), [("h100-pcie", "h100-sxm"), ("a30", "a100-sxm-80gb"), ("quadro-gv100", "v100-sxm2")]
)
def test_fewer_units_are_another_chip(gpu: str, other: str) -> None:
    assert not is_same_chip(resolve_entry(gpu), resolve_entry(other))


def test_gpus_of_one_vendor_are_more_alike_and_then_those_with_like_peaks() -> None:
    near = sorted(
        ("mi300x", "l4", "h200-sxm", "a100-sxm-80gb"),
        key=lambda one: compute_unlikeness(resolve_entry("h100-sxm"), resolve_entry(one)),
    )
    assert near == ["h200-sxm", "a100-sxm-80gb", "l4", "mi300x"]


def test_what_comes_with_perfkit_knows_products_on_the_gpus_that_people_train_on() -> None:
    devices = {learned.device: learned for learned in load_packaged()}
    assert {"h100-sxm", "a100-sxm-80gb", "h200-sxm", "b200", "mi300x"} <= devices.keys()
    for learned in devices.values():
        assert all(sample.seconds > 0 for program in learned.programs for sample in program.samples)
        assert any(sample.op_class == "GEMM" for program in learned.programs for sample in program.samples)


def test_the_packaged_classes_are_those_that_work_is_classified_as() -> None:
    """A class that is renamed in the code alone would lose its efficiencies without an error."""
    stored = {sample.op_class for device in load_packaged() for run in device.programs for sample in run.samples}
    assert stored <= {*OpClass, SMALL, UNALIGNED}
    assert stored >= {SMALL, UNALIGNED}
