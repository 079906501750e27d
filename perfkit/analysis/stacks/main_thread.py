"""Rules about sampled frames of a main thread, by their names and the text of their lines."""

import linecache
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.stacks.hot_lines import LEAST_SAMPLES
from perfkit.core.units import format_percent
from perfkit.store.stacks import PROGRAM, SampledThread

_LEAST = 0.1  # of the samples


class _FramePattern(NamedTuple):
    """A finding about frames of functions of these names, in files whose path has one of these parts."""

    id: str
    title: str
    functions: tuple[str, ...]
    files: tuple[str, ...]
    action: str


_PATTERNS = (
    _FramePattern(
        "main_thread.data",
        "Main thread fetches or waits for data",
        ("_next_data", "_try_get_data"),
        ("torch/utils/data/",),
        "Give the DataLoader more workers (num_workers, prefetch_factor), or make samples cheaper: the lines below "
        "show where the time goes.",
    ),
    _FramePattern(
        "main_thread.synchronize",
        "Main thread waits for the device",
        ("synchronize",),
        ("torch/cuda/", "torch/xpu/", "torch/mps/", "torch/accelerator/"),
        "Call synchronize() every N steps only: the device idles until the next work is queued.",
    ),
    _FramePattern(
        "main_thread.optimizer",
        "Main thread is in the optimizer step",
        ("step",),
        ("torch/optim/",),
        "Use foreach=True or fused=True where the optimizer has it, to update all parameters in few calls.",
    ),
    _FramePattern(
        "main_thread.checkpoint",
        "Main thread saves checkpoints",
        ("save", "_save", "_legacy_save", "async_save"),
        ("torch/serialization.py", "torch/distributed/checkpoint/", "safetensors/"),
        "Save less often, to a local disk first, or asynchronously (torch.distributed.checkpoint.async_save).",
    ),
)


# Methods of tensors have no frame of their own: the line that calls them is the innermost.
_READS = (".item()", ".tolist()", ".cpu()", ".numpy()")
_READ = _FramePattern(
    "main_thread.tensor_reads",
    "Main thread reads tensor values",
    (),
    (),
    "Keep values that are only logged on the device, and read them every N steps: on a GPU each read waits for all "
    "queued work.",
)


def find_in_main_thread(
    main: SampledThread, source: Callable[[str, int], str] = linecache.getline
) -> tuple[Finding, ...]:
    """Findings about a main thread; none with few samples. The share of matching samples is the evidence.

    `source` gives the text of a line of a file, "" where it is not here.
    """
    samples = main.samples
    if samples < LEAST_SAMPLES:
        return ()
    counts = [(_count_samples(main, pattern), pattern) for pattern in _PATTERNS] + [
        (_count_tensor_reads(main, source), _READ)
    ]
    counts.sort(key=lambda counted: -counted[0])
    return tuple(
        Finding(
            id=pattern.id,
            severity="warning",
            title=pattern.title,
            variant="",
            evidence=f"{format_percent(count / samples, 0)} of {samples:,} samples",
            action=pattern.action,
            figures={"share": count / samples, "samples": samples},
        )
        for count, pattern in counts
        if count >= _LEAST * samples
    )


def find_in_main_threads(mains: Iterable[tuple[str, SampledThread]]) -> tuple[Finding, ...]:
    """Findings about the main threads of ranks, each once: of the rank with the largest share, which is named. Each
    comes with the name of its rank, "" for a process without one."""
    found: dict[str, list[tuple[str, Finding]]] = {}
    for rank, main in mains:
        for finding in find_in_main_thread(main):
            found.setdefault(finding.id, []).append((rank, finding))
    largest = [max(of_ranks, key=lambda found: found[1].figures["share"]) for of_ranks in found.values()]
    largest.sort(key=lambda found: -found[1].figures["share"])
    return tuple(_name_rank(finding, rank, len(found[finding.id])) for rank, finding in largest)


def _name_rank(finding: Finding, rank: str, ranks: int) -> Finding:
    if not rank:
        return finding
    others = f", the most of {ranks} ranks" if ranks > 1 else ""
    return msgspec.structs.replace(finding, evidence=f"{rank}: {finding.evidence}{others}")


def _count_samples(main: SampledThread, pattern: _FramePattern) -> int:
    matching = {
        place
        for place, function in enumerate(main.functions)
        if function.name.rpartition(".")[2] in pattern.functions
        and any(part in function.file.replace("\\", "/") for part in pattern.files)
    }
    return sum(
        sample.count
        for sample in main.stack_samples
        if any(call.function in matching for call in main.stack(sample.node))
    )


def _count_tensor_reads(main: SampledThread, source: Callable[[str, int], str]) -> int:
    """Samples whose innermost line is the program's and reads a tensor."""
    count = 0
    for sample in main.stack_samples:
        call = next(iter(main.stack(sample.node)), None)
        if call is not None and main.functions[call.function].owner == PROGRAM:
            text = source(main.functions[call.function].file, call.line)
            count += sample.count * any(read in text for read in _READS)
    return count
