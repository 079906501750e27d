"""Loads a device's efficiencies: learned here or shipped with perfkit, else those of similar devices."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import log, sqrt

from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.core.errors import UnavailableError
from perfkit.devices.accelerator import CPU
from perfkit.devices.catalog.capability import get_capability
from perfkit.devices.catalog.catalog import CatalogEntry, build_datasheet_ceilings, resolve_entry
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.devices.lookup.ceiling_lookup import resolve_ceilings
from perfkit.devices.machine.machine import read_cpu_model
from perfkit.plan.target.target import Target
from perfkit.plan.target.work import compute_least_time
from perfkit.plan.timing.efficiencies import Efficiencies, MeasuredDevice
from perfkit.plan.timing.efficiency_store import LearnedDevice, LearnedProgram, load_learned, load_packaged


def load_efficiencies(target: Target, threads: int) -> Efficiencies:
    """The efficiencies of a device; `threads` are those of a rank on a CPU.

    Raises:
        UnavailableError: this CPU's ceilings were not measured with this number of threads.
    """
    return _load_cpu_efficiencies(threads) if target.entry is None else _load_gpu_efficiencies(target.entry)


def get_target_ceilings(target: Target) -> DeviceCeilings:
    """The target's ceilings: measured for this CPU, from the datasheet for a GPU."""
    if target.entry is None:
        return resolve_ceilings(CPU.type, read_cpu_model(), (), calibrate=False)
    return _build_datasheet_ceilings(target.entry)


def _load_cpu_efficiencies(threads: int) -> Efficiencies:
    known = get_target_ceilings(Target())
    roofs = Roofs(known, CPU.type, known.device_name, threads)
    if roofs.find_bandwidth() is None:
        raise UnavailableError(f"no ceilings for this CPU with {threads} threads: measure them with perfkit calibrate")
    comes = {each.device: each for each in load_packaged() if each.ceilings}
    elsewhere = _collect_programs(comes.values())
    here = load_learned(known.fingerprint)
    both = _merge_learned(comes.pop(known.fingerprint, None), here)
    measured = [] if both is None else list(_split_by_threads(both, known, threads))
    own = [each for each in measured if each.roofs.threads == threads]
    near = [each for each in measured if each.roofs.threads != threads]
    others = [
        each
        for learned in comes.values()
        for each in _split_by_threads(learned, get_learned_ceilings(learned), threads)
    ]
    if own:
        source = f"learned on this machine with {threads} threads: {_join_program_names(own)}"
    elif near:
        source = f"learned on this machine with {near[0].roofs.threads} threads: {_join_program_names(near[:1])}"
    else:
        source = f"from {_join_device_names(others)}: perfkit plan --learn measures this machine"
    local_programs = tuple(each for each in _collect_programs([here] if here else []) if each.threads == threads)
    return replace(_build_efficiencies(roofs, own, [*near, *others], source), here=local_programs, elsewhere=elsewhere)


def get_learned_ceilings(learned: LearnedDevice) -> DeviceCeilings:
    return DeviceCeilings(
        device=CPU.type, device_name=learned.device_name, fingerprint=learned.device, ceilings=learned.ceilings
    )


def _split_by_threads(learned: LearnedDevice, known: DeviceCeilings, threads: int) -> Iterator[MeasuredDevice]:
    """Measurements by number of threads, nearest first; each has its own ceilings."""
    counts = {program.threads for program in learned.programs if program.threads is not None}
    for count in sorted(counts, key=lambda count: abs(count - threads)):
        roofs = Roofs(known, CPU.type, learned.device_name, count)
        if roofs.find_bandwidth() is not None:
            yield MeasuredDevice(roofs, tuple(each for each in learned.programs if each.threads == count))


def _load_gpu_efficiencies(entry: CatalogEntry) -> Efficiencies:
    known = {each.device: each for each in load_packaged() if not each.ceilings}
    here = load_learned(entry.id)
    both = _merge_learned(known.get(entry.id), here)
    if both is not None:
        known[entry.id] = both
    alike = sorted(known.values(), key=lambda each: compute_unlikeness(entry, resolve_entry(each.device)))
    measured = [each for learned in alike for each in make_measured_devices(learned)]
    nearest = resolve_entry(alike[0].device) if alike else None
    own = measured[:1] if nearest is not None and is_same_chip(entry, nearest) else []
    chip = "this GPU" if nearest is entry else f"the same chip, {_join_device_names(own)}"
    prefix = f"measured on {chip}: {_join_program_names(own)}; other ops" if own else "not measured on this GPU:"
    others = _join_device_names(measured[len(own) : len(own) + 1])
    source = f"{prefix} as on other devices, {others} first" if others else prefix
    efficiencies = _build_efficiencies(build_gpu_roofs(entry), own, measured[len(own) :], source)
    return replace(
        efficiencies, here=_collect_programs([here] if here else []), elsewhere=_collect_programs(load_packaged())
    )


