"""What is kept of a calibration of the links, and when it is made again; what ranks took is made up."""

from collections.abc import Sequence

import pytest

from perfkit.core.errors import RunFormatError
from perfkit.devices.ceilings.ceiling import Confidence
from perfkit.devices.links import link_calibration
from perfkit.devices.links.link_calibration import is_measurement_missing, load_link_rates, measure_links
from perfkit.devices.links.link_processes import LinksError
from perfkit.devices.links.time_collectives import CollectiveTimes
from perfkit.devices.links.topology import GpuGroup
from perfkit.devices.lookup import ceiling_lookup
from perfkit.devices.lookup.ceiling_lookup import CalibrationError, resolve_ceilings
from perfkit.devices.machine import machine


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of the repeats of the one collective that is timed."""
    seconds = [1.0e-3, 1.01e-3, 1.02e-3, 1.0e-3]
    monkeypatch.setattr(
        link_calibration,
        "_time_collectives",
        lambda *_, **__: [CollectiveTimes(collective="all-reduce", bytes=1024, repeats_s=tuple(seconds))],
    )
    monkeypatch.setattr(machine, "read_cpu_pressure", lambda: 0.0)
    monkeypatch.setattr(machine, "count_available_cores", lambda: 8)
    return seconds


def test_repeats_that_agree_are_trusted_and_kept(taken: Sequence[float]) -> None:
    (rate,) = measure_links("cpu", "", 2, short=True)
    assert (rate.seconds, rate.confidence, rate.disturbance) == (1e-3, Confidence.HIGH, "")
    assert rate.repeats_s == tuple(taken)
    assert load_link_rates("cpu", "") == (rate,)
    assert not is_measurement_missing(load_link_rates("cpu", ""), 2, short=True)
    assert is_measurement_missing(load_link_rates("cpu", ""), 4, short=True)


def test_a_short_calibration_is_not_a_full_one(taken: list[float]) -> None:
    assert is_measurement_missing(measure_links("cpu", "", 2, short=True), 2, short=False)
    taken[:] = [1.1 * each for each in taken]  # the short one stays the fastest
    measure_links("cpu", "", 2, short=False)
    assert not is_measurement_missing(load_link_rates("cpu", ""), 2, short=False)


def test_halves_that_differ_are_of_low_confidence(taken: list[float]) -> None:
    taken[2:] = [1.2e-3, 1.3e-3]
    (rate,) = measure_links("cpu", "", 2, short=True)
    assert rate.spread == pytest.approx(1 - 1 / 1.2)
    assert (rate.confidence, rate.disturbance) == (Confidence.LOW, "")


@pytest.mark.usefixtures("taken")
def test_ranks_that_share_cores_are_of_low_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "count_available_cores", lambda: 1)
    (rate,) = measure_links("cpu", "", 2, short=True)
    assert rate.confidence == Confidence.LOW


def test_what_a_busy_machine_disturbed_is_measured_again(taken: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_cpu_pressure", lambda: 0.4)
    taken[:] = [2e-3, 3e-3]
    found = resolve_ceilings("cpu", "", (), calibrate=True, ranks=[2])
    assert "40.0 %" in found.links[0].disturbance
    monkeypatch.setattr(machine, "read_cpu_pressure", lambda: 0.0)
    taken[:] = [1e-3, 1e-3]
    (rate,) = resolve_ceilings("cpu", "", (), calibrate=True, ranks=[2]).links
    assert (rate.seconds, rate.disturbance) == (1e-3, "")
    taken[:] = [0.5e-3, 0.5e-3]
    assert resolve_ceilings("cpu", "", (), calibrate=True, ranks=[2]).links == (rate,)  # known well enough


def test_a_damaged_file_is_replaced(taken: Sequence[float]) -> None:
    file = link_calibration._get_links_path("cpu", "")
    file.parent.mkdir(parents=True)
    file.write_text("{")
    assert load_link_rates("cpu", "") == ()
    (rate,) = measure_links("cpu", "", 2, short=True)
    assert load_link_rates("cpu", "") == (rate,)
    assert rate.seconds == min(taken)


def test_a_rank_that_fails_becomes_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> list[CollectiveTimes]:
        raise LinksError("rank 1 of 2 could not exchange messages: no interface")

    monkeypatch.setattr(link_calibration, "_time_collectives", fail)
    found = resolve_ceilings("cpu", "", (), calibrate=True, ranks=[2])
    assert found.links == ()
    (note,) = (note.text for note in found.notes if note.id == "ceilings.links_failed")
    assert "rank 1 of 2" in note
    assert "no interface" in note


@pytest.mark.usefixtures("taken")
def test_a_file_of_a_newer_perfkit_is_kept() -> None:
    file = link_calibration._get_links_path("cpu", "")
    file.parent.mkdir(parents=True)
    file.write_text('{"schema_version": 99}')
    with pytest.raises(RunFormatError, match="upgrade perfkit"):
        measure_links("cpu", "", 2, short=True)
    found = resolve_ceilings("cpu", "", (), calibrate=True, ranks=[2])
    (note,) = (note for note in found.notes if note.id == "ceilings.links_unreadable")
    assert note.figures == {"error_id": "file.newer_format"}
    assert file.read_text() == '{"schema_version": 99}'


KINDS = {(0, 1): "NV2", (0, 2): "SYS", (0, 3): "SYS", (1, 2): "SYS", (1, 3): "SYS", (2, 3): "NV2"}


@pytest.fixture
def bridges(taken: list[float], monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Two pairs of GPUs with a bridge each, over which messages take a tenth; the groups that were measured."""
    measured: list[tuple[int, ...]] = []

    def take(*_: object, group: GpuGroup, **__: object) -> list[CollectiveTimes]:
        measured.append(group.gpus)
        seconds = [each / (10 if group.link == "NV2" else 1) for each in taken]
        return [CollectiveTimes(collective="all-reduce", bytes=1024, repeats_s=tuple(seconds))]

    monkeypatch.setattr(link_calibration, "_time_collectives", take)
    monkeypatch.setattr(link_calibration, "list_visible_numbers", lambda: (0, 1, 2, 3))
    monkeypatch.setattr(link_calibration, "read_kinds", lambda _: KINDS)

    def fail(*_: object, **__: object) -> None:
        raise CalibrationError("only links are measured")

    monkeypatch.setattr(ceiling_lookup, "calibrate_machine", fail)
    return measured


