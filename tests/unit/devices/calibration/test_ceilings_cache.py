"""Merging and keeping measured ceilings."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.core.errors import RunFormatError
from perfkit.core.note import list_texts, make_note
from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.ceilings.ceiling import CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.devices.ceilings.repeats import KernelRepeats
from tests.fixtures.rank_traces import ceiling


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))


def measured(values: dict[int | None, float], note: str = "", key: str = "machine a; torch 2") -> DeviceCeilings:
    return DeviceCeilings(
        device="cpu",
        device_name="a",
        fingerprint=key,
        measured_at=note,
        ceilings=tuple(
            ceiling(CeilingLevel.MEMORY, None, value, kind=CeilingKind.MEASURED, threads=threads)
            for threads, value in values.items()
        ),
        notes=(make_note("ceilings.load", note),) if note else (),
    )


def repeats(*threads: int) -> list[KernelRepeats]:
    return [
        KernelRepeats(level=CeilingLevel.MEMORY, dtype=None, threads=count, label="triad", unit="B/s", repeats=())
        for count in threads
    ]


def values(found: ceilings_cache.CachedCeilings) -> dict[int | None, float]:
    return {each.threads: each.value for each in found.measured.ceilings}


def test_nothing_is_known_at_first() -> None:
    assert ceilings_cache.load_ceilings("machine a; torch 2") is None


def test_what_is_stored_is_loaded_for_this_machine_only() -> None:
    stored = ceilings_cache.store_calibration(measured({1: 10.0}), repeats(1), full=False)
    assert ceilings_cache.load_ceilings("machine a; torch 2") == stored
    assert ceilings_cache.load_ceilings("machine a; torch 3") is None
    assert values(stored) == {1: 10.0}


def test_more_threads_are_added() -> None:
    ceilings_cache.store_calibration(measured({1: 10.0}, "first"), repeats(1), full=False)
    merged = ceilings_cache.store_calibration(measured({2: 19.0}, "second"), repeats(2), full=False)
    assert values(merged) == {1: 10.0, 2: 19.0}
    assert list_texts(merged.measured.notes) == ("first", "second")
    assert [kernel.threads for kernel in merged.repeats] == [1, 2]


def test_the_best_of_all_calibrations_holds_and_says_its_day() -> None:
    ceilings_cache.store_calibration(measured({1: 10.0, 2: 19.0}, "2026-01-01"), repeats(1, 2), full=False)
    merged = ceilings_cache.store_calibration(measured({1: 11.0, 2: 18.0}, "2026-01-02"), repeats(1, 2), full=False)
    assert values(merged) == {1: 11.0, 2: 19.0}
    assert {each.threads: each.measured_at for each in merged.measured.ceilings} == {1: "2026-01-02", 2: "2026-01-01"}
    assert [made.measured.measured_at for made in merged.calibrations] == ["2026-01-01", "2026-01-02"]
    assert merged.measured.measured_at == "2026-01-02"
    assert list_texts(merged.measured.notes) == ("2026-01-02",)
    assert [kernel.threads for kernel in merged.repeats] == [1, 2]


def test_a_short_calibration_is_not_one_in_full_and_the_better_value_holds_all_the_same() -> None:
    ceilings_cache.store_calibration(measured({1: 9.0}), repeats(1), full=True)
    mixed = ceilings_cache.store_calibration(measured({1: 10.0, 2: 19.0}), repeats(1, 2), full=False)
    assert values(mixed) == {1: 10.0, 2: 19.0}
    assert mixed.full() == {1}


def test_a_gpu_has_one_entry_without_threads() -> None:
    ceilings_cache.store_calibration(measured({None: 9.0}), [], full=True)
    assert values(ceilings_cache.store_calibration(measured({None: 10.0}), [], full=False)) == {None: 10.0}


def disturbed(values: dict[int | None, float], at: str = "") -> DeviceCeilings:
    made = measured(values, at)
    return replace(
        made, ceilings=tuple(replace(each, disturbance="0 of 7 repeats undisturbed") for each in made.ceilings)
    )


def test_a_disturbed_calibration_is_doubtful_until_one_is_left_alone() -> None:
    busy = ceilings_cache.store_calibration(disturbed({1: 4.0}), [], full=False)
    assert (values(busy), busy.list_doubtful_threads()) == ({1: 4.0}, {1})
    again = ceilings_cache.store_calibration(disturbed({1: 5.0}), [], full=False)
    assert (values(again), again.list_doubtful_threads()) == ({1: 5.0}, {1})
    quiet = ceilings_cache.store_calibration(measured({1: 10.0}), [], full=False)
    assert (values(quiet), quiet.list_doubtful_threads()) == ({1: 10.0}, frozenset())


def test_a_good_earlier_calibration_stays_good() -> None:
    ceilings_cache.store_calibration(measured({1: 10.0}, "good"), [], full=False)
    after = ceilings_cache.store_calibration(disturbed({1: 4.0}, "busy"), [], full=False)
    assert (values(after), after.list_doubtful_threads()) == ({1: 10.0}, frozenset())


def test_what_was_reached_was_reached_whatever_else_was_going_on() -> None:
    ceilings_cache.store_calibration(measured({1: 10.0}, "good"), [], full=False)
    near = ceilings_cache.store_calibration(disturbed({1: 10.5}, "busy"), [], full=False)
    assert (values(near), near.list_doubtful_threads()) == ({1: 10.5}, frozenset())  # the good one is within 5 % of it
    higher = ceilings_cache.store_calibration(disturbed({1: 12.0}, "busier"), [], full=False)
    assert (values(higher), higher.list_doubtful_threads()) == ({1: 12.0}, {1})  # so the good one was not that good


def test_a_refuted_ceiling_is_doubtful_until_its_threads_are_calibrated() -> None:
    ceilings_cache.store_calibration(measured({1: 10.0, 2: 19.0}), [], full=False)
    beaten = ceiling(CeilingLevel.MEMORY, None, 19.0, kind=CeilingKind.MEASURED, threads=2)
    ceilings_cache.refute_ceilings("machine a; torch 2", [beaten, beaten, replace(beaten, threads=4)])
    known = ceilings_cache.load_ceilings("machine a; torch 2")
    assert known is not None
    assert known.list_doubtful_threads() == {2}
    assert values(known) == {1: 10.0, 2: 19.0}
    assert ceilings_cache.store_calibration(measured({1: 11.0}), [], full=False).list_doubtful_threads() == {2}
    assert ceilings_cache.store_calibration(measured({2: 19.0}), [], full=False).list_doubtful_threads() == frozenset()


def test_what_is_higher_by_now_is_not_refuted() -> None:
    """A report on an old suite says nothing of what was measured since."""
    ceilings_cache.store_calibration(measured({1: 10.0}), [], full=False)
    ceilings_cache.refute_ceilings(
        "machine a; torch 2", [ceiling(CeilingLevel.MEMORY, None, 9.0, kind=CeilingKind.MEASURED, threads=1)]
    )
    known = ceilings_cache.load_ceilings("machine a; torch 2")
    assert known is not None
    assert known.list_doubtful_threads() == frozenset()


def test_nothing_is_written_of_a_machine_that_was_never_calibrated() -> None:
    ceilings_cache.refute_ceilings(
        "machine a; torch 2", [ceiling(CeilingLevel.MEMORY, None, 10.0, kind=CeilingKind.MEASURED, threads=1)]
    )
    assert not ceilings_cache.get_ceilings_path("machine a; torch 2").exists()


def test_of_many_calibrations_those_that_hold_a_best_value_or_are_the_latest_are_kept() -> None:
    ceilings_cache.store_calibration(measured({1: 5.0}, "poor"), [], full=False)
    ceilings_cache.store_calibration(measured({1: 20.0}, "best"), [], full=False)
    for day in range(9):
        found = ceilings_cache.store_calibration(disturbed({1: 10.0}, str(day)), [], full=False)
    assert [made.measured.measured_at for made in found.calibrations] == ["best", *map(str, range(1, 9))]
    assert (values(found), found.list_doubtful_threads()) == ({1: 20.0}, frozenset())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"schema_version": 2}',
        '{"schema_version": 3}',
        "\x00\xff",
        '{"schema_version": 99}',
        '{"schema_version": 3, "calibrations": []}',
    ],
)
def test_a_damaged_file_is_reported_with_its_name_and_replaced(text: str) -> None:
    file = ceilings_cache.get_ceilings_path("machine a; torch 2")
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(RunFormatError, match=file.name):
        ceilings_cache.load_ceilings("machine a; torch 2")
    ceilings_cache.store_calibration(measured({1: 10.0}), repeats(1), full=False)
    assert ceilings_cache.load_ceilings("machine a; torch 2") is not None


def test_a_file_of_another_machine_is_refused() -> None:
    ceilings_cache.store_calibration(measured({1: 10.0}, key="machine b"), repeats(1), full=False)
    file = ceilings_cache.get_ceilings_path("machine a; torch 2")
    ceilings_cache.get_ceilings_path("machine b").rename(file)
    with pytest.raises(RunFormatError, match="another machine"):
        ceilings_cache.load_ceilings("machine a; torch 2")


def test_a_folder_that_cannot_be_written_costs_the_cache_not_the_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path / "file"))
    stored = ceilings_cache.store_calibration(measured({1: 10.0}), repeats(1), full=True)
    assert values(stored) == {1: 10.0}
    assert [note.id for note in stored.measured.notes] == ["ceilings.not_saved"]
