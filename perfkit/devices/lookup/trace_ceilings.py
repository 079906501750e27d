"""The ceilings of the device on which a trace was recorded, from what the trace itself says of it.

A trace usually comes from another machine, so what was measured on this one does not apply unless the user says that
this is where it was recorded.
"""

from typing import NamedTuple

from msgspec.structs import replace

from perfkit.core.note import Note, make_note
from perfkit.devices.accelerator import get_accelerator, is_cpu
from perfkit.devices.catalog.catalog import (
    CatalogEntry,
    build_caches,
    build_datasheet_ceilings,
    find_candidates,
    find_entry,
    load_catalog,
    resolve_entry,
)
from perfkit.devices.ceilings.ceiling import DeviceCeilings

HERE = "here"
_NEAR = 0.1  # a driver keeps some of the nominal memory for itself and counts in other units


class TraceDevice(NamedTuple):
    """The device as a trace records it: `kind` is the word for it (`cuda`, `rocm`, `cpu` ...), `name` as reported.

    `units` are its SMs or compute units and `memory_bytes` its memory, None where the trace does not tell.
    """

    kind: str
    name: str = ""
    units: int | None = None
    memory_bytes: int | None = None


class TraceCeilings(NamedTuple):
    """The ceilings, the name to show, where that name comes from, and a warning where something is amiss."""

    ceilings: DeviceCeilings
    device_name: str
    basis: str
    warning: Note | None = None


def resolve_trace_ceilings(device: TraceDevice, override: str | None = None) -> TraceCeilings:
    """Resolve the ceilings to compare a trace with.

    `override` is the user's choice: the id or name of a catalog entry (a `UsageError` if unknown), or `here` for a
    trace recorded on this machine, whose measured ceilings then come first. Without it, the name in the trace is looked
    up. An unknown device has no ceilings, and notes with advice.
    """
    if override is not None and override.strip().lower() == HERE:
        return _load_local_ceilings(device)
    if override is not None:
        chosen = resolve_entry(override)
        name, warning = chosen.names[0], None
        if is_cpu(device.kind):
            text = f"a CPU trace is compared with the datasheet of {name}, because --device says so"
            warning = make_note("ceilings.other_device", text)
        elif device.units is not None and device.units != chosen.derivation.units:
            text = (
                f"--device {chosen.id} has {chosen.derivation.units} SMs or compute units, the trace's device "
                f"{device.name!r} has {device.units}"
            )
            warning = make_note("ceilings.other_device", text, given=chosen.derivation.units, recorded=device.units)
        return TraceCeilings(_build_ceilings(device, name, chosen), name, "given with --device", warning)
    entry = find_entry(device.name, device.units)
    if entry is not None:
        return TraceCeilings(_build_ceilings(device, device.name, entry), device.name, "recorded in the trace")
    basis = "recorded in the trace" if device.name else "not recorded in the trace"
    reason = _explain_missing(device)
    known = _build_ceilings(device, device.name, None, make_note("ceilings.unknown_device", reason))
    return TraceCeilings(known, device.name, basis, make_note("ceilings.none", f"no ceilings: {reason}"))


def _build_ceilings(device: TraceDevice, name: str, entry: CatalogEntry | None, *notes: Note) -> DeviceCeilings:
    return DeviceCeilings(
        device=_normalize_kind(device),
        device_name=name,
        fingerprint="",
        ceilings=() if entry is None else build_datasheet_ceilings(entry),
        caches=() if entry is None else build_caches(entry),
        notes=notes,
    )


def _load_local_ceilings(device: TraceDevice) -> TraceCeilings:
    # Only here: it brings NVML and all that calibrates, a tenth of what the analysis of a trace imports.
    from perfkit.devices.lookup.ceiling_lookup import resolve_ceilings

    known = resolve_ceilings(_normalize_kind(device), device.name, (), calibrate=False)
    threads = max((ceiling.threads for ceiling in known.ceilings if ceiling.threads is not None), default=None)
    if threads is not None:
        # A trace does not record a CPU's number of threads, and the roof must not be too low.
        kept = tuple(ceiling for ceiling in known.ceilings if ceiling.threads == threads)
        text = f"the trace does not record its number of threads; compared with the roofs of {threads}"
        note = make_note("ceilings.unknown_threads", text, threads=threads)
        known = replace(known, ceilings=kept, notes=(*known.notes, note))
    warning = None
    if not known.ceilings:
        reason = (
            "--device here needs this machine's measured ceilings, and there are none; run `perfkit calibrate` first"
        )
        known = replace(known, notes=(make_note("ceilings.not_calibrated", reason), *known.notes))
        warning = make_note("ceilings.none", f"no ceilings: {reason}")
    return TraceCeilings(known, device.name or known.device_name, "this machine, by --device here", warning)


def _normalize_kind(device: TraceDevice) -> str:
    """The word by which ceilings and analysis agree: torch calls an AMD GPU `cuda` too."""
    return get_accelerator(device.kind).type


def _explain_missing(device: TraceDevice) -> str:
    """Explain why no ceilings are known, and what to do."""
    if is_cpu(device.kind):
        return (
            "a trace does not name its CPU; if it was recorded on this machine, run `perfkit calibrate` and "
            "give --device here"
        )
    ids = [entry.id for entry in find_candidates(device.name)] or [entry.id for entry in _find_similar(device)]
    hint = (
        f"; name it with --device {' or --device '.join(ids)}"
        if ids
        else "; name it with --device (see `perfkit devices`)"
    )
    if not device.name:
        return f"the trace does not name its device{hint}"
    if find_candidates(device.name) and device.units is None:
        return f"several devices are called {device.name!r}{hint}"
    if find_candidates(device.name):
        return (
            f"{device.name!r} with {device.units} SMs or compute units is part of that device (a slice or "
            "partition), with an unknown share of the bandwidth"
        )
    if ids:
        return (
            f"{device.name!r} is not in the catalog; its {device.units} SMs or compute units and its memory "
            f"match {' and '.join(ids)}; give --device {ids[0]} if it is one"
        )
    return f"{device.name!r} is not in the catalog{hint}"


def _find_similar(device: TraceDevice) -> list[CatalogEntry]:
    """Devices with as many units and as much memory: a hint for the user, never an answer."""
    if device.units is None or device.memory_bytes is None:
        return []
    size = device.memory_bytes / 1e9
    return [
        entry
        for entry in load_catalog().devices
        if entry.derivation.units == device.units
        and entry.memory_gb is not None
        and abs(size / entry.memory_gb - 1) <= _NEAR
    ]
