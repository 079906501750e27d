"""Measured ceilings, kept per machine: one JSON file per fingerprint under the user's cache folder.

A ceiling is a maximum, so that of all calibrations of a machine the best value of each level, dtype and number of
threads holds, whichever day it is from.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from perfkit.core.cache_folder import get_cache_folder
from perfkit.core.errors import PerfkitError, RunFormatError
from perfkit.core.files import read_json, write_json
from perfkit.core.note import make_note
from perfkit.core.spec import Struct
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingLevel, DeviceCeilings
from perfkit.devices.ceilings.repeats import SPREAD_TOLERANCE, KernelRepeats
from perfkit.devices.machine.fingerprint import make_file_stem

CACHE_VERSION = 4

# Calibrations that are kept besides those that still hold a best value.
_LATEST = 8

Threads = int | None  # None on a GPU


class MachineCalibration(Struct):
    """One calibration of a machine: its ceilings with the time in each, and the repeats that they come from."""

    full: bool
    measured: DeviceCeilings
    repeats: tuple[KernelRepeats, ...] = ()

    def threads(self) -> frozenset[Threads]:
        return frozenset(ceiling.threads for ceiling in self.measured.ceilings)


class CachedCeilings(Struct):
    """The calibrations of one machine, oldest first, at least one.

    `exceeded_threads` are the numbers of threads with a ceiling that work has been faster than since they were
    calibrated.
    """

    schema_version: int = CACHE_VERSION
    calibrations: tuple[MachineCalibration, ...]
    exceeded_threads: tuple[Threads, ...] = ()

    @property
    def measured(self) -> DeviceCeilings:
        """The best of each ceiling, with the notes of the latest calibration of each number of threads."""
        latest = {count: calibration for calibration in self.calibrations for count in calibration.threads()}
        last = self.calibrations[-1].measured
        return replace(
            last,
            ceilings=tuple(select_best_ceilings(self.calibrations).values()),
            notes=tuple(
                dict.fromkeys(
                    note
                    for calibration in self.calibrations
                    if calibration in latest.values() or calibration is self.calibrations[-1]
                    for note in calibration.measured.notes
                )
            ),
        )

    @property
    def repeats(self) -> tuple[KernelRepeats, ...]:
        """Those of the latest calibration of each number of threads."""
        latest = {kernel.threads: run for run in self.calibrations for kernel in run.repeats}
        return tuple(
            kernel
            for calibration in self.calibrations
            for kernel in calibration.repeats
            if latest[kernel.threads] is calibration
        )

    def threads(self) -> frozenset[Threads]:
        """The numbers of threads that have been calibrated."""
        return frozenset(count for calibration in self.calibrations for count in calibration.threads())

    def full(self) -> frozenset[Threads]:
        """Those that have been calibrated in full."""
        return frozenset(
            count for calibration in self.calibrations if calibration.full for count in calibration.threads()
        )

    def list_doubtful_threads(self) -> frozenset[Threads]:
        """Those to be measured again: no calibration of a ceiling was undisturbed, or work was faster than one."""
        disturbed = (ceiling.threads for ceiling in self.measured.ceilings if ceiling.disturbance)
        return frozenset((*disturbed, *self.exceeded_threads)) & self.threads()


Key = tuple[CeilingLevel, str | None, Threads]


def _make_key(ceiling: Ceiling) -> Key:
    return ceiling.level, ceiling.dtype, ceiling.threads


def select_best_ceilings(calibrations: Iterable[MachineCalibration]) -> dict[Key, Ceiling]:
    """The highest ceiling of each level, dtype and number of threads.

    What a disturbed calibration reached was reached, and counts. The result is called disturbed unless an undisturbed
    one came as close as two good ones do: one that found less was not that good.
    """
    highest: dict[Key, Ceiling] = {}
    undisturbed: dict[Key, float] = {}
    for ceiling in (ceiling for calibration in calibrations for ceiling in calibration.measured.ceilings):
        key = _make_key(ceiling)
        highest[key] = max(highest.get(key, ceiling), ceiling, key=lambda each: each.value)
        if not ceiling.disturbance:
            undisturbed[key] = max(undisturbed.get(key, 0.0), ceiling.value)
    return {
        key: replace(ceiling, disturbance="")
        if undisturbed.get(key, 0.0) >= (1 - SPREAD_TOLERANCE) * ceiling.value
        else ceiling
        for key, ceiling in highest.items()
    }


def get_ceilings_path(fingerprint: str) -> Path:
    """The file that holds the measured ceilings of a machine."""
    return get_cache_folder() / "ceilings" / f"{make_file_stem(fingerprint)}.json"


def load_ceilings(fingerprint: str) -> CachedCeilings | None:
    """Load the ceilings measured on this machine; None if there are none.

    A file that cannot be read is a `RunFormatError`.
    """
    file = get_ceilings_path(fingerprint)
    if not file.exists():
        return None
    cached = read_json(file, CachedCeilings, remedy="calibrate again")
    if not cached.calibrations:
        raise RunFormatError(f"{file}: not a calibration; delete it")
    if cached.measured.fingerprint != fingerprint:
        raise RunFormatError(f"{file}: ceilings of another machine ({cached.measured.fingerprint}); delete it")
    return cached


def store_calibration(measured: DeviceCeilings, repeats: Sequence[KernelRepeats], *, full: bool) -> CachedCeilings:
    """Add a calibration to the cache and return the cache's contents.

    Its numbers of threads are no longer refuted, since measuring again would not find more. An unreadable file is
    replaced; if none can be written, the ceilings are returned with a note.
    """
    dated = replace(
        measured, ceilings=tuple(_set_measured_at(ceiling, measured.measured_at) for ceiling in measured.ceilings)
    )
    calibration = MachineCalibration(full=full, measured=dated, repeats=tuple(repeats))
    old = _load_readable(measured.fingerprint)
    new = CachedCeilings(
        calibrations=_prune_calibrations((*(old.calibrations if old else ()), calibration)),
        exceeded_threads=tuple(
            count for count in (old.exceeded_threads if old else ()) if count not in calibration.threads()
        ),
    )
    try:
        write_json(get_ceilings_path(measured.fingerprint), new)
    except PerfkitError as error:
        text = f"the calibration could not be saved and will be repeated next time: {error}"
        note = make_note("ceilings.not_saved", text, error_id=error.id)
        noted = replace(calibration, measured=replace(dated, notes=(*dated.notes, note)))
        return replace(new, calibrations=(*new.calibrations[:-1], noted))
    return new


def refute_ceilings(fingerprint: str, beaten: Iterable[Ceiling]) -> None:
    """Keep that work was faster than these ceilings, so that their threads are measured again next time.

    Only what holds no higher value by now is. A machine that was not calibrated, and a file that cannot be read or
    written, are left as they are.
    """
    old = _load_readable(fingerprint)
    if old is None:
        return
    best = select_best_ceilings(old.calibrations)
    low = [each for each in beaten if (now := best.get(_make_key(each))) is not None and now.value <= each.value]
    if low:
        refuted = tuple(dict.fromkeys((*old.exceeded_threads, *(ceiling.threads for ceiling in low))))
        with suppress(PerfkitError):
            write_json(get_ceilings_path(fingerprint), replace(old, exceeded_threads=refuted))


def _load_readable(fingerprint: str) -> CachedCeilings | None:
    try:
        return load_ceilings(fingerprint)
    except RunFormatError:
        return None


def _set_measured_at(ceiling: Ceiling, measured_at: str) -> Ceiling:
    return replace(ceiling, measured_at=ceiling.measured_at or measured_at)


def _prune_calibrations(calibrations: Sequence[MachineCalibration]) -> tuple[MachineCalibration, ...]:
    """The latest calibrations, and earlier ones that still determine a ceiling."""
    kept = list(calibrations)
    for calibration in calibrations[:-_LATEST]:
        rest = [other for other in kept if other is not calibration]
        if select_best_ceilings(rest) == select_best_ceilings(kept):
            kept = rest
    return tuple(kept)