def test_each_kind_of_link_is_measured_once_and_kept_apart(bridges: list[tuple[int, ...]]) -> None:
    rates = measure_links("cuda", "GPU", 2, short=True)
    assert bridges == [(0, 1), (0, 2)]
    assert {(rate.gpus, rate.link): rate.seconds for rate in rates} == {
        ((0, 1), "NV2"): pytest.approx(1e-4),
        ((0, 2), "SYS"): 1e-3,
    }
    assert not is_measurement_missing(rates, 2, short=True, links=["NV2", "SYS"])
    assert is_measurement_missing(rates, 2, short=True, links=["NV2", "PXB"])


@pytest.mark.usefixtures("bridges")
@pytest.mark.parametrize(("order", "link"), [((0, 1, 2, 3), "NV2"), ((1, 2, 0, 3), "SYS")])
def test_a_run_is_held_against_the_links_of_the_gpus_that_it_takes(
    monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...], link: str
) -> None:
    monkeypatch.setattr(link_calibration, "list_visible_numbers", lambda: order)
    found = resolve_ceilings("cuda", "GPU", (), calibrate=True, ranks=[2, 4])
    assert [rate.link for rate in found.links if rate.ranks == 2] == [link]
    assert [rate.link for rate in found.links if rate.ranks == 4] == ["SYS"]


@pytest.mark.usefixtures("bridges")
def test_what_was_measured_of_unknown_links_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(link_calibration, "read_kinds", lambda _: {})
        assert [rate.link for rate in measure_links("cuda", "GPU", 2, short=True)] == [""]
    found = resolve_ceilings("cuda", "GPU", (), calibrate=True, ranks=[2])
    assert [rate.link for rate in found.links] == ["NV2"]
    assert {rate.link for rate in load_link_rates("cuda", "GPU")} == {"NV2", "SYS"}


def test_ranks_are_told_their_gpus_by_cudas_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(given: list[list[str]], *_: object) -> bytes:
        commands.extend(given)
        return b"[]"

    monkeypatch.setattr(link_calibration, "run_ranks", run)
    monkeypatch.setattr(link_calibration, "list_visible_numbers", lambda: (4, 0, 5))
    link_calibration._time_collectives("cuda", 2, short=True, progress=lambda _: None, group=GpuGroup((4, 5), "NV2"))
    assert [command[-1] for command in commands] == ["--gpus=0,2"] * 2
