"""Times collectives between ranks on this machine, in separate processes, and keeps the fastest of all calibrations."""

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from perfkit.core.cache_folder import get_cache_folder
from perfkit.core.errors import NewerFormatError, PerfkitError, RunFormatError
from perfkit.core.files import read_json, write_json
from perfkit.core.spec import Struct
from perfkit.core.units import format_percent
from perfkit.devices.accelerator import get_accelerator, is_cpu
from perfkit.devices.ceilings.ceiling import CeilingLevel, Confidence, LinkRate
from perfkit.devices.ceilings.repeats import Repeat, summarize_repeats
from perfkit.devices.links.collective_times import CollectiveTimes
from perfkit.devices.links.link_processes import run_ranks
from perfkit.devices.links.rates import merge_rates
from perfkit.devices.links.topology import GpuGroup, choose_groups, read_kinds
from perfkit.devices.machine import machine
from perfkit.devices.machine.fingerprint import build_fingerprint, make_file_stem
from perfkit.devices.machine.visible_gpus import list_visible_numbers

LINKS_VERSION = 2
_TIMEOUT_S = 600
_BUSY = 0.1  # of the time in which some task waited for a CPU, before any rank was started

Progress = Callable[[str], None]


class MachineLinks(Struct):
    """Link rates of a machine: the fastest per collective, number of ranks and size."""

    schema_version: int = LINKS_VERSION
    fingerprint: str
    rates: tuple[LinkRate, ...]


def load_link_rates(device: str, device_name: str) -> tuple[LinkRate, ...]:
    """Load the link rates measured on this machine; none if the file is damaged, a `RunFormatError` if a newer perfkit
    wrote it."""
    file = _get_links_path(device, device_name)
    try:
        return read_json(file, MachineLinks).rates if file.exists() else ()
    except NewerFormatError:
        raise
    except RunFormatError:
        return ()  # measuring again replaces it


def find_groups(device: str, ranks: int) -> tuple[GpuGroup, ...]:
    """The GPUs to measure, a group per kind of link between them, starting with those that runs use.

    A group without GPUs stands for ranks on a CPU, and for GPUs whose links NVML does not report.
    """
    order = () if is_cpu(device) else list_visible_numbers()
    kinds = read_kinds(order)
    return choose_groups(order, ranks, kinds) if kinds and len(order) >= ranks else (GpuGroup((), ""),)


def is_measurement_missing(rates: Sequence[LinkRate], ranks: int, *, short: bool, links: Sequence[str] = ("",)) -> bool:
    """True if no undisturbed measurement exists for this number of ranks over one of these `links`; unless `short`,
    short calibrations do not count."""
    of_these = [rate for rate in rates if rate.ranks == ranks and rate.link in links]
    unmeasured = set(links) - {rate.link for rate in of_these}
    return bool(unmeasured) or any(rate.disturbance or (rate.short and not short) for rate in of_these)


def measure_links(
    device: str, device_name: str, ranks: int, *, short: bool, progress: Progress = lambda _: None
) -> tuple[LinkRate, ...]:
    """Measure with this number of ranks, and return all known rates; raise a `LinksError` if a rank fails, a
    `RunFormatError` if a newer perfkit wrote this machine's file."""
    before = load_link_rates(device, device_name)  # refuses a file that it could not write again, before it takes time
    pressure = machine.read_cpu_pressure()
    groups = find_groups(device, ranks)
    timed = [
        (group, times)
        for group in groups
        for times in _time_collectives(device, ranks, short=short, progress=progress, group=group)
    ]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    crowded = is_cpu(device) and ranks > machine.count_available_cores()
    rates = [
        replace(
            _build_rate(times, ranks, get_accelerator(device).backend, now, pressure, crowded=crowded, short=short),
            gpus=group.gpus,
            link=group.link,
        )
        for group, times in timed
    ]
    labeled = {group.link for group in groups} != {""}
    # What was measured before links had a kind may be of any of them.
    kept = (rate for rate in before if not (labeled and rate.ranks == ranks and not rate.link))
    everything = merge_rates((*kept, *rates))
    with suppress(PerfkitError):  # what cannot be kept is measured again next time
        write_json(
            _get_links_path(device, device_name),
            MachineLinks(fingerprint=build_fingerprint(device, device_name), rates=everything),
        )
    return everything


def _build_rate(
    times: CollectiveTimes, ranks: int, backend: str, now: str, pressure: float | None, *, crowded: bool, short: bool
) -> LinkRate:
    """Build the rate of the best repeat. Its confidence is low if the halves differ, on a busy machine, and if ranks
    share cores; it is disturbed if both the repeats and the machine show it."""
    rates = [Repeat(rate=1 / repeat_s, windows=1, canary_before=1.0, canary_after=1.0) for repeat_s in times.repeats_s]
    summary = summarize_repeats(rates, 1.0, CeilingLevel.INTERCONNECT)
    busy = pressure is not None and pressure > _BUSY
    why = f"tasks waited for a CPU in {format_percent(pressure or 0.0)} of the time, and its repeats differ"
    return LinkRate(
        collective=times.collective,
        ranks=ranks,
        bytes=times.bytes,
        seconds=min(times.repeats_s),
        backend=backend,
        spread=summary.spread,
        confidence=Confidence.LOW if busy or crowded else summary.confidence,
        measured_at=now,
        disturbance=why if busy and summary.confidence == Confidence.LOW else "",
        repeats_s=times.repeats_s,
        short=short,
    )


def _time_collectives(
    device: str, ranks: int, *, short: bool, progress: Progress, group: GpuGroup
) -> list[CollectiveTimes]:
    on = f" on GPUs {', '.join(map(str, group.gpus))} ({group.link})" if group.gpus else ""
    progress(f"timing collectives between {ranks} ranks by {get_accelerator(device).backend}{on}")
    options = ["--short"] if short else []
    if group.gpus:
        order = list_visible_numbers()
        options.append("--gpus=" + ",".join(str(order.index(number)) for number in group.gpus))
    with tempfile.TemporaryDirectory(prefix="perfkit-") as place:
        program = [sys.executable, "-P", "-m", "perfkit.devices.links.time_collectives", str(Path(place) / "store")]
        commands = [[*program, str(rank), str(ranks), device, *options] for rank in range(ranks)]
        return msgspec.json.decode(run_ranks(commands, Path(place), _TIMEOUT_S), type=list[CollectiveTimes])


def _get_links_path(device: str, device_name: str) -> Path:
    return get_cache_folder() / "links" / f"{make_file_stem(build_fingerprint(device, device_name))}.json"
