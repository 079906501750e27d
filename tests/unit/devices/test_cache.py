"""Merging and keeping measured ceilings."""

from pathlib import Path

import pytest

from perfkit.devices import cache
from perfkit.devices.ceiling import DeviceCeilings, Kind, Level
from perfkit.devices.repeats import KernelRepeats
from perfkit.errors import RunFormatError
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
            ceiling(Level.MEMORY, None, value, kind=Kind.MEASURED, threads=threads) for threads, value in values.items()
        ),
        notes=(note,) if note else (),
    )


def repeats(*threads: int) -> list[KernelRepeats]:
    return [
        KernelRepeats(level=Level.MEMORY, dtype=None, threads=count, label="triad", unit="B/s", repeats=())
        for count in threads
    ]


def values(found: cache.Cached) -> dict[int | None, float]:
    return {each.threads: each.value for each in found.measured.ceilings}


def test_nothing_is_known_at_first() -> None:
    assert cache.load("machine a; torch 2") is None


def test_what_is_stored_is_loaded_for_this_machine_only() -> None:
    stored = cache.store(measured({1: 10.0}), repeats(1), full=False)
    assert cache.load("machine a; torch 2") == stored
    assert cache.load("machine a; torch 3") is None
    assert values(stored) == {1: 10.0}


def test_more_threads_are_added() -> None:
    cache.store(measured({1: 10.0}, "first"), repeats(1), full=False)
    merged = cache.store(measured({2: 19.0}, "second"), repeats(2), full=False)
    assert values(merged) == {1: 10.0, 2: 19.0}
    assert merged.measured.notes == ("first", "second")
    assert [kernel.threads for kernel in merged.repeats] == [1, 2]


def test_the_newer_of_two_short_calibrations_counts() -> None:
    cache.store(measured({1: 10.0}, "old"), repeats(1), full=False)
    merged = cache.store(measured({1: 11.0}, "new"), repeats(1), full=False)
    assert values(merged) == {1: 11.0}
    assert merged.measured.notes == ("new",)
    assert len(merged.repeats) == 1


def test_a_full_calibration_replaces_a_short_one() -> None:
    cache.store(measured({1: 10.0}), repeats(1), full=False)
    merged = cache.store(measured({1: 9.0}), repeats(1), full=True)
    assert values(merged) == {1: 9.0}
    assert merged.full == (1,)


def test_a_short_calibration_never_replaces_a_full_one() -> None:
    cache.store(measured({1: 9.0}), repeats(1), full=True)
    assert values(cache.store(measured({1: 10.0}), repeats(1), full=False)) == {1: 9.0}
    mixed = cache.store(measured({1: 10.0, 2: 19.0}), repeats(1, 2), full=False)
    assert values(mixed) == {1: 9.0, 2: 19.0}
    assert mixed.full == (1,)


def test_a_gpu_has_one_entry_without_threads() -> None:
    cache.store(measured({None: 9.0}), [], full=True)
    assert values(cache.store(measured({None: 10.0}), [], full=False)) == {None: 9.0}


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 1}', "\x00\xff", '{"schema_version": 99}'])
def test_a_damaged_file_is_reported_with_its_name_and_replaced(text: str) -> None:
    file = cache.path("machine a; torch 2")
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(RunFormatError, match=file.name):
        cache.load("machine a; torch 2")
    cache.store(measured({1: 10.0}), repeats(1), full=False)
    assert cache.load("machine a; torch 2") is not None


def test_a_file_of_another_machine_is_refused() -> None:
    cache.store(measured({1: 10.0}, key="machine b"), repeats(1), full=False)
    file = cache.path("machine a; torch 2")
    cache.path("machine b").rename(file)
    with pytest.raises(RunFormatError, match="another machine"):
        cache.load("machine a; torch 2")


def test_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache.folder() == tmp_path
    monkeypatch.delenv("PERFKIT_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.folder() == Path("/x/perfkit")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.folder() == Path.home() / ".cache/perfkit"


def test_a_folder_that_cannot_be_written_costs_the_cache_not_the_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path / "file"))
    stored = cache.store(measured({1: 10.0}), repeats(1), full=True)
    assert values(stored) == {1: 10.0}
    assert any("could not be kept" in note for note in stored.measured.notes)
