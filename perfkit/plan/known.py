"""The efficiencies of a device: learned here or coming with perfkit, then those of others like it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import log, sqrt

from perfkit.analysis.trace.roofs import Roofs
from perfkit.devices.catalogue import Entry, ceilings, named
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.devices.machine import cpu_model
from perfkit.devices.peak import CPU
from perfkit.devices.resolve import ceilings_for
from perfkit.errors import UnavailableError
from perfkit.plan.efficiencies import Efficiencies, Measured
from perfkit.plan.learned import Learned, Program, load, packaged
from perfkit.plan.target import Target
from perfkit.plan.work import least_time


def efficiencies_for(target: Target, threads: int) -> Efficiencies:
    """The efficiencies of a device; `threads` are those of a rank on a CPU.

    Raises:
        UnavailableError: this CPU's ceilings were not measured with so many threads.
    """
    return _of_cpu(threads) if target.entry is None else _of_gpu(target.entry)


def ceilings_of_target(target: Target) -> DeviceCeilings:
    """The ceilings of what a plan is made for: those measured of this CPU, the datasheet's of a GPU."""
    if target.entry is None:
        return ceilings_for(CPU, cpu_model(), (), calibrate=False)
    return _datasheet(target.entry)


def _of_cpu(threads: int) -> Efficiencies:
    known = ceilings_of_target(Target())
    roofs = Roofs(known, CPU, known.device_name, threads)
    if roofs.find_bandwidth() is None:
        raise UnavailableError(
            f"the ceilings of this CPU with {threads} threads are not known: measure them with perfkit calibrate"
        )
    comes = {each.device: each for each in packaged() if each.ceilings}
    elsewhere = _programs(comes.values())
    here = load(known.fingerprint)
    both = _with(comes.pop(known.fingerprint, None), here)
    measured = [] if both is None else list(_by_threads(both, known, threads))
    own = [each for each in measured if each.roofs.threads == threads]
    near = [each for each in measured if each.roofs.threads != threads]
    others = [each for learned in comes.values() for each in _by_threads(learned, ceilings_of(learned), threads)]
    if own:
        source = f"learned on this machine with {threads} threads: {_names(own)}"
    elif near:
        source = f"learned on this machine with {near[0].roofs.threads} threads: {_names(near[:1])}"
    else:
        source = f"of {_devices(others)}: perfkit plan --learn measures this machine"
    told = tuple(each for each in _programs([here] if here else []) if each.threads == threads)
    return replace(_efficiencies(roofs, own, [*near, *others], source), here=told, elsewhere=elsewhere)


def ceilings_of(learned: Learned) -> DeviceCeilings:
    return DeviceCeilings(
        device=CPU, device_name=learned.device_name, fingerprint=learned.device, ceilings=learned.ceilings
    )


def _by_threads(learned: Learned, known: DeviceCeilings, threads: int) -> Iterator[Measured]:
    """What was measured with each number of threads, the nearest first; each has ceilings of its own."""
    counts = {program.threads for program in learned.programs if program.threads is not None}
    for count in sorted(counts, key=lambda count: abs(count - threads)):
        roofs = Roofs(known, CPU, learned.device_name, count)
        if roofs.find_bandwidth() is not None:
            yield Measured(roofs, tuple(each for each in learned.programs if each.threads == count))


def _of_gpu(entry: Entry) -> Efficiencies:
    known = {each.device: each for each in packaged() if not each.ceilings}
    here = load(entry.id)
    both = _with(known.get(entry.id), here)
    if both is not None:
        known[entry.id] = both
    alike = sorted(known.values(), key=lambda each: unlikeness(entry, named(each.device)))
    measured = [each for learned in alike for each in measured_of(learned)]
    own = measured[:1] if entry.id in known else []
    told = f"measured on this GPU: {_names(own)}; other ops" if own else "not measured on this GPU:"
    others = _devices(measured[len(own) : len(own) + 1])
    source = f"{told} as on others, {others} first" if others else told
    found = _efficiencies(roofs_of_gpu(entry), own, measured[len(own) :], source)
    return replace(found, here=_programs([here] if here else []), elsewhere=_programs(packaged()))


def _programs(learned: Iterable[Learned]) -> tuple[Program, ...]:
    return tuple(program for each in learned for program in each.programs)


def _with(comes: Learned | None, here: Learned | None) -> Learned | None:
    """What comes with perfkit of a device, and what was learned of it here."""
    return here if comes is None else comes if here is None else comes.merge_programs(here.programs)


def measured_of(learned: Learned) -> Iterator[Measured]:
    """What was learned of a device, for each number of threads on a CPU."""
    if learned.ceilings:
        yield from _by_threads(learned, ceilings_of(learned), 1)
    else:
        yield Measured(roofs_of_gpu(named(learned.device)), learned.programs)


def roofs_of_gpu(entry: Entry) -> Roofs:
    """The datasheet's roofs of a GPU, which what is learned is held against on whichever machine."""
    known = _datasheet(entry)
    return Roofs(known, known.device, known.device_name)


def _datasheet(entry: Entry) -> DeviceCeilings:
    return DeviceCeilings(device="cuda", device_name=entry.names[0], fingerprint="", ceilings=ceilings(entry))


def unlikeness(entry: Entry, other: Entry) -> tuple[bool, bool, float]:
    """How unlike two GPUs are: those of one vendor first, then by the factors between their peaks and bandwidths."""
    peaks = sum(
        abs(log(entry.matrix_tflops[dtype][0] / other.matrix_tflops[dtype][0]))
        for dtype in ("bf16", "fp16")
        if dtype in entry.matrix_tflops and dtype in other.matrix_tflops
    )
    bandwidths = abs(log(entry.memory_gb_s[0] / other.memory_gb_s[0]))
    return entry is not other, entry.vendor != other.vendor, peaks + bandwidths


def _efficiencies(roofs: Roofs, own: Sequence[Measured], others: Sequence[Measured], source: str) -> Efficiencies:
    """With `others` behind what was measured on the device itself, as far off as they are from what is known best."""
    known = [*own, *others]
    if not known:
        raise UnavailableError("nothing was measured on this device or on one like it: see perfkit plan --learn")
    first, second = known[0], known[min(1, len(known) - 1)]
    measured: Measured | None = None
    for place, device in reversed(list(enumerate(known))):
        off = 0.0 if place < len(own) else _off(first if place else second, device)
        measured = replace(device, like=measured, off=off)
    assert measured is not None
    return Efficiencies(roofs, measured, source)


def _off(measured: Measured, other: Measured) -> float:
    """How far the times of one device are off from the curves of another, of the classes that both have measured; as
    far as any calls of the other where there are none."""
    samples = () if measured is other else (sample for program in measured.programs for sample in program.samples)
    errors = []
    for sample in samples:
        least, curve = least_time(sample.work, measured.roofs), other.get_class_curve(sample.work)
        if least is not None and least.seconds and curve is not None:
            errors.append(curve.at(log(least.seconds)) - log(sample.seconds))
    if not errors:
        return max(other.curves[()].spread)
    return sqrt(sum(error**2 for error in errors) / len(errors))


def _names(measured: Iterable[Measured]) -> str:
    return ", ".join(dict.fromkeys(program.name for each in measured for program in each.programs))


def _devices(measured: Iterable[Measured]) -> str:
    return ", ".join(dict.fromkeys(each.roofs.device_name for each in measured))
