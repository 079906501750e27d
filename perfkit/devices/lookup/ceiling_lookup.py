"""The ceilings that hold for a run: the datasheet's, and those measured on this machine."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from perfkit.core.errors import PerfkitError, RunFormatError
from perfkit.core.files import read_json
from perfkit.core.note import Note, make_note
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.calibration.calibrate import CalibrationRepeats, get_repeats_path
from perfkit.devices.catalog.catalog import build_caches, build_datasheet_ceilings, find_entry
from perfkit.devices.ceilings.ceiling import Confidence, DeviceCeilings, LinkRate
from perfkit.devices.links import link_calibration as between_ranks
from perfkit.devices.links.link_processes import LinksError
from perfkit.devices.links.rates import select_link_rates
from perfkit.devices.machine.device_choice import CALIBRATED
from perfkit.devices.machine.fingerprint import build_fingerprint

Progress = Callable[[str], None]


class CalibrationError(PerfkitError):
    """A calibration did not finish; the message ends with its last output."""

    id = "calibration.unfinished"


def _ignore_progress(_: str) -> None:
    return None


def resolve_ceilings(
    device: str,
    device_name: str,
    threads: Sequence[int],
    *,
    calibrate: bool,
    progress: Progress = _ignore_progress,
    ranks: Sequence[int] = (),
) -> DeviceCeilings:
    """Every ceiling known for a device: measured ones first, then the datasheet's.

    `device` is torch's type, `device_name` the name recorded by the worker, `threads` the numbers of threads that
    runs use (ignored on a GPU), `ranks` the number of communicating ranks. With `calibrate`, ceilings that are unknown,
    were always disturbed, or have been refuted since are measured now if the device is one of `CALIBRATED`, in the
    short version, in a separate process, which takes up to 15 s per number of threads. A failed calibration or an
    unreadable cache becomes a note, since a run is useful without ceilings.
    """
    notes: list[Note] = []
    calibrate = calibrate and device in CALIBRATED
    key = build_fingerprint(device, device_name)
    try:
        cached = ceilings_cache.load_ceilings(key)
    except RunFormatError as error:
        notes.append(make_note("ceilings.unreadable", f"measured ceilings ignored: {error}", error_id=error.id))
        cached = None
    wanted: tuple[int | None, ...] = tuple(dict.fromkeys(threads)) if is_cpu(device) else (None,)
    missing = [
        count for count in wanted if cached is None or count not in cached.threads() - cached.list_doubtful_threads()
    ]
    if missing and calibrate:
        try:
            cached = calibrate_machine(
                device,
                [count for count in missing if count is not None],
                short=True,
                progress=progress,
                device_name=device_name,
            )
        except CalibrationError as error:
            notes.append(make_note("ceilings.calibration_failed", error, error_id=error.id))
    elif any(cached is None or count not in cached.threads() for count in missing):
        notes.append(make_note("ceilings.not_calibrated", "not calibrated on this machine; run `perfkit calibrate`"))
    measured = cached.measured if cached is not None else None
    notes += [] if measured is None else _list_doubts(measured)
    links: tuple[LinkRate, ...] = ()
    try:
        links = between_ranks.load_link_rates(device, device_name)
        groups = {count: between_ranks.find_groups(device, count) for count in ranks}
        for count in ranks:
            kinds = [group.link for group in groups[count]]
            if calibrate and between_ranks.is_measurement_missing(links, count, short=True, links=kinds):
                try:
                    links = between_ranks.measure_links(device, device_name, count, short=True, progress=progress)
                except LinksError as error:
                    notes.append(make_note("ceilings.links_failed", error, error_id=error.id))
        for count in ranks:
            links = select_link_rates(links, count, groups[count][0].link)  # ranks take the first GPUs
    except RunFormatError as error:
        notes.append(make_note("ceilings.links_unreadable", f"measured links ignored: {error}", error_id=error.id))
    entry = find_entry(device_name) if not is_cpu(device) else None
    sheet = () if entry is None else build_datasheet_ceilings(entry)
    if is_cpu(device):
        notes.append(make_note("ceilings.no_datasheet", "no datasheet ceilings: the catalog lists GPUs only"))
    elif not sheet:
        notes.append(
            make_note("ceilings.no_datasheet", f"no datasheet ceilings: {device_name!r} is not in the catalog")
        )
    return DeviceCeilings(
        device=device,
        device_name=device_name,
        fingerprint=key,
        measured_at=measured.measured_at if measured else "",
        ceilings=(*(measured.ceilings if measured else ()), *sheet),
        caches=() if entry is None else build_caches(entry),
        links=links,
        notes=(*(measured.notes if measured else ()), *notes),
    )


def _list_doubts(measured: DeviceCeilings) -> list[Note]:
    """List notes on ceilings that may be too low."""
    disturbed = [ceiling for ceiling in measured.ceilings if ceiling.disturbance]
    if disturbed:
        names = ", ".join(dict.fromkeys(f"{c.dtype or ''} {c.level}".strip() for c in disturbed))
        text = (
            f"measured while the machine was busy, and possibly too low: {names} ({disturbed[0].disturbance}); "
            "`perfkit bench` and `perfkit calibrate` measure them again until undisturbed"
        )
        return [make_note("ceilings.disturbed", text)]
    if any(ceiling.confidence == Confidence.LOW for ceiling in measured.ceilings):
        text = "low confidence in some measured ceilings; on a quiet machine, run `perfkit calibrate --force`"
        return [make_note("ceilings.low_confidence", text)]
    return []


def calibrate_machine(
    device: str, threads: Sequence[int], *, short: bool, progress: Progress = _ignore_progress, device_name: str = ""
) -> ceilings_cache.CachedCeilings:
    """Measure this machine's ceilings in a separate process, merge them into the cache and return its contents.

    `device_name` selects one of several GPUs (ignored on a CPU). `progress` receives a line per measurement. Raises
    `CalibrationError` if the process fails.
    """
    with tempfile.TemporaryDirectory(prefix="perfkit-") as folder:
        out = Path(folder) / "ceilings.json"
        # With `-P` no module in the current folder shadows another.
        command = [
            sys.executable,
            "-P",
            "-m",
            "perfkit.devices.calibration.calibrate",
            "--device",
            device,
            "--out",
            str(out),
        ]
        if threads:
            command += ["--threads", ",".join(str(count) for count in threads)]
        if short:
            command.append("--short")
        if not is_cpu(device) and device_name:
            command += ["--device-name", device_name]
        last: list[str] = []
        # The parent sleeps on the pipe between lines, so it takes no time from the measurement.
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                last = [*last[-9:], line.rstrip()]
                progress(line.rstrip())
        if process.returncode != 0:
            message = " | ".join(last[-3:]) or "no output"
            raise CalibrationError(f"calibrating the {device} failed (exit code {process.returncode}): {message}")
        measured = read_json(out, DeviceCeilings, remedy="calibrate again")
        repeats = read_json(get_repeats_path(out), CalibrationRepeats, remedy="calibrate again")
    return ceilings_cache.store_calibration(measured, repeats.kernels, full=not short)
