"""Recordings of memory written by hand, with the lives of their blocks."""

from typing import Any

import numpy as np

from perfkit.analysis.memory.allocation_lifetimes import AT_START, Lifetimes
from perfkit.analysis.memory.classify import classify_blocks
from perfkit.core.allocations import (
    CATEGORIES,
    NONE,
    Allocations,
    FailedRequest,
    InitialBlock,
    TextNumbers,
    TimeBand,
    build_allocations,
)
from perfkit.core.record.trace_marks import PHASES

# Ops of stories by a word.
OPS = {
    "NODE": "autograd::engine::evaluate_function: GeluBackward0",
    "ACCUMULATE": "torch::autograd::AccumulateGrad",
    "REDUCE": "FSDP::post_backward_reduce (blocks.1)",
    "WAIT": "FSDP::post_backward_rs_wait (blocks.0)",
}


class Recording:
    """Events as they are called; the n-th happens at n nanoseconds. Blocks are numbered in the order of birth."""

    def __init__(self, known: tuple[InitialBlock, ...] = (), device: str = "cpu") -> None:
        self.known, self.device = known, device
        self.bands: list[TimeBand] = []
        self.failed: FailedRequest | None = None
        self.failures: list[int] = []
        self._names = TextNumbers()
        self._events: list[dict[str, Any]] = []
        self._lives: list[list[int]] = [
            [block.size_bytes, AT_START, NONE, number] for number, block in enumerate(known)
        ]
        self._phase = NONE
        self._visit = 0
        self._step = NONE

    @property
    def now(self) -> int:
        return len(self._events)

    def step(self, number: int) -> None:
        self._step = number

    def phase(self, name: str) -> None:
        self._phase = PHASES.index(name)
        self._visit += 1

    def outside(self) -> None:
        self._phase = NONE

    def make(self, op: str = "", size: int = 64, **texts: str) -> int:
        """Allocate a block; its number."""
        self._lives.append([size, self.now, NONE, NONE])
        self._event(size, len(self._lives), op=op, **texts)
        return len(self._lives) - 1

    def free(self, block: int, op: str = "") -> None:
        self._lives[block][2] = self.now
        self._event(-self._lives[block][0], block + 1, op=op)

    def replace(self, block: int, op: str = "") -> int:
        """Allocate a block where another was that nobody was seen to free."""
        self._lives[block][2] = self.now
        return self.make(op, self._lives[block][0])

    def unseen(self, size: int) -> int:
        """A block that was there before the recording and is in no training state."""
        self._lives.insert(len(self.known), [size, AT_START, NONE, NONE])
        return len(self.known)

    def build(self) -> tuple[Allocations, Lifetimes]:
        columns = {key: [event[key] for event in self._events] for key in self._events[0]} if self._events else {}
        built = build_allocations(
            device=self.device,
            source="by hand",
            names=self._names.list_texts(),
            known=self.known,
            bands=tuple(self.bands),
            failed=self.failed,
            failures=tuple(self.failures),
            **({"size": []} | columns),
        )
        size, born, died, known = np.array(self._lives, np.int64).reshape(-1, 4).T
        return built, Lifetimes(size=size, born=born, died=np.where(died == NONE, len(built), died), known=known)

    def categories(self) -> list[str]:
        """The category of each block."""
        return [CATEGORIES[number] for number in classify_blocks(*self.build()).tolist()]

    def _event(self, size: int, address: int, **texts: str) -> None:
        self._events.append(
            {
                "time_ns": self.now,
                "size": size,
                "address": address,
                "phase": self._phase,
                "visit": self._visit,
                "step": self._step,
                **{
                    name: self._names.number(texts.get(name, ""))
                    for name in ("op", "module", "line", "shape", "dtype", "category")
                },
            }
        )


def check(
    story: str, *, device: str = "cpu", bands: tuple[TimeBand, ...] = (), failed: FailedRequest | None = None
) -> None:
    """Whether each block of a story is for what the story says.

    A line is a phase, `outside` of any or `then`, with what happens in it: `kept=aten::mm/module*32>gradient` makes 32
    bytes that shall be found to be a gradient (`mm` stands for `aten::mm`; name, module and size may be missing),
    `-kept@NODE` frees them within an op, `~kept@NODE>gradient` takes their address, and `!` is a failed request.
    """
    recording, expected, blocks = Recording(device=device), [], dict[str, int]()
    recording.bands += bands
    recording.failed = failed
    for line in filter(None, map(str.strip, story.splitlines())):
        phase, _, events = line.partition(":")
        if phase == "outside":
            recording.outside()
        elif phase != "then":
            recording.phase(phase)
        for event in events.split():
            what, _, category = event.partition(">")
            expected += [category.replace("_", " ")] if category else []
            if event == "!":
                recording.failures.append(recording.now)
                continue
            if event[0] in "-~":
                name, _, op = what[1:].partition("@")
                act = recording.free if event[0] == "-" else recording.replace
                act(blocks[name], op=OPS.get(op, op))
                continue
            name, _, made = what.rpartition("=")
            made, _, size = made.partition("*")
            op, _, module = made.partition("/")
            plain = op and op not in OPS and "::" not in op
            op = f"aten::{op}" if plain else OPS.get(op, op)
            blocks[name] = recording.make(op, int(size or 64), module=module)
    assert recording.categories() == expected