def _collect_programs(learned: Iterable[LearnedDevice]) -> tuple[LearnedProgram, ...]:
    return tuple(program for each in learned for program in each.programs)


def _merge_learned(comes: LearnedDevice | None, here: LearnedDevice | None) -> LearnedDevice | None:
    """A device's programs shipped with perfkit, and those learned here."""
    return here if comes is None else comes if here is None else comes.merge_programs(here.programs)


def make_measured_devices(learned: LearnedDevice) -> Iterator[MeasuredDevice]:
    """The device's learned programs, by number of threads on a CPU."""
    if learned.ceilings:
        yield from _split_by_threads(learned, get_learned_ceilings(learned), 1)
    else:
        yield MeasuredDevice(build_gpu_roofs(resolve_entry(learned.device)), learned.programs)


def build_gpu_roofs(entry: CatalogEntry) -> Roofs:
    """A GPU's datasheet roofs, the reference for learning on any machine."""
    known = _build_datasheet_ceilings(entry)
    return Roofs(known, known.device, known.device_name)


def _build_datasheet_ceilings(entry: CatalogEntry) -> DeviceCeilings:
    return DeviceCeilings(
        device="cuda", device_name=entry.names[0], fingerprint="", ceilings=build_datasheet_ceilings(entry)
    )


def is_same_chip(entry: CatalogEntry, other: CatalogEntry) -> bool:
    """True if two GPUs differ in their memory and links alone, which the roofs have: as an A100 with 40 and 80 GB."""
    peaks = [(gpu.matrix_tflops, gpu.vector_tflops) for gpu in (entry, other)]
    shared = [(one[dtype][0], two[dtype][0]) for one, two in zip(*peaks, strict=True) for dtype in one.keys() & two]
    same_kind = (entry.vendor, get_capability(entry)) == (other.vendor, get_capability(other))
    return same_kind and bool(shared) and all(one == two for one, two in shared)


def compute_unlikeness(entry: CatalogEntry, other: CatalogEntry) -> tuple[bool, bool, float]:
    """Distance between two GPUs: by vendor, then by the ratios of peaks and bandwidths."""
    peaks = sum(
        abs(log(entry.matrix_tflops[dtype][0] / other.matrix_tflops[dtype][0]))
        for dtype in ("bf16", "fp16")
        if dtype in entry.matrix_tflops and dtype in other.matrix_tflops
    )
    bandwidths = abs(log(entry.memory_gb_s[0] / other.memory_gb_s[0]))
    return entry is not other, entry.vendor != other.vendor, peaks + bandwidths


def _build_efficiencies(
    roofs: Roofs, own: Sequence[MeasuredDevice], others: Sequence[MeasuredDevice], source: str
) -> Efficiencies:
    """With `others` behind what was measured on the device itself, as far off as they are from what is known best."""
    known = [*own, *others]
    if not known:
        raise UnavailableError("no measurements of this or a similar device: see perfkit plan --learn")
    first, second = known[0], known[min(1, len(known) - 1)]
    measured: MeasuredDevice | None = None
    for place, device in reversed(list(enumerate(known))):
        off = 0.0 if place < len(own) else _measure_offset(first if place else second, device)
        measured = replace(device, like=measured, off=off)
    assert measured is not None
    return Efficiencies(roofs, measured, source)


def _measure_offset(measured: MeasuredDevice, other: MeasuredDevice) -> float:
    """How far the times of one device are off from the curves of another, of the classes that both have measured; as
    far as any calls of the other where there are none."""
    samples = () if measured is other else (sample for program in measured.programs for sample in program.samples)
    errors = []
    for sample in samples:
        least, curve = compute_least_time(sample.work, measured.roofs), other.get_class_curve(sample.work)
        if least is not None and least.seconds and curve is not None:
            errors.append(curve.at(log(least.seconds)) - log(sample.seconds))
    if not errors:
        return max(other.curves[()].spread)
    return sqrt(sum(error**2 for error in errors) / len(errors))


def _join_program_names(measured: Iterable[MeasuredDevice]) -> str:
    return ", ".join(dict.fromkeys(program.name for each in measured for program in each.programs))


def _join_device_names(measured: Iterable[MeasuredDevice]) -> str:
    return ", ".join(dict.fromkeys(each.roofs.device_name for each in measured))
