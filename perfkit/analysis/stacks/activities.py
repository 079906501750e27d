"""What a training thread does besides training, by the frames and the text of sampled lines."""

import linecache
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

from perfkit.analysis.model.stacks import LoopActivity
from perfkit.store.stacks import DATA, PROGRAM, SampledThread, StackSamples


class ActivityPattern(NamedTuple):
    """An activity: frames of these functions (all, if none is named) in files whose path has one of these parts, or a
    line of the program, innermost, whose text has one of these `lines`."""

    name: str
    functions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


# Of each sample, the first that matches.
PATTERNS = (
    ActivityPattern("deep_copies", ("deepcopy",), ("/copy.py",)),
    ActivityPattern(
        "checkpoints",
        ("save", "_save", "_legacy_save", "async_save", "save_file"),
        ("torch/serialization.py", "torch/distributed/checkpoint/", "safetensors/"),
    ),
    ActivityPattern(
        "worker_starts",
        ("__init__", "_shutdown_workers", "_try_put_index"),
        ("torch/utils/data/dataloader.py",),
    ),
    ActivityPattern(
        "file_reads",
        ("load", "read_array", "loadtxt", "genfromtxt", "read_csv", "read_parquet", "open", "read_text", "read_bytes"),
        ("numpy/lib/", "torch/serialization.py", "pandas/io/", "PIL/Image.py", "h5py/", "/pathlib"),
        (".read()", ".readlines()"),
    ),
    ActivityPattern("printing", (), ("torch/_tensor_str.py", "/logging/__init__.py", "/warnings.py"), ("print(",)),
    ActivityPattern("tensor_reads", (), (), (".item()", ".tolist()", ".cpu()", ".numpy()")),
)

# Python that none of the patterns names: of the samples with the GIL held, outside of torch and of data loading.
PYTHON = "python"
_TORCH = "/torch/"


def measure_activities(
    threads: Iterable[SampledThread], source: Callable[[str, int], str] = linecache.getline
) -> tuple[LoopActivity, ...]:
    """The activities of threads that do the same work, the longest first, as shares of their samples.

    `source` gives the text of a line of a file, "" where it is not here.
    """
    samples = 0
    counts: Counter[str] = Counter()
    lines: dict[str, Counter[str]] = {}
    for thread in threads:
        matcher = _Matcher(thread, lru_cache(maxsize=None)(source))
        samples += thread.samples
        for sample in thread.stack_samples:
            _count(matcher, sample, matcher.find_activity(sample), counts, lines)
        for sample in thread.lock_samples or ():
            if matcher.is_python(sample):
                _count(matcher, sample, PYTHON, counts, lines)
    return tuple(
        LoopActivity(name=name, samples=count, share=count / samples, place=lines[name].most_common(1)[0][0])
        for name, count in counts.most_common()
    )


def _count(
    matcher: "_Matcher", sample: StackSamples, name: str, counts: Counter[str], lines: dict[str, Counter[str]]
) -> None:
    if name:
        counts[name] += sample.count
        lines.setdefault(name, Counter())[matcher.locate(sample)] += sample.count


class _Matcher:
    """The patterns that the functions of a thread match."""

    def __init__(self, thread: SampledThread, source: Callable[[str, int], str]) -> None:
        self.thread, self.source = thread, source
        self.functions = [
            frozenset(
                pattern.name
                for pattern in PATTERNS
                if any(part in function.file.replace("\\", "/") for part in pattern.files)
                and (not pattern.functions or function.name.rpartition(".")[2] in pattern.functions)
            )
            for function in thread.functions
        ]

    def find_activity(self, sample: StackSamples) -> str:
        """The activity of a sample, "" for none. What makes a batch has findings of its own."""
        calls = list(self.thread.stack(sample.node))
        if not calls:
            return ""
        matching = frozenset[str]().union(*(self.functions[call.function] for call in calls))
        if sample.phase == DATA:
            matching &= {"worker_starts"}
        else:
            inner = self.thread.functions[calls[0].function]
            text = self.source(inner.file, calls[0].line) if inner.owner == PROGRAM else ""
            matching |= {pattern.name for pattern in PATTERNS if any(part in text for part in pattern.lines)}
        return next((pattern.name for pattern in PATTERNS if pattern.name in matching), "")

    def is_python(self, sample: StackSamples) -> bool:
        """True for the program's own Python, or a library's outside of torch, that no pattern names."""
        calls = list(self.thread.stack(sample.node))
        if not calls or sample.phase == DATA or self.find_activity(sample):
            return False
        inner = self.thread.functions[calls[0].function]
        return inner.owner == PROGRAM or (inner.owner != "perfkit" and _TORCH not in inner.file.replace("\\", "/"))

    def locate(self, sample: StackSamples) -> str:
        """The program's innermost line: `function (file:line)`."""
        for call in self.thread.stack(sample.node):
            function = self.thread.functions[call.function]
            if function.owner == PROGRAM:
                name, file = function.name.rpartition(".")[2], PurePath(function.file).name
                return f"{name} ({file}:{call.line})"
        return ""
